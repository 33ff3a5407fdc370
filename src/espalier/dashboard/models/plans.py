"""The plan of a cluster as it is, in the words of `espalier plan`, which are given from outside."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from espalier.api.resource import Key
from espalier.clusters.effects.diff import ObjectChange
from espalier.kube.client import Client


class Plan(NamedTuple):
    """A plan of a cluster without another request of anybody."""

    lines: tuple[str, ...] = ()
    """The text of `espalier plan` for the cluster."""
    is_empty: bool = True
    """True if nothing would change."""
    stops: bool = False
    """True if nothing, or nothing more, happens until somebody acts."""
    drift: tuple[str, ...] = ()
    """Each object that differs from what is rendered, with its fields."""
    drifted: tuple[ObjectChange, ...] = ()
    """The same with the values of each field, as it is and as it is rendered."""
    problem: str = ""
    """A sentence if there is no plan."""


Planner: TypeAlias = Callable[[Client, Key], Awaitable[Plan]]
"""Reads what it needs, and plans a cluster as it is. Raises errors of `espalier.kube.errors`."""
