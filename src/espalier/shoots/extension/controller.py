"""The controller of one extension, around its actuator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

from espalier.api.conditions import timestamp
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.times import past_time
from espalier.api.gardener.vocabulary.metadata_keys import TIMESTAMP
from espalier.api.gardener.vocabulary.operations import OperationState
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.resource import Key
from espalier.api.text.printable import quoted
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import ToKeys
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import PLAN_OUTDATED, Fault, Outcome, Wait, fault_of, outdated
from espalier.runtime.controllers.own_writes import OwnWrites
from espalier.runtime.controllers.predicates import any_of, generation_changed
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler, Report
from espalier.runtime.controllers.writer import NameTaken, Writer
from espalier.runtime.leadership.fencing import Fenced
from espalier.shoots.extension.attempt import Attempt, AttemptTools, Extension
from espalier.shoots.extension.dependents import DIGEST
from espalier.shoots.extension.lease import Leases
from espalier.shoots.extension.steps import LEASE, steps_of
from espalier.shoots.extension.views import ExtensionObject

S = TypeVar("S")

LONGEST_DESCRIPTION = 2000
"""The largest number of characters of an error in a status."""

_UNREPORTED = frozenset({PLAN_OUTDATED, "ObjectsDeleting", "ShootFailed", "Superseded"})
"""Reasons that are not reported in the status: they do not concern the operation."""


def leases_of(host: Host, timing: Timing) -> Leases:
    """The leases of the seed's clusters. All extensions of a program share one."""
    return Leases(host.caches.of(Cluster.resource), host.manager.clock, timing)


def controller_of(extension: Extension[S], host: Host, leases: Leases, timing: Timing) -> Controller:
    """The controller of an extension, with its watches."""
    cache = host.caches.of(extension.resource)
    own = OwnWrites()
    tools = AttemptTools(
        extension,
        cache,
        Writer(
            host.client,
            {extension.resource: cache, **extension.dependents.caches},
            own_writes={extension.resource: own},
        ),
        leases,
        host.manager.clock,
        timing.longest_reconcile,
    )
    running: dict[Key, Attempt[S]] = {}

    def observe(object_: Object) -> Attempt[S] | None:
        attempt = Attempt(tools, object_)
        if attempt.seen.spec.type != extension.type:
            return None
        running[object_.key] = attempt
        return attempt

    reconciled = Reconciled(
        extension.resource, cache.get, observe, steps_of, _report, unreadable=_unreadable, failed=_outdated
    )
    reconciler = Reconciler(reconciled, tools.writer, host.manager.recorder)

    async def reconcile(key: Key) -> Outcome:
        try:
            return await reconciler.reconcile(key)
        finally:
            running.pop(key, None)

    def wake(old: Object | None, new: Object | None, _first: bool) -> None:
        attempt = running.get((new or old).key) if new or old else None  # type: ignore[union-attr]
        if attempt is not None:
            attempt.guard.wake()

    controller = Controller(extension.name, reconcile, workers=extension.workers, rng=host.manager.rng)
    controller.watch(cache, predicate=any_of(generation_changed, own.by_others))
    controller.watch(leases.clusters, _waiting(extension, tools))
    for dependents in extension.dependents.caches.values():
        controller.watch(dependents, _with_dependents(extension, tools), predicate=_is_deleted_or_edited)
    for watched, to_keys in extension.watches:
        controller.watch(watched, to_keys)
    cache.subscribe(wake)
    return controller


def _waiting(extension: Extension[Any], tools: AttemptTools[Any]) -> ToKeys:
    """The resources of a Cluster with an operation that is due: its lease may be valid again."""

    def to_keys(cluster: Object) -> Iterable[Key]:
        namespace = cluster.name if extension.resource.namespaced else None
        return [
            object_.key
            for object_ in tools.cache.list(namespace)
            if extension.cluster_of(object_) == cluster.name and extension.due(object_) is not None
        ]

    return to_keys


def _with_dependents(extension: Extension[Any], tools: AttemptTools[Any]) -> ToKeys:
    """The resources beside a deleted object that may have to make it again, or to report what holds it."""

    def to_keys(deleted: Object) -> Iterable[Key]:
        resources = tools.cache.list(deleted.namespace)
        return [object_.key for object_ in resources if any(True for _ in extension.dependents.names(object_))]

    return to_keys


def _is_deleted_or_edited(old: Object | None, new: Object | None) -> bool:
    if old is None or new is None or new.metadata.deletion_timestamp is not None:
        return new is None or new.metadata.deletion_timestamp is not None
    digests = (object_.metadata.annotations.get(DIGEST) for object_ in (old, new))
    return len(set(digests)) > 1 or old.metadata.generation != new.metadata.generation


def _report(attempt: Attempt[Any], outcome: Outcome) -> Report | None:
    """The result of the attempt. An expired lease is no error: the operation is unchanged."""
    match outcome:
        case Wait(reason, message) if reason in LEASE:
            return Report(attempt.changed(attempt.with_lease(valid=False, reason=reason, message=message)))
        case Wait(reason, message) if reason not in _UNREPORTED:
            return Report(
                attempt.changed({"lastOperation": _with_progress(attempt, OperationState.PROCESSING, message)})
            )
        case Fault("TooManyWrites") if _has_error(attempt):
            return None  # the cause is already reported
        case Fault(_, message):
            description = quoted(message, LONGEST_DESCRIPTION)
            error: dict[str, Any] = {
                "description": description,
                "lastUpdateTime": timestamp(attempt.tools.clock.now()),
            }
            if attempt.codes:
                error["codes"] = [str(code) for code in attempt.codes]
            if _is_reported(attempt, error):
                return None
            operation = _with_progress(attempt, OperationState.ERROR, description)
            return Report(attempt.changed({"lastOperation": operation, "lastError": error}))
        case _:
            return None


def _has_error(attempt: Attempt[Any]) -> bool:
    last = attempt.object.decode(ExtensionObject).status.last_operation
    return last is not None and (last.type, last.state) == (attempt.operation, OperationState.ERROR)


def _is_reported(attempt: Attempt[Any], error: dict[str, Any]) -> bool:
    """True if the status already has this error, of an earlier attempt at the same request: only the time is new."""
    present, since = attempt.present.get("lastError"), error["lastUpdateTime"]
    if not _has_error(attempt) or not isinstance(present, dict) or {**present, "lastUpdateTime": since} != error:
        return False
    now = attempt.tools.clock.now()
    reported = past_time(str(present.get("lastUpdateTime")), now)
    requested = past_time(attempt.object.metadata.annotations.get(TIMESTAMP), now)
    return requested is None or (reported is not None and requested.replace(microsecond=0) <= reported)


def _with_progress(attempt: Attempt[Any], state: OperationState, description: str) -> dict[str, Any]:
    last = attempt.object.decode(ExtensionObject).status.last_operation
    return attempt.last_operation(state, last.progress if last else 1, description)


def _unreadable(object_: Object, error: Exception) -> tuple[Outcome, Report]:
    message = f"the resource can't be read: {error}"
    status = object_.tree.get("status")
    present = status if isinstance(status, dict) else {}
    return Fault(ExtensionReason.INVALID, message, terminal=True), Report(
        {**present, "lastError": {"description": message}}
    )


def _outdated(error: KubeError | NameTaken) -> Outcome:
    """The outcome of an error in a step: `PlanOutdated` if the resource has changed meanwhile."""
    if isinstance(error, Conflict | NotFound | Fenced):
        return outdated(error)
    return fault_of(error)
