"""A layer: how one release renders clusters otherwise than those before it. A table of them is ordered by release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec
import semver

from espalier.api.eksa.cluster import ClusterSpec
from espalier.clusters.rendered import Rendered

Function: TypeAlias = Callable[[Rendered], Rendered]
"""From what is rendered to what is rendered. It gives new objects where it changes something, and touches none."""

Default: TypeAlias = Callable[[ClusterSpec], ClusterSpec]
"""Fills in what a Cluster leaves open, before anything is rendered. What is given stays as it is."""

BASE = semver.Version(0)
"""The release of the base: every cluster has it."""


class Layer(msgspec.Struct, frozen=True):
    """What one release does otherwise. Once released it is never changed, or clusters of that release would be."""

    name: str
    """Short, unique; for patches, what people consent to."""
    since: semver.Version
    """The release that brought it: clusters of this and later ones have it."""
    why: str
    """A sentence for operators."""
    functions: tuple[Function, ...] = ()
    defaults: tuple[Default, ...] = ()
    is_patch: bool = False
    """Whether clusters of older releases may have it too, each by consent."""


def release(eksa_version: str | None) -> semver.Version | None:
    """The release that an eksaVersion names, None when it names none.

    A pre-release counts as its release (a build of `v0.27.0-dev` renders as `v0.27.0` will), builds count for nothing.
    """
    text = (eksa_version or "").removeprefix("v")
    if not semver.Version.is_valid(text):
        return None
    return semver.Version.parse(text).finalize_version()


def chosen(table: Sequence[Layer], version: semver.Version | None, consents: Collection[str] = ()) -> tuple[Layer, ...]:
    """The layers of a cluster of this release (None: the base alone), with the patches that it consents to."""
    return tuple(layer for layer in table if _reached(layer, version) or (layer.is_patch and layer.name in consents))


def offered(
    table: Sequence[Layer], version: semver.Version | None, consents: Collection[str] = ()
) -> tuple[Layer, ...]:
    """The patches that a cluster of this release could have and does not consent to."""
    return tuple(
        layer for layer in table if layer.is_patch and not _reached(layer, version) and layer.name not in consents
    )


def _reached(layer: Layer, version: semver.Version | None) -> bool:
    return layer.since <= (BASE if version is None else version)
