"""What the objects of a release held when a cluster was first made of them: objects of a release never change.

The API server sees to that for as long as they are there. One that was deleted and created again with other content is
recognized by the digests that each Cluster carries. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from espalier.clusters import names
from espalier.kube.objects import Object

_DIGEST_BYTES = 10
_PARTS = ("spec", "status")
"""Of EKS Distro Releases, the status has the components."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def name_of(found: Object) -> str:
    """How digests name an object: all are in one namespace, or in none."""
    return f"{found.kind}/{found.name}"


def digest(found: Object) -> str:
    """Of the content of an object. Order of keys and nulls is no content."""
    content = {part: _without_nulls(found.tree.get(part) or {}) for part in _PARTS}
    return blake2b(_encode(content), digest_size=_DIGEST_BYTES).hexdigest()


def recorded(annotations: Mapping[str, str]) -> dict[str, str]:
    """The digests that a Cluster carries, by object."""
    pairs = (pair.partition("=") for pair in annotations.get(names.RELEASE_ANNOTATION, "").split(","))
    return {name: value for name, _, value in pairs if name and value}


def record(digests: Mapping[str, str]) -> str:
    """The annotation that carries these digests."""
    return ",".join(f"{name}={value}" for name, value in sorted(digests.items()))


def replaced(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The objects that have other content than before; those that are new, or gone, have not."""
    return tuple(name for name, value in sorted(now.items()) if before.get(name, value) != value)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
