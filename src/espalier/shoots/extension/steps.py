"""The steps of an operation, in order, and the steps of each operation."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

import msgspec
import structlog

from espalier.api.gardener.responsibility import requested_operation
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.operations import ErrorCode, OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.api.meta import ObjectMeta
from espalier.kube.errors import Conflict, KubeError
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.extension import dependents, results
from espalier.shoots.extension.actuator import Result
from espalier.shoots.extension.attempt import CONFLICTS, Attempt
from espalier.shoots.extension.dependents import DEPENDENTS_KEPT
from espalier.shoots.extension.errors import OperationFailed, StateInvalid, Stopped

LEASE = frozenset({"LeaseExpired", "LeaseMissing", "ClusterMissing", "ClockSkew", "ShootMigrating"})
"""Reasons of a resource that is left alone, because its seed may have lost the shoot."""

_INITIAL_PROGRESS = 1
_log = structlog.get_logger("espalier.extension")


async def check_shoot(attempt: Attempt[Any]) -> Outcome:
    """Stop if the Shoot is Failed."""
    if attempt.is_of_failed_shoot:
        return Wait(ExtensionReason.SHOOT_FAILED, "the Shoot has failed; change its spec or request a retry")
    return Continue()


async def check_lease(attempt: Attempt[Any]) -> Outcome:
    """Check that the seed holds the shoot; otherwise the resource is left alone."""
    verdict = attempt.verdict()
    return Wait(verdict.reason, verdict.message) if verdict.reason else Continue()


async def add_finalizer(attempt: Attempt[Any]) -> Outcome:
    """Add the finalizer: the resource stays until everything made for it is deleted, or another seed's."""
    attempt.object = await attempt.tools.writer.add_finalizer(
        attempt.resource, attempt.object, keys.finalizer(attempt.resource.kind)
    )
    return Continue()


async def begin(attempt: Attempt[Any]) -> Outcome:
    """Report that the operation is running.

    Written only to the resource as observed: if a migration was requested meanwhile, which a disconnected cache has not
    seen yet, the write is refused, and the provider is not called.
    """
    before = attempt.seen.status.last_operation
    if before is not None and (before.type, before.state) == (attempt.operation, OperationState.PROCESSING):
        # The reason for its wait is already reported. A write would be an event, and so cause another reconcile.
        operation = attempt.last_operation(OperationState.PROCESSING, before.progress, before.description)
    elif before is not None and (before.type, before.state) == (attempt.operation, OperationState.ERROR):
        operation = attempt.present[
            "lastOperation"
        ]  # unchanged: its cause stays until the operation has another result
    else:
        operation = attempt.last_operation(
            OperationState.PROCESSING, _INITIAL_PROGRESS, f"{attempt.operation} is in progress"
        )
    await attempt.write({"lastOperation": operation, **attempt.with_lease(valid=True)}, is_first=True)
    return Continue()


async def take_request(attempt: Attempt[Any]) -> Outcome:
    """Accept a requested reconcile: remove the annotation, so that a later one is another request. Its time stays, as
    with Gardener's extensions: the gardenlet measures its wait by it."""
    if requested_operation(attempt.object.metadata) == keys.RECONCILE:
        patch = {"metadata": {"annotations": dict.fromkeys((keys.OPERATION, keys.OLDER_OPERATION))}}
        attempt.object = await attempt.tools.writer.merge(attempt.resource, attempt.object, patch)
    return Continue()


async def reconcile(attempt: Attempt[Any]) -> Outcome:
    """Have the extension reconcile."""
    return await _act(attempt, lambda: attempt.tools.extension.actuator.reconcile(attempt.request()))


async def restore(attempt: Attempt[Any]) -> Outcome:
    """Have the extension restore. One that needs a state is not called without it."""
    if attempt.tools.extension.state is not None and attempt.seen.status.state is None:
        missing = StateInvalid(
            "status.state: found nothing, but a restore needs it; no new resources are created: restore the ShootState "
            "from a backup of the garden, and its state is written here"
        )
        return _failed(attempt, missing)
    return await _act(attempt, lambda: attempt.tools.extension.actuator.restore(attempt.request()))


async def migrate(attempt: Attempt[Any]) -> Outcome:
    """Have the extension clean up in the seed."""
    tools = attempt.tools
    return await _act(attempt, lambda: tools.extension.actuator.migrate(attempt.object, tools.writer))


async def delete(attempt: Attempt[Any]) -> Outcome:
    """Have the extension delete."""
    return await _act(attempt, lambda: attempt.tools.extension.actuator.delete(attempt.request()))


async def report_results(attempt: Attempt[Any]) -> Outcome:
    """Write the results, and then their digests, as the API server has stored them: before the success, so that nobody
    passes on a result without its digest."""
    await attempt.write(attempt.status)
    digests = results.digests_of(attempt.object, attempt.status.keys() - {"state"})
    patch = {"metadata": {"annotations": {keys.RESULT_DIGESTS: digests}}}
    attempt.object = await attempt.tools.writer.merge(attempt.resource, attempt.object, patch, Precondition.UID)
    return Continue()


async def succeed(attempt: Attempt[Any]) -> Outcome:
    """Report that the operation succeeded, and its result."""
    operation = attempt.last_operation(OperationState.SUCCEEDED, 100, f"{attempt.operation} succeeded")
    generation = attempt.seen.metadata.generation
    await attempt.write(
        {**attempt.status, "lastOperation": operation, "lastError": None, "observedGeneration": generation or None}
    )
    return Continue()


async def report_deletions(attempt: Attempt[Any]) -> Outcome:
    """Report what somebody has deleted of the objects in the seed, and what holds it."""
    made, clock = attempt.tools.extension.dependents, attempt.tools.clock
    held, remaining = dependents.held_objects(made.being_deleted(attempt.object), clock.now())
    reason = ExtensionReason.OBJECTS_DELETING if held else Satisfied.DEPENDENTS_KEPT
    change = attempt.with_condition(DEPENDENTS_KEPT, reason, dependents.described(held), is_true=not held)
    if change:
        await attempt.write(change)
    if remaining is None:
        return Done()
    return Wait(ExtensionReason.OBJECTS_DELETING, "objects in the seed are being deleted", after=remaining)


async def end_request(attempt: Attempt[Any]) -> Outcome:
    """The request was carried out: remove it, unless it is another one by now, and the finalizer of a migrated
    resource."""
    for _ in range(CONFLICTS):
        live = attempt.object
        metadata: dict[str, Any] = {}
        if _request_of(live.metadata) == _request_of(attempt.seen.metadata):
            metadata |= _without_request()["metadata"]
        finalizer = keys.finalizer(attempt.resource.kind)
        if attempt.operation is OperationType.MIGRATE and finalizer in live.metadata.finalizers:
            metadata["finalizers"] = [other for other in live.metadata.finalizers if other != finalizer]
        try:
            attempt.object = await attempt.tools.writer.merge(attempt.resource, live, {"metadata": metadata})
            return Done()
        except Conflict:
            await attempt.read_again()
    raise Conflict.of(f"{attempt.resource.kind} {attempt.object.key} changes too often")


async def remove_finalizer(attempt: Attempt[Any]) -> Outcome:
    """Everything was deleted: remove the finalizer."""
    finalizer = keys.finalizer(attempt.resource.kind)
    await attempt.tools.writer.remove_finalizer(attempt.resource, attempt.object, finalizer)
    return Done()


_PREPARATION = (check_shoot, check_lease, add_finalizer, begin)

OPERATIONS: dict[OperationType, tuple[Step[Attempt[Any]], ...]] = {
    OperationType.CREATE: (*_PREPARATION, take_request, reconcile, report_results, succeed, report_deletions),
    OperationType.RECONCILE: (*_PREPARATION, take_request, reconcile, report_results, succeed, report_deletions),
    OperationType.RESTORE: (*_PREPARATION, restore, report_results, succeed, end_request),
    OperationType.MIGRATE: (begin, migrate, succeed, end_request),
    OperationType.DELETE: (check_shoot, check_lease, begin, delete, succeed, remove_finalizer),
}


def steps_of(attempt: Attempt[Any]) -> Sequence[Step[Attempt[Any]]]:
    """The steps of the operation that is due. A resource without the finalizer has nothing to delete."""
    if attempt.operation is None:
        last = attempt.seen.status.last_operation
        is_another_seeds = last is None or last.type == OperationType.MIGRATE
        return () if is_another_seeds or attempt.seen.metadata.deletion_timestamp else (report_deletions,)
    has_finalizer = keys.finalizer(attempt.resource.kind) in attempt.object.metadata.finalizers
    return OPERATIONS[attempt.operation] if has_finalizer or attempt.operation is not OperationType.DELETE else ()


async def _act(attempt: Attempt[Any], act: Any) -> Outcome:
    """Run the operation within its lease, and report its result."""
    try:
        result = await attempt.guard.run(_call(act))
        if isinstance(result, Wait):
            return result
        if isinstance(result, Result):
            codec = attempt.tools.extension.state
            if result.state is not None and codec is None:
                raise TypeError(f"extension {attempt.tools.extension.name} declares no state, but saved one")
            state = {} if result.state is None or codec is None else {"state": codec.encode(result.state)}
            attempt.status = {**result.status, **state}
        return Continue()
    except Stopped as stopped:
        return stopped.wait
    except OperationFailed as error:
        return _failed(attempt, error)
    except msgspec.ValidationError as error:
        return _failed(attempt, OperationFailed(str(error), ErrorCode.CONFIGURATION, reason=ExtensionReason.INVALID))
    except KubeError as error:
        return fault_of(error)
    except Exception as error:
        _log.exception("an operation failed because of a bug in its extension", extension=attempt.tools.extension.name)
        return Fault(
            ExtensionReason.INTERNAL_ERROR,
            f"{type(error).__name__} in extension {attempt.tools.extension.name}; see its log",
        )


async def _call(act: Any) -> Any:
    """Call an actuator, which may fail before it awaits anything."""
    work: Awaitable[Any] = act()
    return await work


def _failed(attempt: Attempt[Any], error: OperationFailed) -> Fault:
    attempt.codes = error.codes
    return Fault(error.reason, str(error))


def _without_request() -> dict[str, Any]:
    return {"metadata": {"annotations": dict.fromkeys((keys.OPERATION, keys.OLDER_OPERATION, keys.TIMESTAMP))}}


def _request_of(metadata: ObjectMeta) -> tuple[str, str | None]:
    return requested_operation(metadata), metadata.annotations.get(keys.TIMESTAMP)
