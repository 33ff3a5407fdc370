"""Controllers share a frame, or are named here with the reason why they have only parts of it (decision 0086)."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "espalier"
FRAMES = frozenset({"Reconciler", "reconciler_of"})
"""Names that a module calls to put its controller into the frame: that of the frame, and that of upgrades."""
BY_LIST = "all objects of a kind are judged at once, whatever the key"
NO_STATUS = "it writes no status"
SEVERAL = "several statuses, in an order that counts"
OTHERS = "it plays the controllers of others"
PARTIAL = {
    "clusters/observe/management.py": NO_STATUS,
    "providers/tinkerbell/hardware/controller.py": BY_LIST,
    "realnodes/nspawn/setup.py": OTHERS,
    "runtime/servers/certificates.py": NO_STATUS,
    "shoots/garden/controller.py": SEVERAL,
    "shoots/garden/orphaned_states.py": NO_STATUS,
    "shoots/garden/roles.py": NO_STATUS,
    "shoots/gardenlet/backups/buckets.py": "a bucket follows from a Seed, and a key may be of a resource that is gone",
    "shoots/gardenlet/leases.py": NO_STATUS,
    "shoots/gardenlet/reconciling/orphans.py": NO_STATUS,
    "shoots/gardenlet/states/known_states.py": NO_STATUS,
    "shoots/machine_controller/controller.py": "the key is a namespace: no object is read or reported on",
    "simulator/controller.py": OTHERS,
    "simulator/flux/setup.py": OTHERS,
    "simulator/seeds.py": OTHERS,
    "upgrades/hooks/controller.py": NO_STATUS,
    "upgrades/images.py": NO_STATUS,
}
"""Modules whose controllers have only parts of the frame, and why."""


def called(module: ast.AST) -> Counter[str]:
    """How often each name is called."""
    functions = (node.func for node in ast.walk(module) if isinstance(node, ast.Call))
    return Counter(getattr(function, "id", getattr(function, "attr", "")) for function in functions)


@cache
def controllers() -> dict[str, tuple[int, bool]]:
    """Modules that make controllers: the number of these, and True if they have the frame."""
    texts = {path: path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    modules = {path: called(ast.parse(text)) for path, text in texts.items() if "Controller(" in text}
    return {
        path.relative_to(SOURCE).as_posix(): (names["Controller"], any(names[frame] for frame in FRAMES))
        for path, names in modules.items()
        if names["Controller"]
    }


def test_controllers_without_the_frame_are_named() -> None:
    """When this fails: use `runtime/controllers/reconciler.py`, or say here and in decision 0086 why not."""
    assert {path for path, (_, framed) in controllers().items() if not framed} == PARTIAL.keys()


def test_tour_and_decision_count_controllers() -> None:
    number = sum(count for count, _ in controllers().values())
    partial = sum(count for count, framed in controllers().values() if not framed)
    decision = (ROOT / "docs" / "decisions" / "0086-one-writer-and-one-reconciler.md").read_text()
    assert re.findall(r"(\d+) of the (\d+) places that make a `Controller`", decision) == [(f"{partial}", f"{number}")]
    tour = (ROOT / "docs" / "tour.md").read_text()
    assert re.findall(r"(\d+) of the (\d+) controllers", tour) == [(f"{number - partial}", f"{number}")]
