"""Ratcheting: violations of a stricter schema in parts that a write does not change.

As in Kubernetes, they don't fail the write but add a warning.
"""

from __future__ import annotations

from typing import Any

from espalier.api import paths
from espalier.api.meta import Tree
from espalier.apiserver.field_set_diff import element_of, elements_of
from espalier.apiserver.structure import Node
from espalier.kube.errors import StatusCause


def sentence(cause: StatusCause) -> str:
    """The suffix of the warning."""
    return f"{cause.field}: {cause.message}"


def is_unchanged(cause: StatusCause, new: Tree, old: Tree, node: Node) -> bool:
    """True if the field of a cause, or a parent of it, is unchanged."""
    after: Any = new
    before: Any = old
    below: Node | None = node
    for step in paths.parse(cause.field):
        if isinstance(after, dict) and isinstance(before, dict):
            if step not in after or step not in before:
                return False
            after, before = after[step], before[step]
            below = below.child(str(step)) if below is not None else None
        elif isinstance(after, list) and isinstance(before, list) and isinstance(step, int):
            if below is None or below.list_type != "map" or step >= len(after):
                return False
            found = elements_of(before, below).get(element_of(after[step], below))
            if found is None:
                return False
            after, before, below = after[step], found, below.items
        else:
            return False
        if after == before and type(after) is type(before):
            return True
    return False
