"""Base of components: a name, a version, a cost, a recipe whose hash is part of the folder's name."""

from __future__ import annotations

import abc
import hashlib
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from espalier.assets.processes import Progress

HERE = Path(__file__).resolve().parent
PACKAGE, FORMER_PACKAGE = b"espalier.assets", b"espalier.local.assets"
"""Some recipes hash modules of this package: under its former name, so that earlier builds stay valid."""
MIB = 1024 * 1024


@dataclass(frozen=True)
class Component(abc.ABC):
    """Something that is built into its own folder."""

    name: str
    size: int
    """Approximate bytes of the result."""
    workspace: int
    """Approximate bytes by which empty caches of the build tools grow."""
    minutes: float
    """Approximate minutes with cold caches on two cores."""

    @property
    @abc.abstractmethod
    def version(self) -> str:
        """The version of the result, without a leading v."""

    @property
    @abc.abstractmethod
    def contents(self) -> Sequence[str]:
        """Contents of the folder: programs, or other names."""

    @property
    @abc.abstractmethod
    def ingredients(self) -> Iterable[bytes]:
        """Everything that determines the result, except `needs`."""

    @property
    def needs(self) -> Sequence[Component]:
        """Components that must be built before."""
        return ()

    @property
    def go_version(self) -> tuple[int, ...]:
        """The oldest Go version that can build it; empty if it needs none."""
        return ()

    @property
    def tools(self) -> Sequence[str]:
        """Programs that must be on PATH."""
        return ()

    @property
    def as_root(self) -> bool:
        """True if only root can build it."""
        return False

    @abc.abstractmethod
    def make(self, work_folder: Path, assets: Path, progress: Progress) -> None:
        """Build and test it in an empty folder; what it needs is below `assets`. Raises `BuildFailed`."""

    @cached_property
    def recipe(self) -> str:
        """A hash of everything that determines the result."""
        digest = hashlib.sha256()
        for ingredient in self.ingredients:
            digest.update(ingredient.replace(PACKAGE, FORMER_PACKAGE))
        for need in self.needs:
            digest.update(need.home(Path()).name.encode())
        return digest.hexdigest()[:12]

    @property
    def label(self) -> str:
        """Name and version, as text."""
        return f"{self.name} {self.version}"

    @property
    def key(self) -> str:
        """The name that selects one version of it."""
        return f"{self.name}-{self.version}"

    def home(self, assets: Path) -> Path:
        """The folder of the finished build."""
        return assets / f"{self.key}-{self.recipe}"


def with_needs(components: Iterable[Component]) -> list[Component]:
    """The components and all that they need, each once, in build order."""
    ordered: dict[str, Component] = {}

    def visit(component: Component) -> None:
        if component.key not in ordered:
            for need in component.needs:
                visit(need)
            ordered.setdefault(component.key, component)

    for component in components:
        visit(component)
    return list(ordered.values())


def numbers(version: str) -> tuple[int, ...]:
    """`go1.26.3` or `1.26.3` as numbers; what follows them (`rc1`, `-custom`) does not count."""
    match = re.match(r"(?:go|v)?(\d+(?:\.\d+)*)", version)
    return tuple(map(int, match[1].split("."))) if match else ()


def platform() -> str:
    """The platform to build for."""
    machine = os.uname()
    return f"{machine.sysname}/{machine.machine}"
