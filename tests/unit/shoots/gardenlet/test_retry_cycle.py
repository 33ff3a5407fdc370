"""The time for which an operation of a Shoot is retried: each operation has its own."""

from __future__ import annotations

from datetime import timedelta

import pytest

from espalier.api.conditions import timestamp
from espalier.api.gardener.garden.shoot import ShootStatus
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.kube.objects import Object, encode_json
from espalier.shoots.flow.status import FlowStatus, TaskState, TaskStatus
from espalier.shoots.gardenlet.reconciling import status
from espalier.shoots.gardenlet.reconciling.flows import MIGRATE, RECONCILE
from tests.support.gardens.gardenlet_scopes import NOW, scope, shoot

DAY = timedelta(days=1)
RETRY_FOR = 12 * 3600.0
FAILING = TaskStatus(TaskState.FAILED, "TaskFailed", "no quota")


def erroring(operation: str) -> Object:
    """The Shoot, whose operation has been retried for a day."""
    tree = shoot(last=f"{operation} Error").tree
    return Object(encode_json({**tree, "status": {**tree["status"], "retryCycleStartTime": timestamp(NOW - DAY)}}))


def after(object_: Object, operation: OperationType) -> ShootStatus:
    """The status after a reconcile in which one task of the operation failed."""
    flow = {OperationType.MIGRATE: MIGRATE, OperationType.RECONCILE: RECONCILE}[operation]
    tasks = {**dict.fromkeys(flow.tasks, TaskStatus(TaskState.DONE)), list(flow.tasks)[-1]: FAILING}
    return status.reported(scope(object=object_, now=NOW), operation, FlowStatus(operation.value, tasks), RETRY_FOR)


def state_of(reported: ShootStatus) -> str | None:
    return reported.last_operation.state if reported.last_operation is not None else None


@pytest.mark.parametrize(("last", "now"), [("Reconcile", OperationType.MIGRATE), ("Migrate", OperationType.RECONCILE)])
def test_another_operation_is_retried_for_its_own_time(last: str, now: OperationType) -> None:
    reported = after(erroring(last), now)
    assert state_of(reported) == OperationState.ERROR
    assert reported.retry_cycle_start_time == timestamp(NOW)


def test_other_operation_is_retried_for_its_own_time() -> None:
    """Its first report has its type; the next one must not take the start of the operation before for its own."""
    reported = status.not_started(erroring("Reconcile"), OperationType.MIGRATE, "no ownership", NOW)
    assert reported.retry_cycle_start_time is None


@pytest.mark.parametrize("operation", [OperationType.RECONCILE, OperationType.MIGRATE])
def test_operation_that_was_retried_for_its_time_fails(operation: OperationType) -> None:
    reported = after(erroring(operation.value), operation)
    assert state_of(reported) == OperationState.FAILED
    assert reported.retry_cycle_start_time is None
