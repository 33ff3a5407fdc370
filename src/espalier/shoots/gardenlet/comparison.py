"""Compares rendered objects with live ones, which must have all rendered fields."""

from __future__ import annotations

import hashlib
from typing import Any

from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.shoots.gardenlet.names import RENDERED


def holds(live: Any, wanted: Any) -> bool:
    """True if `live` has everything in `wanted`. Fields that API servers add are ignored, also in items of lists."""
    if live == wanted:
        return True  # the common case, without recursion
    if isinstance(wanted, dict):
        return isinstance(live, dict) and all(key in live and holds(live[key], inner) for key, inner in wanted.items())
    return (
        isinstance(wanted, list)
        and isinstance(live, list)
        and len(live) == len(wanted)
        and all(map(holds, live, wanted))
    )


def stamped(rendered: Tree) -> Tree:
    """The rendered object with its digest, which changes when a field is no longer rendered."""
    digest = digest_of(rendered)
    metadata = rendered["metadata"]
    annotations = {**metadata.get("annotations", {}), RENDERED: digest}
    return {**rendered, "metadata": {**metadata, "annotations": annotations}}


def digest_of(rendered: Any) -> str:
    """A short digest of what is rendered."""
    return hashlib.sha256(encode_json(rendered)).hexdigest()[:16]


def is_as_rendered(live: Object | None, stamp: Tree) -> bool:
    """True if the object exists and has all rendered fields."""
    return live is not None and live.metadata.deletion_timestamp is None and holds(live.tree, stamp)
