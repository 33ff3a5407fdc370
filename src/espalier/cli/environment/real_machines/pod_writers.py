"""Pods that write a line every second and depend on nothing else: they show whether something interrupts a node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path

from espalier.api.meta import Tree
from espalier.assets.node_base import PROBE_IMAGE
from espalier.cli.environment.migration_scenario import POD_ON
from espalier.realnodes.nspawn.state import State

CONTAINERS: Sequence[Tree] = (
    {"name": "web", "image": PROBE_IMAGE, "args": ["serve", ":8080"]},
    {"name": "writer", "image": PROBE_IMAGE, "args": ["get", "http://localhost:8080", "1000000", "1s"]},
)
_LOGS = "var/log/pods"


def silences(state: State) -> dict[str, float]:
    """The longest time in seconds between two lines, by the folder of each pod's logs. Read from the files on the
    nodes, with the times of their container runtime, without any API server."""
    folders = (
        folder
        for node in state.nodes()
        for folder in (state.folder(node.id).root / _LOGS).glob(f"default_{POD_ON.format(node=node.name)}_*")
    )
    return {folder.name: _longest(sorted(_moments(folder / "writer"))) for folder in folders}


def _moments(folder: Path) -> Iterator[datetime]:
    for file in folder.glob("*.log*"):
        for line in file.read_text().splitlines():
            moment, stream, _ = line.split(maxsplit=2)
            if stream == "stdout":  # failures are reported elsewhere
                yield datetime.fromisoformat(moment)


def _longest(written: Sequence[datetime]) -> float:
    return max(((later - earlier).total_seconds() for earlier, later in pairwise(written)), default=float("inf"))
