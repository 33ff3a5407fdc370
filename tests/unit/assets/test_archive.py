"""Image archives: the same content gives the same bytes, and the tree inside is what an image's layer should be."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from pathlib import Path

import pytest

from espalier.assets.archive import Image, Layer, write_archive


def _program(folder: Path, *, modified: float) -> Path:
    folder.mkdir()
    program = folder / "server"
    program.write_bytes(b"\x7fELF and so on")
    program.chmod(0o755)
    os.utime(program, (modified, modified))
    return program


def _images(program: Path) -> list[Image]:
    shared = Layer({"usr/bin/server": program, "usr/bin/client": "server"}, {"tmp": 0o1777})
    extra = Layer({"etc/hello": program})
    return [
        Image(("registry.k8s.io/server:v1",), (shared,), ("/usr/bin/server",)),
        Image(("registry.k8s.io/client:v1", "example.org/client:v1"), (extra, shared), ("/usr/bin/client",), "1:1"),
    ]


def _members(archive: Path) -> dict[str, bytes]:
    with tarfile.open(archive) as tar:
        return {entry.name: file.read() for entry in tar if (file := tar.extractfile(entry)) is not None}


def test_archives_of_two_writers_are_byte_equal(tmp_path: Path) -> None:
    first, second = _program(tmp_path / "here", modified=0), _program(tmp_path / "there", modified=1e9)
    write_archive(_images(first), tmp_path / "one.tar")
    write_archive(_images(second), tmp_path / "other.tar")
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "other.tar").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here", "one.tar", "other.tar", "there"]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_archive(_images(_program(tmp_path / "here", modified=5)), tmp_path / "images.tar")
    return tmp_path / "images.tar"


def test_everything_in_archive_is_found_by_its_digest(archive: Path, tmp_path: Path) -> None:
    members = _members(archive)
    blobs = {name: content for name, content in members.items() if name.startswith("blobs/sha256/")}
    assert all(hashlib.sha256(content).hexdigest() == name.rpartition("/")[2] for name, content in blobs.items())
    index = json.loads(members["index.json"])
    names = [entry["annotations"]["io.containerd.image.name"] for entry in index["manifests"]]
    assert names == ["registry.k8s.io/server:v1", "registry.k8s.io/client:v1", "example.org/client:v1"]
    for entry in index["manifests"]:
        manifest = json.loads(members[f"blobs/{entry['digest'].replace(':', '/')}"])
        config = json.loads(members[f"blobs/{manifest['config']['digest'].replace(':', '/')}"])
        assert config["rootfs"]["diff_ids"] == [layer["digest"] for layer in manifest["layers"]]
        assert all(f"blobs/{layer['digest'].replace(':', '/')}" in blobs for layer in manifest["layers"])
    assert len(blobs) == 2 + 2 + 2  # two layers, one of them shared; a config and a manifest for each image


def test_returned_digests_are_those_of_manifests(tmp_path: Path) -> None:
    digests = write_archive(_images(_program(tmp_path / "here", modified=5)), tmp_path / "images.tar")
    index = json.loads(_members(tmp_path / "images.tar")["index.json"])
    assert digests == {
        entry["annotations"]["io.containerd.image.name"]: entry["digest"] for entry in index["manifests"]
    }


def test_layer_has_folders_first_and_no_times(tmp_path: Path) -> None:
    layer = io.BytesIO()
    _images(_program(tmp_path / "here", modified=5))[0].layers[0].write(layer)
    layer.seek(0)
    with tarfile.open(fileobj=layer) as tar:
        entries = {entry.name: entry for entry in tar}
    assert list(entries) == ["tmp", "usr", "usr/bin", "usr/bin/client", "usr/bin/server"]
    assert {(entry.uid, entry.gid, entry.mtime, entry.uname) for entry in entries.values()} == {(0, 0, 0, "")}
    assert entries["tmp"].mode == 0o1777
    assert entries["usr/bin/server"].mode == 0o755
    assert entries["usr/bin/client"].linkname == "server"


def test_missing_file_leaves_no_scratch_behind(tmp_path: Path) -> None:
    image = Image(("a:1",), (Layer({"bin/server": tmp_path / "nowhere"}),), ("/bin/server",))
    with pytest.raises(FileNotFoundError, match="nowhere"):
        write_archive([image], tmp_path / "images.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["images.tar"]
