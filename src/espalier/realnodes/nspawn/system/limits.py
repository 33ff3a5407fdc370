"""Kernel limits of the host that nodes share: checked and reported, not changed. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from espalier.realnodes.nspawn.system.state import NodeRecord

WATCHERS = Path("/proc/sys/fs/inotify/max_user_instances")
"""Root's inotify instances, used by systemd, containerd and kubelet of every node (inotify(7))."""

OF_CONTROL_PLANE = 32
OF_WORKER = 18
OF_HOST = 20
RECOMMENDED = 1024


def watchers_wanted(nodes: Iterable[NodeRecord]) -> int:
    """The number of instances that these nodes and the host need, measured on running nodes."""
    return OF_HOST + sum(OF_CONTROL_PLANE if node.control_plane else OF_WORKER for node in nodes)


def shortage(nodes: Iterable[NodeRecord], allowed: int) -> str:
    """Why this machine can't run all of these nodes, and what to do; empty when it can."""
    nodes = list(nodes)
    wanted = watchers_wanted(nodes)
    if wanted <= allowed:
        return ""
    return (
        f"{len(nodes)} nodes need about {wanted} inotify instances, this machine allows {allowed}: "
        f"sysctl -w fs.inotify.max_user_instances={max(RECOMMENDED, 2 * wanted)}"
    )


def allowed_watchers(file: Path = WATCHERS) -> int:
    """The machine's limit."""
    return int(file.read_text())
