"""The manager's image, built from locked packages and libraries: what is in it, and that it runs alone."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.api.core import LEASE
from espalier.api.eksa.vocabulary.group import MANAGER as LEADER
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.kube.objects import Object
from tests.support.child_process import ChildProcess
from tests.support.environments import manager_image
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import START_SECONDS, Production, production
from tests.support.environments.manager_image import Archive
from tests.support.histories import kubectl_story as story
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually, is_listened_to, until

MISSING = manager_image.why_not()

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

ARCHITECTURES = ("amd64", "arm64")
PLATFORMS = tuple(f"linux/{name}" for name in ARCHITECTURES)
SHELLS = {"sh", "bash", "dash", "busybox", "ash", "zsh"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("image") / "manager.tar"
    manager_image.build(target, *PLATFORMS)
    return target


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The root of a container of the image, where every user may look, and the paths of its files."""
    root = tmp_path_factory.mktemp("root")
    names = Archive(archive).unpack(root)
    for folder in (root, *root.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    return root, names


def test_image_can_be_built_again_with_same_bytes(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "manager.tar"
    manager_image.build(again, *PLATFORMS)
    digests = []
    for file in (archive, again):
        with file.open("rb") as opened:
            digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
    assert digests[0] == digests[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_image_is_small_and_runs_without_rights(archive: Path, architecture: str) -> None:
    opened = Archive(archive)
    manifest, settings = opened.manifest(architecture), opened.settings(architecture)
    assert sum(layer["size"] for layer in manifest["layers"]) < 60 * 2**20
    assert settings["User"] == f"{manager_image.USER}:{manager_image.USER}"
    assert settings["Entrypoint"] == ["/usr/local/bin/espalier"]


def test_both_platforms_share_the_layer_of_a_release(archive: Path) -> None:
    layers = [Archive(archive).manifest(architecture)["layers"] for architecture in ARCHITECTURES]
    assert [item == other for item, other in zip(*layers, strict=True)] == [False, False, True]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_image_has_no_shell_and_no_local_environment(archive: Path, architecture: str, tmp_path: Path) -> None:
    names = Archive(archive).unpack(tmp_path, architecture)
    assert {name for name in names if "/bin/" in name or "/sbin/" in name} == manager_image.PROGRAMS
    assert not {Path(name).name for name in names} & SHELLS
    library = tmp_path / "usr/lib/espalier"
    assert not [name for name in ("simulator", "realnodes", "assets") if (library / "espalier" / name).exists()]
    assert not [name for name in ("apsw", "cel_expr_python", "pip") if (library / name).exists()]
    files = [path for path in tmp_path.rglob("*") if not path.is_symlink()]
    assert [path for path in files if path.stat().st_mode & 0o022] == [tmp_path / "tmp"]
    assert not [path for path in files if path.stat().st_mode & 0o6000]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_statements_name_what_is_in_the_image(archive: Path, architecture: str, tmp_path: Path) -> None:
    opened = Archive(archive)
    opened.unpack(tmp_path, architecture)
    bill = opened.statement("application/spdx+json", architecture)
    own, *parts = bill["packages"]
    listed = {part["externalRefs"][0]["referenceLocator"].partition("?")[0]: part for part in parts}
    libraries = {path.name.removesuffix(".dist-info") for path in (tmp_path / "usr/lib/espalier").glob("*.dist-info")}
    named = {f"{part['name']}-{part['versionInfo']}" for purl, part in listed.items() if purl.startswith("pkg:pypi/")}
    assert {normal(name) for name in named} | {normal(f"{own['name']}-{own['versionInfo']}")} == {
        normal(name) for name in libraries
    }
    packages = {part["name"] for purl, part in listed.items() if purl.startswith("pkg:deb/")}
    assert packages == {path.name for path in (tmp_path / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "python3.13-minimal"} <= packages
    assert all(part["checksums"] for part in parts)
    provenance = opened.statement("application/vnd.in-toto+json", architecture)
    digest = opened.manifest(architecture)["digest"].removeprefix("sha256:")
    assert [subject["digest"]["sha256"] for subject in provenance["subject"]] == [digest]
    inputs = {
        dependency["digest"]["sha256"]
        for dependency in provenance["predicate"]["buildDefinition"]["resolvedDependencies"]
    }
    assert {part["checksums"][0]["checksumValue"] for part in parts} < inputs


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: chroot")
def test_python_of_the_image_has_what_it_needs(unpacked: tuple[Path, list[str]]) -> None:
    root, _ = unpacked
    program = """
import sys; sys.path.insert(0, "/usr/lib/espalier")
import pwd, socket, ssl, uuid, zoneinfo, pyVmomi, cs
from espalier.providers.snow.checks.signed import *
from botocore import auth, awsrequest, credentials, model, parsers, serialize
assert len(ssl.create_default_context().get_ca_certs()) > 100
assert zoneinfo.ZoneInfo("Europe/Berlin") and socket.getservbyname("https") == 443
assert pwd.getpwuid(65532).pw_name == "espalier"
"""
    user = f"--userspec={manager_image.USER}:{manager_image.USER}"
    for command in (("/usr/bin/python3", "-c", program), ("/usr/local/bin/espalier", "manager", "--help")):
        subprocess.run(["/usr/sbin/chroot", user, str(root), *command], check=True, capture_output=True)


def normal(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: chroot")
async def test_replica_goes_on_when_the_leader_is_killed(
    control_plane: ControlPlane, unpacked: tuple[Path, list[str]], tmp_path: Path
) -> None:
    root, _ = unpacked
    async with production(control_plane, tmp_path) as management:
        await management.stop()
        shutil.copyfile(tmp_path / "manager.kubeconfig", root / "tmp/kubeconfig")
        (root / "tmp/kubeconfig").chmod(0o644)
        async with replica(management, root, management.webhook_port, "first") as first:
            before = await led(management, first)
            async with replica(management, root, free_port(), "second") as second:
                await management.kubectl("apply", "-f", str(story.EXAMPLE))
                os.kill(first.pid, signal.SIGKILL)
                # The webhooks were those of the one that is gone: another one takes its place, as the Service would.
                async with replica(management, root, management.webhook_port, "third"):
                    await led(management, second, after=before)
                    await story.ready(management)
                    await story.scale(management)
                    await management.kubectl("delete", "-f", str(story.EXAMPLE), "--wait")


@asynccontextmanager
async def replica(management: Production, root: Path, port: int, name: str) -> AsyncIterator[ChildProcess]:
    """A manager from the image, as its user and with nothing else around it; it has ended with the block."""
    flags = ["--kubeconfig", "/tmp/kubeconfig", "--webhook-address", f"127.0.0.1:{port}", "--webhook-names"]
    flags += ["127.0.0.1", "--health-address", "0", "--metrics-address", "0"]
    user = f"--userspec={manager_image.USER}:{manager_image.USER}"
    folder = management.folder / name
    folder.mkdir()
    inside = ["/usr/sbin/chroot", user, str(root), "/usr/local/bin/espalier", "manager", *flags]
    # What every container has besides: /proc, in mounts of its own, which go with it.
    entering = [
        "/usr/bin/unshare",
        "--mount",
        "--",
        "/bin/sh",
        "-c",
        'mount --bind /proc "$0/proc" && exec "$@"',
        str(root),
    ]
    running = ChildProcess([*entering, *inside], folder=folder, environment={"HOME": "/", "PATH": "/usr/bin:/bin"})
    try:
        if management.webhook_port == port:
            await serves(running, port)
        yield running
    finally:
        await running.stop(patience=START_SECONDS)


async def serves(running: ChildProcess, port: int) -> None:
    """Wait until the replica's webhooks are reached."""

    async def listens() -> bool:
        running.check()
        return await is_listened_to(port)

    await eventually(listens, within=START_SECONDS)


async def led(management: Production, running: ChildProcess, after: str = "") -> str:
    """Wait until another one than before holds the Lease; returns who does."""
    leases = management.caches.of(LEASE, SYSTEM_NAMESPACE, fields=f"metadata.name={LEADER}")
    await leases.wait_synced()
    key = Key(SYSTEM_NAMESPACE, LEADER)
    try:
        await until(leases, key, lambda lease: holder(lease) not in ("", after), seconds=START_SECONDS)
    except TimeoutError:
        running.check()
        raise
    assert Path(f"/proc/{running.pid}").stat().st_uid == manager_image.USER
    return holder(leases.get(key))


def holder(lease: Object | None) -> str:
    return str((lease.tree.get("spec") or {}).get("holderIdentity") or "") if lease is not None else ""
