"""The Cluster controller of `anywhere.eks.amazonaws.com`: from a Cluster to the objects of Cluster API, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from espalier.clusters.gate import Isolation

if TYPE_CHECKING:
    from espalier.clusters.building import build

__all__ = ["Isolation", "build"]


def __getattr__(name: str) -> Any:
    """`build` is loaded when it is asked for: whoever only judges or renders needs neither controllers nor webhooks."""
    if name != "build":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from espalier.clusters.building import build  # noqa: PLC0415

    return build
