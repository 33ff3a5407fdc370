"""The result of a reconcile in a Shoot's status: the last operation, its progress, and the failing tasks."""

from __future__ import annotations

from datetime import datetime

import msgspec

from espalier.api.conditions import timestamp
from espalier.api.gardener.garden.shoot import REPORTED_BY_GARDENLET, Shoot, ShootStatus
from espalier.api.gardener.times import past_time
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import (
    Condition,
    LastError,
    LastOperation,
    OperationState,
    OperationType,
)
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.kube.objects import Object
from espalier.shoots.flow.status import FlowStatus
from espalier.shoots.gardenlet.names import DESTINATION_READY
from espalier.shoots.gardenlet.scope import Scope

LONGEST_DESCRIPTION = 2048
"""The largest number of characters of a description."""


def reported(scope: Scope, operation: OperationType, flow_status: FlowStatus, retry_for: float) -> ShootStatus:
    """The status after a reconcile; equal to the present one if only the time differs."""
    before = scope.shoot.status
    began = _retry_cycle_start(before, operation)
    since = past_time(began, scope.now)
    is_over = since is not None and (scope.now - since).total_seconds() > retry_for
    state = _state(flow_status, is_over=is_over)
    if operation is OperationType.MIGRATE and not flow_status.tasks[DESTINATION_READY].is_over:
        state = OperationState.PENDING if state is OperationState.PROCESSING else state  # it can still be cancelled
    generation = scope.object.metadata.generation
    last = before.last_operation
    is_seen = before.observed_generation == generation and not before.last_errors
    if flow_status.is_done and operation is OperationType.RECONCILE and last is not None and last.finished and is_seen:
        return before  # there was nothing to do
    is_settled = state in (OperationState.SUCCEEDED, OperationState.FAILED)
    return _timed(
        before,
        msgspec.structs.replace(
            before,
            last_operation=LastOperation(
                type=operation,
                state=state,
                description=flow_status.description[:LONGEST_DESCRIPTION],
                progress=flow_status.progress,
            ),
            last_errors=[
                LastError(error.description[:LONGEST_DESCRIPTION], task_id=error.task_id, codes=list(error.codes))
                for error in flow_status.errors
            ],
            observed_generation=generation if is_settled else before.observed_generation,
            hibernated=scope.is_hibernated if flow_status.is_done else before.hibernated,
            retry_cycle_start_time=None if is_settled else (began if since else timestamp(scope.now)),
        ),
        scope.now,
    )


def not_started(shoot: Object, operation: OperationType, message: str, now: datetime) -> ShootStatus:
    """The status if no task of the operation could start."""
    before = shoot.decode(Shoot).status
    last = before.last_operation
    progress = last.progress if last is not None else 0
    after = msgspec.structs.replace(
        before,
        last_operation=LastOperation(operation, OperationState.ERROR, message[:LONGEST_DESCRIPTION], progress),
        last_errors=[LastError(message[:LONGEST_DESCRIPTION])],
        retry_cycle_start_time=_retry_cycle_start(before, operation),
    )
    return _timed(before, after, now)


def retrying(shoot: Object, now: datetime) -> ShootStatus:
    """The status of a failed shoot once a retry is requested: extensions leave failed shoots alone."""
    before = shoot.decode(Shoot).status
    last = before.last_operation
    if last is None or last.state != OperationState.FAILED:
        return before
    operation = LastOperation(last.type, OperationState.PROCESSING, "the operation will be retried", last.progress)
    return _timed(before, msgspec.structs.replace(before, last_operation=operation, retry_cycle_start_time=None), now)


def handed_over(scope: Scope, now: datetime) -> ShootStatus:
    """The status with which the source makes the destination responsible."""
    before = scope.shoot.status
    description = f"seed {scope.seed_name} has handed the shoot over to seed {scope.shoot.spec.seed_name}"
    message = f"seed {scope.shoot.spec.seed_name} has the shoot now, and its gardenlet has not reported yet"
    unknown = [
        Condition(condition.type, "Unknown", ShootReason.HANDED_OVER, message)
        for condition in before.conditions
        if condition.type in REPORTED_BY_GARDENLET
    ]
    return msgspec.structs.replace(
        before,
        seed_name=scope.shoot.spec.seed_name,
        conditions=merged(before.conditions, unknown, now),
        last_operation=LastOperation(OperationType.MIGRATE, OperationState.SUCCEEDED, description, 100, timestamp(now)),
        last_errors=[],
        retry_cycle_start_time=None,
    )


def identified(shoot: Object, seed: str, technical_id: str, now: datetime) -> ShootStatus:
    """The status with the shoot's identity and its seed, before it has any object in a seed."""
    before = shoot.decode(Shoot).status
    return msgspec.structs.replace(
        before,
        seed_name=before.seed_name or seed,
        technical_id=before.technical_id or technical_id,
        uid=before.uid or shoot.metadata.uid,
        last_operation=before.last_operation
        or LastOperation(OperationType.CREATE, OperationState.PROCESSING, "the operation starts", 0, timestamp(now)),
    )


def _retry_cycle_start(before: ShootStatus, operation: OperationType) -> str | None:
    """The moment since which this operation has been retried. Each one has its own time, also after a long error of
    the one before: a move must not fail at its first error because reconciles failed for hours."""
    last = before.last_operation
    return before.retry_cycle_start_time if last is not None and last.type == operation else None


def _state(flow_status: FlowStatus, *, is_over: bool) -> OperationState:
    if flow_status.is_done:
        return OperationState.SUCCEEDED
    if flow_status.is_failed or (flow_status.is_failing and is_over):
        return OperationState.FAILED
    return OperationState.ERROR if flow_status.errors else OperationState.PROCESSING


def _timed(before: ShootStatus, after: ShootStatus, now: datetime) -> ShootStatus:
    """The status with the time of the operation and its errors, unless they are unchanged."""
    last, errors = before.last_operation, before.last_errors
    operation = after.last_operation
    if operation is None:
        return after
    is_same = last is not None and msgspec.structs.replace(last, last_update_time="") == operation
    times = {(error.task_id, error.description): error.last_update_time for error in errors}
    at = timestamp(now)
    timed = [
        msgspec.structs.replace(error, last_update_time=times.get((error.task_id, error.description), at))
        for error in after.last_errors
    ]
    return msgspec.structs.replace(
        after,
        last_operation=last if is_same else msgspec.structs.replace(operation, last_update_time=at),
        last_errors=timed,
    )
