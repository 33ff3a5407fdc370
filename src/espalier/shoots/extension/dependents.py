"""The objects that an extension makes in the seed for its resources: if somebody deletes one, it is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache


def _none(_object: Object) -> Iterable[tuple[Resource, str]]:
    return ()


@dataclass(frozen=True)
class Dependents:
    """The objects of a resource in its namespace once its extension has succeeded, and the caches that show them."""

    caches: Mapping[Resource, Cache] = field(default_factory=dict)
    """Of every kind that `names` returns."""
    names: Callable[[Object], Iterable[tuple[Resource, str]]] = _none
    """Kinds and names, from the resource alone; none of a resource that can't be read. They must be those that
    `reconcile` makes: it is called for as long as one is missing."""

    def are_missing(self, object_: Object) -> bool:
        """True if a resource lacks one of them. One that is being deleted counts as missing when it is gone."""
        return any(
            self.caches[resource].get(Key(object_.namespace, name)) is None for resource, name in self.names(object_)
        )
