"""One attempt at the operation of an extension resource: the observed object, and reports on progress and result."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import msgspec

from espalier.api import conditions
from espalier.api.conditions import timestamp
from espalier.api.gardener.responsibility import requested_operation
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.operations import Condition, ErrorCode, OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.mapping import ToKeys
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.leadership.fencing import fenced
from espalier.shoots.extension import results
from espalier.shoots.extension.actuator import Actuator, Request
from espalier.shoots.extension.dependents import Dependents
from espalier.shoots.extension.guard import Guard, GuardFence, Verdict
from espalier.shoots.extension.lease import LEASE_VALID, Leases
from espalier.shoots.extension.operation import operation_of
from espalier.shoots.extension.saved_state import SavedState
from espalier.shoots.extension.views import ClusterObject, ExtensionObject

S = TypeVar("S")

CONFLICTS = 5
"""The number of retries of a status update after conflicts."""


def by_namespace(object_: Object) -> str:
    """The name of the Cluster of a namespaced resource: that of its namespace."""
    return object_.namespace


@dataclass(frozen=True)
class Extension(Generic[S]):
    """The properties of one extension: its kind, its type, its actuator and its state."""

    resource: Resource
    type: str
    """Objects of another `spec.type` belong to another extension."""
    actuator: Actuator[S]
    state: SavedState[S] | None = None
    """The type of its state. An extension that declares one never restores without it."""
    cluster_of: Callable[[Object], str] = by_namespace
    """Name of the Cluster whose lease counts; empty for resources that belong to no shoot."""
    unleased: Container[OperationType] = ()
    """Operations that need no lease, because they create nothing that another seed could have."""
    watches: Sequence[tuple[Cache, ToKeys]] = ()
    """Further watches that trigger a resource whose operation waits."""
    dependents: Dependents = field(default_factory=Dependents)
    """The objects that it makes in the namespace of its resource; one that is deleted is made again."""
    workers: int = 5
    """The number of resources that are reconciled at a time."""

    @property
    def name(self) -> str:
        """Name of its controller."""
        return f"{self.type}-{self.resource.kind.lower()}"

    def due(self, object_: Object) -> OperationType | None:
        """The operation that is due for a resource."""
        last = object_.decode(ExtensionObject).status.last_operation
        dependents = self.dependents
        are_changed = dependents.are_missing(object_) or dependents.are_edited(object_)
        is_changed = are_changed or bool(results.changed(object_))
        return operation_of(object_.metadata, last, is_changed=is_changed)


@dataclass(frozen=True)
class AttemptTools(Generic[S]):
    """Shared by all attempts of one extension."""

    extension: Extension[S]
    cache: Cache
    writer: Writer
    leases: Leases
    clock: Clock
    longest: float
    """Seconds after which an attempt is cancelled."""


class _Status(Observed, frozen=True):
    status: Tree | None = None


class Attempt(Generic[S]):
    """One attempt. `object` is as observed, or as a step of this attempt wrote it."""

    def __init__(self, tools: AttemptTools[S], object_: Object) -> None:
        self.tools = tools
        self.object = object_
        self.seen = object_.decode(ExtensionObject)
        self.operation = tools.extension.due(object_)
        self.cluster = tools.extension.cluster_of(object_)
        self.codes: Sequence[ErrorCode] = ()
        """The codes of the error that ended the attempt."""
        self.status: Tree = {}
        """Status fields of the result, which step `report_results` writes."""

    @property
    def resource(self) -> Resource:
        """The extension kind."""
        return self.tools.extension.resource

    @cached_property
    def guard(self) -> Guard:
        """The guard that ends the operation when it may not continue."""
        return Guard(self.verdict, self.tools.clock, self.tools.longest)

    def verdict(self) -> Verdict:
        """The verdict on the operation now. Migrating needs no lease: it calls no provider."""
        if self.operation is OperationType.MIGRATE:
            return Verdict(math.inf)
        live = self.tools.cache.get(self.object.key)
        if live is not None and requested_operation(live.metadata) == keys.MIGRATE:
            return Verdict(
                0, ExtensionReason.SUPERSEDED, f"{self.operation} was stopped because the resource must be migrated"
            )
        if not self.cluster or self.operation in self.tools.extension.unleased:
            return Verdict(math.inf)
        lease = self.tools.leases.of(self.cluster)
        return Verdict(lease.seconds, lease.reason, lease.message)

    @property
    def is_of_failed_shoot(self) -> bool:
        """True if the Shoot is Failed, so that none of its resources are acted on."""
        cluster = self._cluster_object
        return cluster is not None and cluster.decode(ClusterObject).is_failed

    def request(self) -> Request[S]:
        """The argument of the actuator. Raises `StateInvalid`."""
        codec = self.tools.extension.state
        return Request(
            object=self.object,
            operation=self.operation or OperationType.RECONCILE,
            state=codec.decode(self.seen.status.state) if codec else None,
            cluster=self._cluster_object,
            writer=self.tools.writer.with_client(fenced(self.tools.writer.client, GuardFence(self.guard))),
            guard=self.guard,
            progress=self,
        )

    async def save(self, state: Any) -> None:
        """Save a state at once. Raises `StateTooLarge`."""
        if self.tools.extension.state is None:
            raise TypeError(f"extension {self.tools.extension.name} declares no state")
        await self.write({"state": self.tools.extension.state.encode(state)})

    async def report(self, progress: int, description: str) -> None:
        """Report the progress of the operation."""
        await self.write({"lastOperation": self.last_operation(OperationState.PROCESSING, progress, description)})

    def last_operation(self, state: OperationState, progress: int, description: str) -> Tree:
        """The JSON of `status.lastOperation`, with the present time."""
        return {
            "type": str(self.operation),
            "state": str(state),
            "progress": progress,
            "description": description,
            "lastUpdateTime": timestamp(self.tools.clock.now()),
        }

    @property
    def present(self) -> Tree:
        """The status that the object has."""
        return self.object.decode(_Status).status or {}

    def changed(self, change: Tree) -> Tree:
        """The present status with these fields changed; None removes a field."""
        merged = {**self.present, **change}
        return {name: value for name, value in merged.items() if value is not None}

    def with_lease(self, *, valid: bool, reason: str = "", message: str = "") -> Tree:
        """The field `conditions` with LeaseValid; empty if that is unchanged, or is valid and was never reported."""
        return self.with_condition(LEASE_VALID, Satisfied.LEASE_VALID if valid else reason, message, is_true=valid)

    def with_condition(self, type: str, reason: str, message: str, *, is_true: bool) -> Tree:
        """The field `conditions` with this one; empty if that is unchanged, or is True and was never reported."""
        present = self.object.decode(ExtensionObject).status.conditions
        before = conditions.get(present, type)
        if is_true and before is None:
            return {}
        status = "True" if is_true else "False"
        if before is not None and (before.status, before.reason, before.message) == (status, reason, message):
            return {}
        now = timestamp(self.tools.clock.now())
        since = before.last_transition_time if before is not None and before.status == status else now
        condition = Condition(type, status, reason, message, last_transition_time=since, last_update_time=now)
        others = [other for other in present if other.type != type]
        return {"conditions": msgspec.to_builtins([*others, condition])}

    async def write(self, change: Tree, *, is_first: bool = False) -> None:
        """Write fields of the status. `is_first`: only if the object is still as observed; else `Conflict`."""
        if is_first:
            await self._write_first(change)
            return
        for _ in range(CONFLICTS):
            try:
                self.object = await self.tools.writer.status(self.resource, self.object, self.changed(change))
                return
            except Conflict:
                await self.read_again()
        raise Conflict.of(f"{self.resource.kind} {self.object.key} changes too often")

    async def read_again(self) -> None:
        """Read the object again. Raises `Conflict` if it is another one, or gone."""
        key = self.object.key
        live = await self.tools.writer.read(self.resource, key)
        if live is None or live.metadata.uid != self.object.metadata.uid:
            raise Conflict.of(f"{self.resource.kind} {key} is gone or was recreated")
        self.object = live

    async def _write_first(self, change: Tree) -> None:
        """Write if the object is as observed, else raise `Conflict`. Times are whole seconds, so the status may be
        equal; then nothing is written, and a read compares the version instead."""
        observed = self.object
        self.object = await self.tools.writer.status(self.resource, observed, self.changed(change))
        if self.object is observed:
            await self.read_again()
            if self.object.resource_version != observed.resource_version:
                raise Conflict.of(f"{self.resource.kind} {observed.key} was changed meanwhile")

    @property
    def _cluster_object(self) -> Object | None:
        return self.tools.leases.clusters.get(Key("", self.cluster)) if self.cluster else None
