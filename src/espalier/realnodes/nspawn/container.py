"""One node as processes, mounts and an interface: start, find, enter, remove.

Each function is idempotent, also after an interruption anywhere.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from espalier.realnodes.nspawn.bases import NodeBase
from espalier.realnodes.nspawn.node_files import NodeFile
from espalier.realnodes.nspawn.system import cgroups, network, processes
from espalier.realnodes.nspawn.system.commands import run, start_detached
from espalier.realnodes.nspawn.system.processes import Process
from espalier.realnodes.nspawn.system.state import NodeFolder

_RUN = Path("/run/systemd/nspawn")
"""The directory in which systemd-nspawn leaves a folder and a lock for each killed machine."""

Command = tuple[str, ...]

SYSTEM_CALLS = "@keyring bpf perf_event_open @mount @privileged"


@dataclass(frozen=True)
class Running:
    """A running node: its supervising process, and its init process."""

    supervisor: Process
    init: Process


def find(folder: NodeFolder) -> Running | None:
    """The node's processes, None while it is off or starting."""
    supervisor = supervisor_of(folder)
    if supervisor is None:
        return None
    inside = [process for pid in processes.children(supervisor.pid) if (process := processes.identify(pid))]
    return Running(supervisor, inside[0]) if len(inside) == 1 else None


def is_on(folder: NodeFolder) -> bool:
    """True if any process of the node runs."""
    return next(cgroups.members(folder.id), None) is not None


def is_prepared(folder: NodeFolder) -> bool:
    """True if the node's root file system is mounted."""
    return str(folder.root) in _mount_points()


async def prepare(folder: NodeFolder, base: NodeBase, files: Mapping[str, NodeFile]) -> None:
    """Create the node's root file system over that of `base`, with its own files and the base's images."""
    if not folder.containerd.exists():
        fresh = _cleared(folder.path / "containerd.new")
        await asyncio.to_thread(base.clone_store, fresh)
        fresh.rename(folder.containerd)
    if not folder.upper.exists():
        fresh = _cleared(folder.path / "upper.new")
        for name, file in files.items():
            file.write(fresh / name.lstrip("/"))
        fresh.rename(folder.upper)
    if is_prepared(folder):
        return
    for path in (folder.work, folder.root):
        path.mkdir(exist_ok=True)
    options = f"lowerdir={base.lower},upperdir={folder.upper},workdir={folder.work}"
    await run("mount", "-t", "overlay", folder.id, "-o", options, str(folder.root))


def _cleared(path: Path) -> Path:
    """A path, cleared of an interrupted attempt."""
    if path.exists():
        shutil.rmtree(path)
    return path


async def switch_on(folder: NodeFolder, *, hostname: str, uid: str, bridge: str) -> None:
    """Start a node that is off. Returns when systemd-nspawn has started; the node boots from then on.

    Raises `CommandFailed` when it does not start.
    """
    groups = cgroups.make(folder.id)
    command = (
        "systemd-nspawn",
        f"--directory={folder.root}",
        "--boot",
        "--register=no",
        "--keep-unit",
        "--capability=all",
        f"--machine={folder.id}",
        f"--hostname={hostname}",
        f"--uuid={_machine_uuid(uid)}",
        f"--network-bridge={bridge}",
        "--console=pipe",
        "--resolv-conf=off",
        "--timezone=off",
        "--link-journal=no",
        "--bind=/dev/kmsg",
        f"--bind={folder.containerd}:/var/lib/containerd",
        f"--system-call-filter={SYSTEM_CALLS}",
    )
    environment = {"SYSTEMD_NSPAWN_API_VFS_WRITABLE": "yes"}
    await start_detached(command, pid=folder.pid, log=folder.console, groups=groups, environment=environment)


async def take_away(folder: NodeFolder) -> None:
    """Remove all processes, control groups, mounts, interfaces and files of a node."""
    await cgroups.end_all(folder.id)
    cgroups.remove(folder.id)
    _lock_of(folder).unlink(missing_ok=True)
    # More than once: the kernel's list may lack a mount while others change.
    while points := sorted((point for point in _mount_points() if _is_below(point, folder.path)), reverse=True):
        for point in points:
            await run("umount", "--lazy", point)
    await network.remove_link(f"vb-{folder.id}")
    propagate = _RUN / "propagate" / folder.id
    if propagate.exists():
        propagate.rmdir()


def inside(running: Running, *command: str) -> Command:
    """A command line that runs a command in a node."""
    return ("nsenter", "--target", str(running.init.pid), "--all", "--wdns=/", *command)


def supervisor_of(folder: NodeFolder) -> Process | None:
    """The systemd-nspawn of a node, None when it does not run."""
    try:
        pid = int(folder.pid.read_text())
    except (FileNotFoundError, ValueError):
        return None
    # A process with a reused PID is not in the node's control groups.
    return processes.identify(pid) if pid in cgroups.members(folder.id) else None


def _lock_of(folder: NodeFolder) -> Path:
    """systemd-nspawn's lock file of the root: named by device and inode."""
    try:
        root = folder.root.stat()
    except FileNotFoundError:
        return _RUN / "locks" / "none"
    return _RUN / "locks" / f"inode-{root.st_dev}:{root.st_ino}"


def _machine_uuid(uid: str) -> str:
    """The object's uid as the machine's, so that it stays when the node starts again."""
    try:
        return str(uuid.UUID(uid))
    except ValueError:
        return str(uuid.uuid5(uuid.NAMESPACE_OID, uid))


def _mount_points() -> list[str]:
    with open("/proc/self/mounts") as mounts:
        return [line.split()[1].encode().decode("unicode_escape") for line in mounts]


def _is_below(point: str, folder: Path) -> bool:
    return os.path.commonpath((point, folder)) == str(folder)
