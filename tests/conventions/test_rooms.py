"""Packages are small enough to be seen at once: at most twelve files stand beside each other."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import espalier

SOURCE = Path(espalier.__file__).parent
ROOT = SOURCE.parents[1]
MOST = 12
LARGER = {
    "upgrader": "the program on the node: its files are copied as one folder, and imported by it alone",
    "assets": "recipes contain the bytes of modules, so that a move would build every base of nodes anew",
}
"""Packages with more files, and why."""


def packages() -> list[Path]:
    return sorted(path.parent for path in SOURCE.rglob("__init__.py"))


def files(package: Path) -> list[str]:
    return sorted(path.name for path in package.glob("*.py") if not path.name.startswith("__"))


@pytest.mark.parametrize("package", packages(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_package_has_at_most_twelve_files(package: Path) -> None:
    """When this fails: make a room (decision 0002) of files that belong together."""
    assert len(files(package)) <= MOST or str(package.relative_to(SOURCE)) in LARGER


@pytest.mark.parametrize("name", LARGER)
def test_named_package_has_more_files(name: str) -> None:
    assert len(files(SOURCE / name)) > MOST


@pytest.mark.parametrize("package", packages(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_package_says_what_it_contains(package: Path) -> None:
    assert ast.get_docstring(ast.parse((package / "__init__.py").read_text()))


def test_the_tour_lists_the_layers_of_rooms() -> None:
    """`lint-imports` holds the layers; the tour shows those of packages that have no table of their own."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = {
        container.removeprefix("espalier."): [set(layer.split(" | ")) for layer in reversed(contract["layers"])]
        for contract in settings["tool"]["importlinter"]["contracts"]
        for container in contract.get("containers", ())
        if contract["type"] == "layers"
    }
    tour = (ROOT / "docs" / "tour.md").read_text()
    table = tour.partition("lowest layer first")[2].partition("## 1.")[0]
    listed = {
        package: [set(re.findall(r"`(\w+)`", layer)) for layer in rooms.split("; ")]
        for package, rooms in re.findall(r"^\| `(\w+)/` \| (.*) \|$", table, re.MULTILINE)
    }
    assert listed == {name: layers[name] for name in layers.keys() - {"espalier", "clusters", "cli", "apiserver"}}
