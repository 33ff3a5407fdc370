"""Annotations that users set on a Cluster. An unknown value has no effect, so it gets a warning."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from espalier.clusters import names
from espalier.clusters.drift import Policy, policy


def warnings(annotations: Mapping[str, str], patches: Collection[str]) -> Iterator[str]:
    """Warnings about unknown values; `patches` are the names of this manager's patches."""
    if policy(annotations) is None:
        found = annotations[names.DRIFT_ANNOTATION]
        yield f"metadata.annotations[{names.DRIFT_ANNOTATION}]: found {found}, allowed are {', '.join(Policy)}"
    unknown = names.consents(annotations) - set(patches)
    if unknown:
        there = ", ".join(sorted(patches)) or "none"
        yield (
            f"metadata.annotations[{names.PATCHES_ANNOTATION}]: this manager has no patch "
            f"{', '.join(sorted(unknown))}; it has {there}"
        )
