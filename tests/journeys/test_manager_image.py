"""The manager's image, built from Debian's Python and locked libraries: what is in it, and that it runs alone."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.api.core import LEASE
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.programs.manager import LEASE as LEADER
from espalier.kube.objects import Object
from tests.support.child_process import ChildProcess
from tests.support.environments import manager_image
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import START_SECONDS, Production, free_port, production
from tests.support.histories import kubectl_story as story
from tests.support.waiting import eventually, is_listened_to, until

MISSING = manager_image.why_not()

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]

SHELLS = {"sh", "bash", "dash", "busybox", "ash", "zsh"}


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("image") / "manager.tar"
    manager_image.build(target)
    return target


@pytest.fixture(scope="module")
def unpacked(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The root of a container of the image, where every user may look, and the paths of its files."""
    root = tmp_path_factory.mktemp("root")
    names = manager_image.unpack(archive, root)
    for folder in (root, *root.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o055)
    for name in ("dev", "proc"):
        (root / name).mkdir()
    return root, names


def test_image_can_be_built_again_with_same_bytes(archive: Path, tmp_path: Path) -> None:
    again = tmp_path / "manager.tar"
    manager_image.build(again)
    digests = []
    for file in (archive, again):
        with file.open("rb") as opened:
            digests.append(hashlib.file_digest(opened, "sha256").hexdigest())
    assert digests[0] == digests[1]
    beside = [file.with_name(f"{file.name}.cdx.json").read_bytes() for file in (archive, again)]
    assert beside[0] == beside[1]


def test_it_holds_one_program_no_shell_and_nothing_of_the_local_environment(
    archive: Path, unpacked: tuple[Path, list[str]]
) -> None:
    root, names = unpacked
    programs = {name for name in names if "/bin/" in name or "/sbin/" in name}
    assert programs == {"usr/bin/python3.11", "usr/local/bin/espalier"}
    assert not {Path(name).name for name in names} & SHELLS
    library = root / "usr/lib/espalier"
    assert not [name for name in ("simulator", "realnodes", "assets") if (library / "espalier" / name).exists()]
    assert not [name for name in ("apsw", "cel_expr_python", "pip") if (library / name).exists()]
    writable = [path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o022]
    assert writable == [root / "tmp"]
    assert not [path for path in root.rglob("*") if not path.is_symlink() and path.stat().st_mode & 0o6000]
    user = manager_image.configuration(archive)["User"]
    assert user == f"{manager_image.USER}:{manager_image.USER}"


def test_the_bill_of_materials_names_what_is_there_and_nothing_else(
    archive: Path, unpacked: tuple[Path, list[str]]
) -> None:
    root, _ = unpacked
    text = archive.with_name(f"{archive.name}.cdx.json").read_text()
    assert (root / "usr/share/sbom/espalier.cdx.json").read_text() == text
    bill = json.loads(text)
    listed = {one["purl"].partition("?")[0]: one for one in bill["components"]}
    libraries = {path.name.removesuffix(".dist-info") for path in (root / "usr/lib/espalier").glob("*.dist-info")}
    named = {f"{one['name']}-{one['version']}" for purl, one in listed.items() if purl.startswith("pkg:pypi/")}
    own = bill["metadata"]["component"]
    assert {normal(name) for name in named} | {f"{own['name']}-{own['version']}"} == {
        normal(name) for name in libraries
    }
    packages = {one["name"] for purl, one in listed.items() if purl.startswith("pkg:deb/")}
    assert packages == {path.name for path in (root / "var/lib/dpkg/status.d").iterdir()}
    assert {"libc6", "python3.11-minimal"} <= packages
    assert all(one["hashes"] for purl, one in listed.items() if purl.startswith("pkg:pypi/"))


def normal(name: str) -> str:
    return name.lower().replace("_", "-")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: chroot")
async def test_one_of_two_replicas_from_the_image_goes_on_when_the_leader_is_killed(
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
