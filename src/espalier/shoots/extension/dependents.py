"""The objects that an extension makes in the seed for its resources: if somebody deletes one, it is made again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated

from espalier.api.core import SECRET
from espalier.api.definitions.reference import ConditionProse
from espalier.api.gardener.vocabulary import reasons
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache

DEPENDENTS_KEPT: Annotated[
    str,
    ConditionProse(
        (reasons.EXTENSION,),
        "False: somebody has deleted objects that the extension made in the seed, and something holds them. Absent "
        "until that was once so. The Shoot's `ControlPlaneHealthy` has the same message.",
    ),
] = "DependentsKept"


def _none(_object: Object) -> Iterable[tuple[Resource, str]]:
    return ()


@dataclass(frozen=True)
class Dependents:
    """The objects of a resource in its namespace once its extension has succeeded, and the caches that show them."""

    caches: Mapping[Resource, Cache] = field(default_factory=dict)
    """Of every kind that `names` returns, and of kinds whose objects these control."""
    names: Callable[[Object], Iterable[tuple[Resource, str]]] = _none
    """Kinds and names, from the resource alone; none of a resource that can't be read. They must be those that
    `reconcile` makes: it is called for as long as one is missing."""

    def are_missing(self, object_: Object) -> bool:
        """True if a resource lacks one of them. One that is being deleted counts as missing when it is gone."""
        return any(
            self.caches[resource].get(Key(object_.namespace, name)) is None for resource, name in self.names(object_)
        )

    def being_deleted(self, object_: Object) -> Iterator[Object]:
        """Those of a resource that are being deleted, and what they control; without Secrets, which gardenlets see."""
        wanted = {(resource.kind, name) for resource, name in self.names(object_)}
        for resource, cache in self.caches.items():
            for live in cache.list(object_.namespace) if resource != SECRET else ():
                controllers = ((owner.kind, owner.name) for owner in live.metadata.owner_references if owner.controller)
                is_wanted = (live.kind, live.name) in wanted or not wanted.isdisjoint(controllers)
                if is_wanted and live.metadata.deletion_timestamp is not None:
                    yield live
