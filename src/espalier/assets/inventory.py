"""Inventory of the cache: built components, and folders of former recipes."""

from __future__ import annotations

import enum
import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from espalier.api.version_matrix import ROWS
from espalier.assets.base import DEFAULT_REPOSITORY, FACTS
from espalier.assets.build import Say
from espalier.assets.cache import UNFINISHED, is_finished, only_one_builder, size_of
from espalier.assets.component import Component
from espalier.assets.recipes import envtest_folder, everything


class State(enum.StrEnum):
    """State of a row of the inventory."""

    BUILT = "built"
    MISSING = "missing"
    """A current recipe names it, but it is not built."""
    OUTDATED = "outdated"
    """Built by a recipe that no longer exists; `prune` removes it."""
    IN_USE = "outdated, in use"
    """Outdated, but mounted."""


@dataclass(frozen=True)
class Item:
    """One component, built or not, or one folder without a recipe."""

    name: str
    version: str
    state: State
    folder: Path
    size: int
    """Bytes on disk; approximate if it is not built."""
    minutes: float | None = None
    """The approximate minutes to build it; None for what can't be built any more."""


def inventory(assets: Path) -> list[Item]:
    """All components of present recipes, then all folders that are outdated."""
    current = _current(assets)
    items = []
    for component in current:
        home = component.home(assets)
        built = is_finished(home)
        size = size_of(home) if built else component.size
        state = State.BUILT if built else State.MISSING
        items.append(Item(component.name, component.version, state, home, size, component.minutes))
    return items + outdated(assets)


def outdated(assets: Path) -> list[Item]:
    """Folders of recipes that no longer exist, and links to them. Only folders that we created."""
    current = {component.home(assets) for component in _current(assets)}
    current |= {assets / envtest_folder(row) for row in ROWS.values()}
    mounted = _mounted()
    items = []
    for folder in sorted(assets.iterdir() if assets.is_dir() else ()):
        if folder not in current and (match := re.fullmatch(r"(.+?)-(\d[\w.]*|[a-z]+)-[0-9a-f]{12}", folder.name)):
            in_use = any(f"{folder}/" in line for line in mounted)
            state = State.IN_USE if in_use else State.OUTDATED
            items.append(Item(match[1], match[2], state, folder, size_of(folder)))
        elif folder not in current and (match := re.fullmatch(r"(envtest)-([\d.]+)", folder.name)):
            items.append(Item(match[1], match[2], State.OUTDATED, folder, size_of(folder)))
    return items


def prune(assets: Path, say: Say, *, dry_run: bool) -> Sequence[Item]:
    """Remove outdated builds that are not in use, after printing them, and leftovers of killed builds. Returns the
    printed lines."""
    items = outdated(assets)
    for item in items:
        fate = "is in use and stays" if item.state is State.IN_USE else "would be removed" if dry_run else "is removed"
        say(f"{item.folder}: {fate}")
    if not dry_run and assets.is_dir():
        with only_one_builder(assets, say):
            for item in items:
                if item.state is State.OUTDATED:
                    aside = assets / f"{UNFINISHED}{item.folder.name}"  # never counts as built
                    item.folder.rename(aside)
                    shutil.rmtree(aside)
    return items


def _current(assets: Path) -> list[Component]:
    """The components of present recipes, with the bases of every image repository that somebody built one for."""
    repositories = {DEFAULT_REPOSITORY: None}
    for facts in sorted(assets.glob(f"*/{FACTS}")):
        repositories[json.loads(facts.read_text())["repository"]] = None
    default, *others = [everything(repository) for repository in repositories]
    known = {component.home(assets) for component in default}
    extra = [
        component
        for components in others
        for component in components
        if component.home(assets) not in known and is_finished(component.home(assets))
    ]
    return [*default, *extra]


def _mounted() -> list[str]:
    """The mounts of this machine with folders in their options, one per line."""
    try:
        return Path("/proc/self/mountinfo").read_text().splitlines()
    except FileNotFoundError:  # not Linux, so there are no nodes
        return []
