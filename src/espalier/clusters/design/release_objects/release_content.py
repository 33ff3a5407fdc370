"""Digests of release objects as they were when a cluster first used them: release objects are immutable.

Admission enforces that while they exist. An object that was deleted and recreated with other content is detected by the
digests that each Cluster carries. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b

import msgspec

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.trees import json_trees
from espalier.kube.objects import Object

_DIGEST_BYTES = 10
_PARTS = ("spec", "status")
"""EKS Distro Releases list the components in their status."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def name_of(object_: Object) -> str:
    """The name of an object in the digests: all are in one namespace, or cluster-scoped."""
    return f"{object_.kind}/{object_.name}"


@lru_cache(maxsize=256)
def digest(object_: Object) -> str:
    """The digest of an object's content. Order of keys and nulls do not count.

    Cached: each reconcile of each cluster asks for those of its releases.
    """
    content = {part: json_trees.without_nulls(object_.tree.get(part) or {}) for part in _PARTS}
    return blake2b(_encode(content), digest_size=_DIGEST_BYTES).hexdigest()


def recorded(annotations: Mapping[str, str]) -> dict[str, str]:
    """The digests that a Cluster carries, by object."""
    pairs = (pair.partition("=") for pair in annotations.get(metadata_keys.RELEASE_ANNOTATION, "").split(","))
    return {name: value for name, _, value in pairs if name and value}


def record(digests: Mapping[str, str]) -> str:
    """The annotation that carries these digests."""
    return ",".join(f"{name}={value}" for name, value in sorted(digests.items()))


def replaced(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, ...]:
    """The objects whose content differs from before; new and missing objects don't count."""
    return tuple(name for name, value in sorted(now.items()) if before.get(name, value) != value)
