"""Indexes of caches for tests."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import Index


@cache
def by_label(label: str) -> Index:
    """Index: the value of a label."""

    def index(object_: Object) -> Iterable[str]:
        value = object_.metadata.labels.get(label)
        return (value,) if value is not None else ()

    return index
