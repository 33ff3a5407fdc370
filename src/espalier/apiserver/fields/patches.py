"""Patches: JSON merge patch (RFC 7386) and Kubernetes' strategic merge patch."""

from __future__ import annotations

from typing import Any

from espalier.apiserver.wire.failures import internal_error
from espalier.kube.server_side_apply.structure import Node

DIRECTIVE = "$patch"
DELETE_FROM_LIST = "$deleteFromPrimitiveList/"
ORDER = "$setElementOrder/"
RETAIN_KEYS = "$retainKeys"

STRATEGIC = "application/strategic-merge-patch+json"
"""Media type of strategic merge patches."""


def merge(target: Any, patch: Any) -> Any:
    """The target with a JSON merge patch applied. Neither is changed.

    As in kube-apiserver, null leaves a field out of objects in lists, too. RFC 7386 keeps it there.
    """
    if isinstance(patch, list):
        return [merge(None, item) for item in patch]
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic(target: Any, patch: Any, node: Node | None) -> Any:
    """The target with a strategic merge patch applied. Neither is changed.

    Lists are merged by the merge key of the schema, unless its patch strategy or `$patch` says otherwise.
    Raises `BadRequest` for an invalid directive.
    """
    if not isinstance(patch, dict):
        return patch
    directive = patch.get(DIRECTIVE)
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != DIRECTIVE}
    if directive == "delete":
        return {}
    if directive is not None and directive != "merge":
        raise internal_error(f"unknown patch type: {directive} in map: {as_go(patch)}")
    result = dict(target) if isinstance(target, dict) else {}
    retained = patch.get(RETAIN_KEYS)
    if isinstance(retained, list):
        result = {name: value for name, value in result.items() if name in retained}
    for name, value in patch.items():
        if name in (DIRECTIVE, RETAIN_KEYS) or name.startswith(ORDER):
            continue
        if name.startswith(DELETE_FROM_LIST):
            field = name.removeprefix(DELETE_FROM_LIST)
            result[field] = [item for item in result.get(field) or () if item not in value]
        elif value is None:
            result.pop(name, None)
        else:
            child = node.child(name) if node is not None else None
            result[name] = _strategic_value(result.get(name), value, child)
    for name, order in patch.items():
        if name.startswith(ORDER) and isinstance(order, list):
            field = name.removeprefix(ORDER)
            child = node.child(field) if node is not None else None
            if isinstance(result.get(field), list):
                result[field] = _ordered(result[field], order, child)
    return result


def _strategic_value(target: Any, value: Any, node: Node | None) -> Any:
    if isinstance(value, dict):
        if node is not None and "replace" in node.strategies:
            return value
        return strategic(target, value, node)
    if isinstance(value, list):
        return _strategic_list(target if isinstance(target, list) else [], value, node)
    return value


def _strategic_list(target: list[Any], patch: list[Any], node: Node | None) -> list[Any]:
    if any(isinstance(item, dict) and item.get(DIRECTIVE) == "replace" and len(item) == 1 for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and DIRECTIVE in item)]
    if node is None or "merge" not in node.strategies:
        return patch
    if not node.merge_key:
        return [*target, *(item for item in patch if item not in target)]
    key, result = node.merge_key, list(target)
    for item in patch:
        if not isinstance(item, dict) or key not in item:
            raise internal_error(f"map: {as_go(item)} does not contain declared merge key: {key}")
        same = [
            index for index, element in enumerate(result) if isinstance(element, dict) and element.get(key) == item[key]
        ]
        if item.get(DIRECTIVE) == "delete":
            result = [element for index, element in enumerate(result) if index not in same]
        elif same:
            result[same[0]] = strategic(result[same[0]], item, node.items)
        else:
            result.append(strategic({}, item, node.items))
    return result


def as_go(value: Any) -> str:
    """A value in Go's format."""
    if isinstance(value, list):
        return f"[{' '.join(map(as_go, value))}]"
    if not isinstance(value, dict):
        return "<nil>" if value is None else str(value)
    return f"map[{' '.join(f'{name}:{as_go(part)}' for name, part in sorted(value.items()))}]"


def _ordered(items: list[Any], order: list[Any], node: Node | None) -> list[Any]:
    """Items in the order that a patch gives; other items keep their positions."""
    key = node.merge_key if node is not None else ""

    def position_of(item: Any) -> int | None:
        for index, named in enumerate(order):
            if (key and isinstance(item, dict) and isinstance(named, dict) and item.get(key) == named.get(key)) or (
                not key and item == named
            ):
                return index
        return None

    positions = [position_of(item) for item in items]
    named = iter(sorted((at, index) for index, at in enumerate(positions) if at is not None))
    return [items[next(named)[1]] if at is not None else items[index] for index, at in enumerate(positions)]
