"""The objects that a Cluster names, and those that these name, whatever the provider. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from espalier.api.meta import Tree
from espalier.providers.kinds import CATALOG


def references(spec: Tree) -> Iterator[Tree]:
    """The references of a Cluster to its datacenter and its machine configs; empty ones for parts without any."""
    yield spec.get("datacenterRef") or {}
    groups = (spec.get("controlPlaneConfiguration"), spec.get("externalEtcdConfiguration"))
    for group in (*groups, *(spec.get("workerNodeGroupConfigurations") or ())):
        yield (group or {}).get("machineGroupRef") or {}


def further(part: Any) -> Iterator[Tree]:
    """The references within a machine config."""
    if isinstance(part, dict) and part.get("kind") in CATALOG.further:
        yield part
    elif isinstance(part, dict | list):
        for value in part.values() if isinstance(part, dict) else part:
            yield from further(value)
