"""The scope of one reconcile of an Etcd, frozen, and the caches that it is read from."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.core import (
    CONFIG_MAP,
    NETWORK_POLICY,
    PERSISTENT_VOLUME_CLAIM,
    POD_DISRUPTION_BUDGET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.gardener.etcd import MEMBERS, Etcd
from espalier.api.meta import Observed
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.shoots.etcd import names

OWNED = (SERVICE, CONFIG_MAP, NETWORK_POLICY, POD_DISRUPTION_BUDGET, STATEFUL_SET)
"""The kinds of an Etcd's objects."""
LABELS = f"{names.NAME}=etcd"
"""Selects all observed objects: a seed has many others."""


class _Counts(Observed, frozen=True):
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    observed_generation: int = 0


class _Desired(Observed, frozen=True):
    replicas: int = 1


class StatefulSet(Observed, frozen=True):
    """The progress of a StatefulSet."""

    spec: _Desired = _Desired()
    status: _Counts = _Counts()


@dataclass(frozen=True)
class Scope:
    """An Etcd, and its objects."""

    object: Object
    etcd: Etcd
    live: dict[tuple[Resource, str], Object]
    """Its objects by kind and name, including objects of others with these names."""
    claims: tuple[Object, ...]
    """The claims of its pods."""

    @property
    def stateful_set_object(self) -> Object | None:
        """Its StatefulSet."""
        stateful_set = self.live.get((STATEFUL_SET, self.object.name))
        return stateful_set if stateful_set is not None and self.owns(stateful_set) else None

    @property
    def stateful_set(self) -> StatefulSet | None:
        """The progress of the StatefulSet; None if there is none."""
        stateful_set = self.stateful_set_object
        return None if stateful_set is None else stateful_set.decode(StatefulSet)

    @property
    def lost_claims(self) -> tuple[Object, ...]:
        """The claims that are being deleted: each goes with the pod that uses it."""
        return tuple(claim for claim in self.claims if claim.metadata.deletion_timestamp is not None)

    @property
    def has_lost_quorum(self) -> bool:
        """True if the members whose claims are not being deleted are too few to have all data."""
        live = self.stateful_set
        return len(self.lost_claims) * 2 > (live.status.replicas if live is not None else 0)

    @property
    def is_deleted(self) -> bool:
        """True if deletion was requested."""
        return self.object.metadata.deletion_timestamp is not None

    def owns(self, object_: Object) -> bool:
        """True if this very Etcd controls the object; False for a recreated Etcd of the same name."""
        return any(
            owner.controller and owner.uid == self.object.metadata.uid for owner in object_.metadata.owner_references
        )

    def belongs(self, _resource: Resource, object_: Object) -> str:
        """The owner of an object, for people; empty if it is this Etcd."""
        if self.owns(object_):
            return ""
        controller = next((owner for owner in object_.metadata.owner_references if owner.controller), None)
        return f"of {controller.kind} {controller.name} {controller.uid}" if controller else "of nobody"


class EtcdObserver:
    """The caches that a reconcile reads."""

    def __init__(self, caches: Caches) -> None:
        self.etcds = caches.of(Etcd.resource)
        self.owned: dict[Resource, Cache] = {resource: caches.of(resource, labels=LABELS) for resource in OWNED}
        self.claims = caches.of(PERSISTENT_VOLUME_CLAIM, labels=LABELS)

    def observe(self, etcd_object: Object) -> Scope:
        """The scope of an Etcd. Raises `msgspec.ValidationError` for an invalid one."""
        etcd = etcd_object.decode(Etcd)
        live = {
            (resource, name): present
            for resource, cache in self.owned.items()
            for name in _names(etcd_object.name)
            if (present := cache.get(Key(etcd_object.namespace, name))) is not None
        }
        keys = (Key(etcd_object.namespace, names.claim(etcd_object.name, ordinal)) for ordinal in range(MEMBERS))
        claims = tuple(
            claim
            for key in keys
            if (claim := self.claims.get(key)) is not None
            and claim.metadata.labels.get(names.INSTANCE) == etcd_object.name
        )
        return Scope(etcd_object, etcd, live, claims)


def _names(etcd: str) -> tuple[str, ...]:
    return (
        etcd,
        names.agent_service(etcd),
        names.client_service(etcd),
        names.peer_service(etcd),
        names.config_map(etcd),
    )
