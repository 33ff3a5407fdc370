"""A layer: what one release renders differently from those before it. The table of layers is ordered by release."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TypeAlias

import msgspec
import semver

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.text.versions import parsed
from espalier.clusters.design.rendered import Rendered

Function: TypeAlias = Callable[[Rendered], Rendered]
"""Maps rendered objects to rendered objects. Returns new objects where it changes something, and mutates none."""

Default: TypeAlias = Callable[[ClusterSpec], ClusterSpec]
"""Sets defaults of a Cluster before anything is rendered. Values that are given are kept."""

BASE = semver.Version(0)
"""The release of the base: every cluster has it."""


class Layer(msgspec.Struct, frozen=True):
    """A difference in rendering that one release introduces. Immutable once released, like that release's clusters."""

    name: str
    """Short and unique; for patches, the name that the consent annotation lists."""
    since: semver.Version
    """The release that introduced it: clusters of this and later releases have it."""
    why: str
    """A sentence for operators."""
    functions: tuple[Function, ...] = ()
    defaults: tuple[Default, ...] = ()
    is_patch: bool = False
    """True if clusters of older releases may have it too, each by consent."""


def release(eksa_version: str | None) -> semver.Version | None:
    """The release of an eksaVersion, None if it can't be parsed.

    A pre-release counts as its release (`v0.27.0-dev` renders as `v0.27.0` will), build metadata is ignored.
    """
    release = parsed(eksa_version or "")
    return release.finalize_version() if release else None


def chosen(table: Sequence[Layer], version: semver.Version | None, consents: Collection[str] = ()) -> tuple[Layer, ...]:
    """The layers of a cluster of this release (None: the base alone), with the patches that it consents to."""
    return tuple(layer for layer in table if _reached(layer, version) or (layer.is_patch and layer.name in consents))


def offered(
    table: Sequence[Layer], version: semver.Version | None, consents: Collection[str] = ()
) -> tuple[Layer, ...]:
    """The patches available to a cluster of this release that it does not consent to."""
    return tuple(
        layer for layer in table if layer.is_patch and not _reached(layer, version) and layer.name not in consents
    )


def _reached(layer: Layer, version: semver.Version | None) -> bool:
    return layer.since <= (BASE if version is None else version)
