"""Control groups of nodes: one sub-tree for each node in every hierarchy, which identifies its processes.

In its own cgroup namespace a node sees that sub-tree as the root, on cgroup v1, v2 and both at once.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from espalier.realnodes.nspawn.system import processes

PARENT = "espalier"
_INHERITED = ("cpuset.cpus", "cpuset.mems")
"""cgroup v1 files without which a new cpuset accepts no process."""

_DELEGATED = ("cpu", "cpuset", "io", "memory", "pids")
"""Controllers of cgroup v2 that kubelet asks for."""


def hierarchies(mounts: Path = Path("/proc/self/mounts")) -> list[Path]:
    """Mount points of the control group hierarchies."""
    points = []
    for line in mounts.read_text().splitlines():
        _, point, kind, *_ = line.split()
        if kind in ("cgroup", "cgroup2"):
            points.append(Path(point))
    return points


def make(id_: str) -> list[Path]:
    """Create the sub-trees of a node; returns them, for its first process to enter."""
    folders = []
    for hierarchy in hierarchies():
        folder = hierarchy
        for name in (PARENT, id_):
            _delegate(folder)
            above, folder = folder, folder / name
            folder.mkdir(exist_ok=True)
            _inherit(above, folder)
        folders.append(folder)
    return folders


def members(id_: str) -> Iterator[int]:
    """The PIDs of a node's processes."""
    seen: set[int] = set()
    for hierarchy in hierarchies():
        for folder, _, _ in os.walk(hierarchy / PARENT / id_):
            with suppress(FileNotFoundError):
                seen.update(map(int, (Path(folder) / "cgroup.procs").read_text().split()))
    return iter(sorted(seen))


async def end_all(id_: str) -> None:
    """Kill all processes of a node, its init first; returns when they have ended."""
    while remaining := [process for pid in members(id_) if (process := processes.identify(pid))]:
        for process in remaining:
            processes.stop(process)
        await asyncio.gather(*(processes.ended(process) for process in remaining))


def remove(id_: str) -> None:
    """Remove the sub-trees of a node. Its processes must have ended."""
    for hierarchy in hierarchies():
        tree = hierarchy / PARENT / id_
        for folder, _, _ in os.walk(tree, topdown=False):
            Path(folder).rmdir()
        with suppress(OSError):  # other nodes are in it, or it does not exist
            (hierarchy / PARENT).rmdir()


def _delegate(folder: Path) -> None:
    """On cgroup v2, enable controllers for groups below a folder."""
    control = folder / "cgroup.subtree_control"
    if not control.exists():
        return
    available = (folder / "cgroup.controllers").read_text().split()
    enabled = control.read_text().split()
    wanted = [name for name in _DELEGATED if name in available and name not in enabled]
    if not wanted:
        return
    try:
        control.write_text(" ".join(f"+{name}" for name in wanted))
    except OSError as error:  # of a group with processes of its own, or of one that is not ours to change
        message = (
            f"groups below {folder} can't have the controllers {', '.join(wanted)}, which kubelet needs "
            f"({error.strerror}): run real nodes outside of containers, or move this one's processes to a group below"
        )
        raise OSError(error.errno, message) from error


def _inherit(above: Path, folder: Path) -> None:
    for name in _INHERITED:
        file = folder / name
        if (folder / "cgroup.clone_children").exists() and file.exists() and not file.read_text().strip():
            file.write_text((above / name).read_text())
