"""The smallest merge patch (RFC 7386) from one tree to another."""

from __future__ import annotations

from typing import Any

from espalier.api.meta import Tree


def difference(current: Tree, wanted: Tree, *, exact: bool = False) -> Tree:
    """The merge patch that makes `current` contain `wanted`; empty if it does already. None in `wanted` removes a
    field. With `exact`, fields that `wanted` does not name are removed as well. Lists are compared and written as one
    value."""
    patch: Tree = {}
    for name, value in wanted.items():
        present = current.get(name)
        if isinstance(value, dict) and isinstance(present, dict):
            inner = difference(present, value, exact=exact)
            if inner:
                patch[name] = inner
        elif value is None:
            if present is not None:
                patch[name] = None
        elif present != (added := _without_removals(value)) or name not in current:
            patch[name] = added
    if exact:
        patch.update({name: None for name in current if name not in wanted})
    return patch


def _without_removals(value: Any) -> Any:
    if isinstance(value, list):  # of its items' fields, kube-apiserver drops those that are null
        return [_without_removals(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_removals(inner) for name, inner in value.items() if inner is not None}
