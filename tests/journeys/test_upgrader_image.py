"""The upgrader image, built from real components; what is in it runs with nothing else around."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.assets.base import Base, find_bases
from espalier.cli.local.images.upgrader_archives import built_images
from espalier.cli.local.images.upgrader_images import versions_by_image
from espalier.kube.connection.pki import Authority
from espalier.realnodes.nspawn.system.registry import ServedImages
from espalier.releases import Releases

pytestmark = pytest.mark.nodes

BASES = find_bases()
SHELLS = ("sh", "bash", "dash", "busybox", "ash", "zsh")


@pytest.fixture(scope="module")
def base() -> Base:
    if not BASES:
        pytest.skip("no base for nodes is built: run `espalier assets build nodes`")
    return BASES[-1]


def build(base: Base, target: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "espalier.cli", "image", "build", "upgrader"]
    options = ["--kubernetes-version", f"v{base.version}", "--output", str(target)]
    return subprocess.run([*command, *options], capture_output=True, text=True, check=True)


@pytest.fixture(scope="module")
def archive(base: Base, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    target = tmp_path_factory.mktemp("image") / "upgrader.tar"
    build(base, target)
    yield target
    target.unlink()


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a container of the image; without the large programs."""
    root = tmp_path_factory.mktemp("root")
    with tarfile.open(archive) as tar:
        for blob in json.load(tar.extractfile("manifest.json"))[0]["Layers"]:  # type: ignore[arg-type]
            with tarfile.open(fileobj=tar.extractfile(blob)) as layer:
                for entry in layer:
                    if "components/" not in entry.name:
                        layer.extract(entry, root, filter="fully_trusted")
    (root / "dev").mkdir()
    return root


def names(archive: Path) -> list[str]:
    results = []
    with tarfile.open(archive) as tar:
        for blob in json.load(tar.extractfile("manifest.json"))[0]["Layers"]:  # type: ignore[arg-type]
            with tarfile.open(fileobj=tar.extractfile(blob)) as layer:
                results += [entry.name for entry in layer if not entry.isdir()]
    return results


@pytest.mark.demand("U49")
def test_image_can_be_built_again_with_same_bytes(base: Base, archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.tar"
    build(base, again)

    with archive.open("rb") as first, again.open("rb") as second:
        assert hashlib.file_digest(first, "sha256").digest() == hashlib.file_digest(second, "sha256").digest()


@pytest.mark.demand("U4", "U47", "U49", "U63")
def test_image_has_no_shell_and_only_needed_programs(archive: Path) -> None:
    result = names(archive)

    assert not [name for name in result if Path(name).name in SHELLS]
    programs = {name for name in result if "/bin/" in name or "/sbin/" in name}
    assert {Path(name).name for name in programs} == {"nsenter", "upgrader", "python3.11"}
    components = {name.removeprefix("upgrader/components/") for name in result if "components/" in name}
    assert {name for name in components if name.startswith("kubernetes/")} == {
        "kubernetes/kubeadm",
        "kubernetes/kubectl",
        "kubernetes/kubelet",
    }


def test_image_without_components_is_below_60_mb(archive: Path) -> None:
    with tarfile.open(archive) as tar:
        layers = json.load(tar.extractfile("manifest.json"))[0]["Layers"]  # type: ignore[arg-type]
        python, program, _ = (tar.getmember(layer).size for layer in layers)

    assert python + program < 60_000_000


@pytest.mark.demand("U47", "U63")
@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_program_runs_with_nothing_but_image_around_it(unpacked: Path) -> None:
    shown = subprocess.run(
        ["chroot", unpacked, "/usr/local/bin/upgrader", "--help"], capture_output=True, text=True, check=True
    )
    for step in ("copy", "containerd", "cni-plugins", "kubeadm", "drain", "kubelet", "uncordon", "done"):
        assert step in shown.stdout


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_program_reaches_an_api_server_and_reports(unpacked: Path) -> None:
    secrets = unpacked / "var/run/secrets/kubernetes.io/serviceaccount"
    secrets.mkdir(parents=True)
    (secrets / "token").write_text("token")
    (secrets / "ca.crt").write_bytes(Authority.create("kubernetes", now=datetime.now(UTC)).certificate)
    environment = ("NODE_NAME=node-1", "KUBERNETES_SERVICE_HOST=127.0.0.1", "KUBERNETES_SERVICE_PORT=1")
    ended = subprocess.run(
        ["env", "-i", *environment, "/usr/sbin/chroot", unpacked, "/usr/local/bin/upgrader", "drain"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    sentence = (unpacked / "dev/termination-log").read_text()
    assert sentence.startswith("the API server 127.0.0.1:1 does not answer ([Errno 111] Connection refused)")
    assert "Traceback" not in ended.stderr


@pytest.mark.demand("U4")
def test_image_is_built_once_when_a_node_asks_for_it(base: Base, tmp_path: Path) -> None:
    releases = Releases.load()
    names = {version: name for name, version in versions_by_image(releases).items()}
    version, name = next((of, name) for of, name in names.items() if of.startswith(f"v{base.version}-"))
    images = ServedImages({}, [], built_images(releases, tmp_path))
    assert images.digest("example.org/other:1") is None
    digest = images.digest(name)
    assert digest is not None
    manifest = json.loads(blob(images, digest))
    for layer in manifest["layers"]:
        assert hashlib.sha256(blob(images, layer["digest"])).hexdigest() == layer["digest"].removeprefix("sha256:")
    with tarfile.open(images.blob(manifest["layers"][-1]["digest"])) as components:
        contents = json.load(components.extractfile("upgrader/contents.json"))  # type: ignore[arg-type]
    assert contents["kubernetesVersion"] == version
    before = sorted(tmp_path.rglob("*"))
    assert ServedImages({}, [], built_images(releases, tmp_path)).digest(name) == digest
    assert sorted(tmp_path.rglob("*")) == before


def blob(images: ServedImages, digest: str) -> bytes:
    place = images.blob(digest)
    assert place is not None
    return place.read_bytes()
