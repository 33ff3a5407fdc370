"""Server-side apply on plain trees: merges a manager's configuration into an object.

Rules are those of Kubernetes' structured merge, in two steps of an apply (`managed_fields.py` has them all):

- `merge`: maps are merged by field, lists by the keys that their schema names, sets as sets; anything else is replaced.
  Items of a list are found by their keys wherever they are. Those of the configuration come in its order; items of
  others stay before those that they preceded.
- `prune`: fields that the manager applied before and now left out are removed, unless another manager owns them or
  something below them. An item of a list keeps its keys as long as anything of it stays. A map or list that loses its
  last field goes as well, one that was empty before does not.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from espalier.api.meta import Tree
from espalier.kube.fields import SELF, FieldSet
from espalier.kube.server_side_apply.list_items import element_of, elements_of, is_list, is_map
from espalier.kube.server_side_apply.structure import Node


def merge(live: Any, applied: Any, node: Node | None) -> Any:
    """The live value merged with the applied one. Neither is mutated; the result shares parts with both."""
    if is_map(applied, node) and is_map(live, node):
        result = dict(live)
        for name, value in applied.items():
            if name in live:
                result[name] = merge(live[name], value, node.child(name) if node is not None else None)
            else:
                result[name] = value
        return result
    if node is not None and is_list(applied, node) and is_list(live, node):
        return _merge_lists(live, applied, node)
    return applied


def _merge_lists(live: list[Any], applied: list[Any], node: Node) -> list[Any]:
    """Merge lists: applied items in the order of the configuration, others before the items that they preceded."""
    live_items, wanted = elements_of(live, node), elements_of(applied, node)
    position = {element: index for index, element in enumerate(live_items)}
    others = deque(element for element in live_items if element not in wanted)
    result: list[Any] = []
    for element, item in wanted.items():
        if element not in live_items:
            result.append(item)
            continue
        while others and position[others[0]] < position[element]:
            result.append(live_items[others.popleft()])
        result.append(merge(live_items[element], item, node.items))
    return [*result, *(live_items[element] for element in others)]


def prune(value: Any, removed: FieldSet, retained: FieldSet, node: Node | None) -> Any:
    """A value without the fields in `removed`, except those in `retained` and their parents.

    A map or list that had something and has nothing left is removed with its last field.
    """
    if isinstance(value, dict):
        result: Tree = {}
        for name, part in value.items():
            element = f"f:{name}"
            if element not in removed:
                result[name] = part
                continue
            rest = _prune_part(
                part, removed[element], retained.get(element), node.child(name) if node is not None else None
            )
            if rest is not None:
                result[name] = rest[0]
        return result
    if isinstance(value, list) and node is not None and is_list(value, node):
        items = []
        for item in value:
            element = element_of(item, node)
            if element not in removed:
                items.append(item)
                continue
            # Keys stay as long as the item: they identify it.
            below = {name: part for name, part in removed[element].items() if name[2:] not in node.keys}
            rest = _prune_part(item, below or {SELF: {}}, retained.get(element), node.items)
            if rest is not None:
                items.append(rest[0])
        return items
    return value


def _prune_part(part: Any, removed: FieldSet, retained: FieldSet | None, node: Node | None) -> tuple[Any] | None:
    """The rest of a part, in a tuple; None when it is removed."""
    itself = not removed or SELF in removed
    if retained is None and itself:
        return None
    if not removed:
        return (part,)  # another manager owns it, or a field in it
    if retained is not None and not retained:
        retained = {SELF: {}}
    rest = prune(part, removed, retained or {}, node)
    if part and not rest and retained is None:
        return None
    return (rest,)
