"""The objects that an extension makes in the seed for its resources: if somebody deletes or edits one, it is made
again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import msgspec

from espalier.api.conditions import parse_timestamp
from espalier.api.core import SECRET
from espalier.api.definitions.reference import ConditionProse
from espalier.api.gardener.responsibility import is_deleted_unconfirmed
from espalier.api.gardener.vocabulary import reasons
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first, merged
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.transforms import metadata_only

DEPENDENTS_KEPT: Annotated[
    str,
    ConditionProse(
        (reasons.EXTENSION,),
        "False: somebody has deleted objects that the extension made in the seed, and something holds them. Absent "
        "until that was once so. The Shoot's `ControlPlaneHealthy` has the same message.",
    ),
] = "DependentsKept"


DIGEST = "digest-of-data"
"""Annotation of cached objects alone, with which `with_digest` replaces their content."""


def with_digest(object_: Object) -> Object:
    """A transform for caches of Secrets and ConfigMaps: metadata, and a digest of the values of `data`."""
    data = object_.tree.get("data")
    digest = data_digest(data if isinstance(data, dict) else {})
    metadata = object_.metadata
    metadata.annotations = {**metadata.annotations, DIGEST: digest}
    return metadata_only(object_)


def data_digest(data: Mapping[str, str]) -> str:
    """The digest of the values of `data`, as API servers store them. Their keys do not count: what is copied from one
    Secret into another may have another one."""
    return hashlib.sha256(msgspec.json.encode(sorted(data.values()))).hexdigest()


def has_digest(cache: Cache, key: Key, digest: str) -> bool:
    """True if the data of an object have this digest, or it is not there, or its cache has not this transform."""
    live = cache.get(key)
    return live is None or live.metadata.annotations.get(DIGEST, digest) == digest


def _as_made(_object: Object) -> bool:
    return False


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
    are_edited: Callable[[Object], bool] = _as_made
    """True if one of them is not as `reconcile` makes it: it is called for as long as that is so."""

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


HELD_AFTER = 60.0
"""Seconds from a deletion until it is reported: most end at once."""
_MOST = 5


def held_objects(objects: Iterable[Object], now: datetime) -> tuple[list[Object], float | None]:
    """The objects that have been held for `HELD_AFTER`, and the seconds until the next one will have been; None if
    there is none."""
    held: list[Object] = []
    remaining: list[float] = []
    for object_ in objects:
        if not is_deleted_unconfirmed(object_.metadata):
            continue
        since = parse_timestamp(object_.metadata.deletion_timestamp or "")
        seconds = HELD_AFTER - (now - since).total_seconds() if since is not None else 0
        if seconds > 0:
            remaining.append(seconds)
        else:
            held.append(object_)
    return held, min(remaining, default=None)


def described(held: list[Object]) -> str:
    """The message on held objects, with what to do; empty if there are none."""
    if not held:
        return ""
    ordered = sorted(held, key=lambda object_: (object_.kind, object_.name))
    texts = merged(f"{object_.kind} {object_.name}: {_state(object_)}" for object_ in ordered)
    advice = "they come back once they are gone: have what set the finalizers remove them"
    with_finalizers = next((object_ for object_ in ordered if object_.metadata.finalizers), None)
    if with_finalizers is not None:
        advice += f", or, if it does not exist any more, remove them by hand: {_command(with_finalizers)}"
    return f"{first(texts, _MOST, separator='; ')}; {advice}"


def _state(object_: Object) -> str:
    finalizers = ", ".join(object_.metadata.finalizers)
    return f"somebody has deleted it, and {f'finalizers {finalizers} hold it' if finalizers else 'it is still there'}"


def _command(object_: Object) -> str:
    group = object_.head.api_version.rpartition("/")[0]
    kind = f"{object_.kind.lower()}.{group}" if group else object_.kind.lower()
    where = f" -n {object_.namespace}" if object_.namespace else ""
    return f"""kubectl patch {kind} {object_.name}{where} --type merge -p '{{"metadata":{{"finalizers":null}}}}'"""
