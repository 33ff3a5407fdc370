"""Traces that nodes could leave on this machine: processes, mounts, interfaces, routes, control groups, files."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from shutil import which

from espalier.realnodes.nspawn.system import cgroups

FOLDERS = ("/run/systemd/nspawn", "/run/systemd/machines", "/run/netns", "/var/lib/machines")
# systemd-nspawn makes these with its first container since the machine booted, and keeps them; a container that is
# left behind shows as an entry in them.
_OF_NSPAWN = frozenset(f"/run/systemd/nspawn/{name}" for name in ("locks", "propagate", "unix-export"))


@dataclass(frozen=True)
class Footprint:
    """All of it at one moment; others work on this machine too, so tests compare what bears our marks."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    routes: frozenset[str]
    tables: str
    """Empty where there is no nft."""
    groups: frozenset[str]
    files: frozenset[str]


def footprint(*ours: Path) -> Footprint:
    """Look. `ours` are folders that only the test uses: their files count, and processes that name them."""
    marks = (*map(str, ours), "systemd-nspawn")
    return Footprint(
        processes=frozenset(_processes(marks)),
        mounts=frozenset(line for line in Path("/proc/self/mounts").read_text().splitlines() if _has(line, marks)),
        links=frozenset(name for name in os.listdir("/sys/class/net") if name.startswith(("esp", "vb-", "veth"))),
        routes=frozenset(_output("ip", "-4", "route", "show", "table", "all").splitlines()),
        tables=_output("nft", "list", "ruleset") if which("nft") else "",
        groups=frozenset(_groups()),
        files=frozenset(str(path) for folder in (*map(Path, FOLDERS), *ours) for path in folder.rglob("*"))
        - _OF_NSPAWN,
    )


def _processes(marks: Iterable[str]) -> Iterable[str]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            try:
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                group = (entry / "cgroup").read_text()
            except OSError:
                continue
            if words and (_has(words, marks) or f"/{cgroups.PARENT}/" in group):
                yield f"{entry.name} {words}"


def _groups() -> Iterable[str]:
    for hierarchy in cgroups.hierarchies():
        for folder, _, _ in os.walk(hierarchy / cgroups.PARENT):
            yield folder


def _has(text: str, marks: Iterable[str]) -> bool:
    return any(mark in text for mark in marks)


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
