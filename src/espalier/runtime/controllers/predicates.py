"""Predicates: they select the changes of an object that need a reconcile, by the object before and after (None if
absent).

Creation and deletion always pass, as in controller-runtime: they may also stand for changes during a gap of the watch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from espalier.api.meta import ObjectMeta
from espalier.kube.objects import Object

Predicate = Callable[[Object | None, Object | None], bool]


def any_change(old: Object | None, new: Object | None) -> bool:
    """Every change."""
    return True


def _on_change_of(value: Callable[[ObjectMeta], Any]) -> Predicate:
    def predicate(old: Object | None, new: Object | None) -> bool:
        return old is None or new is None or value(old.metadata) != value(new.metadata)

    return predicate


generation_changed = _on_change_of(lambda metadata: metadata.generation)
"""The spec changed, or deletion was requested (the server raises the generation for both). Not for kinds without it."""


def change_of(view: Callable[[Object], Any]) -> Predicate:
    """Changes of what this function returns for an object."""
    return lambda old, new: old is None or new is None or view(old) != view(new)


def any_of(*predicates: Predicate) -> Predicate:
    """At least one of them."""
    return lambda old, new: any(predicate(old, new) for predicate in predicates)
