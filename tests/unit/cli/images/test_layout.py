"""Image layouts: several architectures, shared layers, statements, and the same bytes each time."""

from __future__ import annotations

import gzip
import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from espalier.assets.archive import Layer
from espalier.cli.local.images.layout import INDEX, Layout, PackedLayer

TAG = "registry.example:5000/espalier:v1"


def compress(source: Path, target: Path) -> None:
    target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def written(folder: Path, *, order: tuple[str, ...] = ("amd64", "arm64")) -> tuple[Path, dict[str, Any]]:
    """An archive of images whose last layer is the same for both."""
    folder.mkdir()
    (folder / "program").write_text("the same for all")
    for name in order:
        (folder / name).write_text(name)
    layout = Layout(folder / "layout", compress)
    images, statements = {}, []
    packed: dict[str, list[PackedLayer]] = {}
    for name in order:
        layers = {"Python": Layer({"python": folder / name}), "espalier": Layer({"program": folder / "program"})}
        packed[name] = [layout.layer(content, layer) for content, layer in layers.items()]
        images[name] = layout.image(name, packed[name], {"Entrypoint": ["/python"]})
        statements.append(layout.statement("application/spdx+json", name.encode(), images[name]))
    listed = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [images[name] for name in sorted(images)]}
    index = layout.document(INDEX, listed)
    target = folder / "images.tar"
    layout.archive(
        target, TAG, index, images["amd64"], sorted(statements, key=lambda statement: str(statement["digest"]))
    )
    assert packed["amd64"][1] is packed["arm64"][1]
    return target, {**index}


def blobs_of(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry)) is not None}


def test_archive_has_an_index_of_both_platforms(tmp_path: Path) -> None:
    archive, index = written(tmp_path / "first")
    files = blobs_of(archive)
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"
    top, *statements = json.loads(files["index.json"])["manifests"]
    assert top["digest"] == index["digest"]
    assert top["annotations"] == {"io.containerd.image.name": TAG, "org.opencontainers.image.ref.name": "v1"}
    images = json.loads(files[place(top)])["manifests"]
    assert [image["platform"] for image in images] == [
        {"architecture": "amd64", "os": "linux"},
        {"architecture": "arm64", "os": "linux"},
    ]
    manifests = [json.loads(files[place(image)]) for image in images]
    assert manifests[0]["layers"][0] != manifests[1]["layers"][0]
    assert manifests[0]["layers"][1] == manifests[1]["layers"][1]
    for manifest in manifests:
        config = json.loads(files[place(manifest["config"])])
        layers = [gzip.decompress(files[place(layer)]) for layer in manifest["layers"]]
        assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    subjects = {json.loads(files[place(statement)])["subject"]["digest"] for statement in statements}
    assert subjects == {image["digest"] for image in images}


def test_docker_loads_the_image_of_this_machine(tmp_path: Path) -> None:
    archive, _ = written(tmp_path / "first")
    files = blobs_of(archive)
    (image,) = json.loads(files["manifest.json"])
    assert image["RepoTags"] == [TAG]
    assert json.loads(files[image["Config"]])["architecture"] == "amd64"
    assert all(layer in files for layer in image["Layers"])


def test_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    first, _ = written(tmp_path / "first")
    second, _ = written(tmp_path / "second", order=("arm64", "amd64"))
    assert first.read_bytes() == second.read_bytes()


def test_failed_archive_leaves_what_was_there(tmp_path: Path) -> None:
    target = tmp_path / "images.tar"
    target.write_text("the last good one")
    layout = Layout(tmp_path / "layout", compress)
    image = layout.image("amd64", [], {})
    (tmp_path / "layout/blobs/sha256/unreadable").mkdir()
    with pytest.raises(OSError, match="unreadable"):
        layout.archive(target, TAG, image, image, [])
    assert target.read_text() == "the last good one"
    assert {path.name for path in tmp_path.iterdir()} == {"images.tar", "layout"}


def place(descriptor: dict[str, Any]) -> str:
    return f"blobs/{descriptor['digest'].replace(':', '/')}"
