"""An extension that does not finish: after a while that is an error of the Shoot, and it is waited for all the same."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from espalier.api.conditions import timestamp
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Done, Fault, Wait
from espalier.shoots.extension import results
from espalier.shoots.flow.status import FlowStatus, TaskState, TaskStatus, read
from espalier.shoots.flow.task import Failure, Overdue, Verdict
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.reconciling import status
from espalier.shoots.gardenlet.reconciling.flows import RECONCILE
from espalier.shoots.gardenlet.scope import ExtensionResource
from espalier.shoots.gardenlet.tasks import extensions
from espalier.shoots.gardenlet.tasks.acts import CONFIRMED
from tests.support.gardens.gardenlet_scopes import NOW, TECHNICAL_ID, an_object, context, scope, shoot

LONG = timedelta(seconds=601)
SHORT = timedelta(seconds=600)


def begun(ago: timedelta | None) -> Object:
    """The Shoot, whose operation began so long ago."""
    tree = shoot(last="Reconcile Processing").tree
    began = {"retryCycleStartTime": timestamp(NOW - ago)} if ago is not None else {}
    return Object(encode_json({**tree, "status": {**tree["status"], **began}}))


def infrastructure(ordered: str = "", order: str = metadata_keys.MIGRATE, **rest: Any) -> ExtensionResource:
    annotations = {metadata_keys.OPERATION: order} if order else {}
    if ordered:
        annotations[metadata_keys.TIMESTAMP] = ordered
    metadata = {"annotations": annotations, **rest.pop("metadata", {})}
    last = {"type": "Migrate", "state": "Processing", "description": "releasing the network"}
    body: Tree = {"spec": {"type": "local"}, "status": {"lastOperation": last, **rest}}
    return ExtensionResource(
        Infrastructure, an_object(Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, **body)
    )


def at(ago: timedelta) -> str:
    return (NOW - ago).isoformat()


def of(extension_resource: ExtensionResource, began: timedelta | None = LONG) -> ShootContext:
    return context(scope(extensions=(extension_resource,), object=begun(began)), OperationType.MIGRATE)


def migrated(extension_resource: ExtensionResource, began: timedelta | None = LONG) -> Verdict:
    return extensions.migrate(Infrastructure)(of(extension_resource, began))


def test_late_extension_is_an_error_with_its_words() -> None:
    assert isinstance(migrated(infrastructure(at(SHORT))), Wait)
    verdict = migrated(infrastructure(at(LONG)))
    assert verdict == Overdue(
        "ExtensionNotReady",
        "Infrastructure apple: its extension has not finished to migrate, for longer than 600 seconds; see its log; "
        "the extension last said: releasing the network",
        after=5.0,
    )


@pytest.mark.parametrize("began", [None, SHORT])
def test_old_order_is_not_held_against_an_extension(began: timedelta | None) -> None:
    """Its time stays when the order was carried out. The Shoot's operation began since, or none is known."""
    assert isinstance(migrated(infrastructure(at(2 * LONG)), began), Wait)


@pytest.mark.parametrize("ordered", ["", "yesterday", "2020-01-01T00:00:00"])
def test_unreadable_order_time_uses_the_operation(ordered: str) -> None:
    assert isinstance(migrated(infrastructure(ordered), SHORT), Wait)
    assert isinstance(migrated(infrastructure(ordered), LONG), Overdue)
    made_since = infrastructure(ordered, metadata={"creationTimestamp": timestamp(NOW - SHORT)})
    assert isinstance(migrated(made_since, LONG), Wait)


@pytest.mark.parametrize("failed_at", ["2026-01-01", "yesterday", ""])
def test_error_without_a_time_is_of_the_present_order(failed_at: str) -> None:
    """Extensions by others write it, in whatever form."""
    failed = {"type": "Migrate", "state": "Error"}
    error = {"description": "no quota", "lastUpdateTime": failed_at}
    verdict = migrated(infrastructure(at(SHORT), lastOperation=failed, lastError=error))
    assert isinstance(verdict, Failure)
    assert "no quota" in verdict.message


def test_deletion_that_does_not_end_is_error_as_well() -> None:
    def deleted(ago: timedelta) -> Verdict:
        gone = {
            "deletionTimestamp": timestamp(NOW - ago),
            "finalizers": ["extensions.gardener.cloud/infrastructure"],
            "annotations": CONFIRMED,
        }
        return extensions.delete(Infrastructure)(of(infrastructure(order="", metadata=gone), 2 * LONG))

    assert isinstance(deleted(SHORT), Wait)
    verdict = deleted(LONG)
    assert isinstance(verdict, Overdue)
    assert verdict.reason == "Deleting"
    held = "(held by finalizers extensions.gardener.cloud/infrastructure)"
    assert f"{held}, for longer than 600 seconds" in verdict.message


def test_blocking_lease_is_named_as_the_cause() -> None:
    invalid = {"type": "LeaseValid", "status": "False", "reason": "LeaseExpired", "message": "the lease expired"}
    verdict = migrated(infrastructure(at(LONG), metadata_keys.RESTORE, conditions=[invalid]))
    assert not isinstance(verdict, Overdue), "a task that migrates orders to migrate"
    outcome = extensions._or_overdue(
        of(infrastructure(at(LONG), metadata_keys.RESTORE)),
        (resource := infrastructure(at(LONG), metadata_keys.RESTORE, conditions=[invalid])).object,
        resource.typed.status,
        Wait("ExtensionNotReady", "Infrastructure apple: its extension has not finished"),
    )
    assert isinstance(outcome, Overdue)
    assert outcome.message.endswith("the extension last said: the lease expired")


def flow_status(task: TaskStatus) -> FlowStatus:
    tasks = dict.fromkeys(RECONCILE.tasks, TaskStatus(TaskState.DONE))
    return FlowStatus("Reconcile", {**tasks, "Deploy infrastructure": task})


OVERDUE = TaskStatus(TaskState.OVERDUE, "ExtensionNotReady", "it has not finished, for longer than 600 seconds", 5.0)


def test_overdue_extension_never_ends_the_operation() -> None:
    """Failed, the Shoot's extensions would stop, and nothing would go on when this one finishes after all."""
    days = scope(object=begun(timedelta(days=3)))
    reported = status.reported(days, OperationType.RECONCILE, flow_status(OVERDUE), 12 * 3600)
    assert reported.last_operation is not None
    assert reported.last_operation.state == "Error"
    assert [(last_error.task_id, last_error.description) for last_error in reported.last_errors] == [
        ("Deploy infrastructure", OVERDUE.message)
    ]
    assert flow_status(OVERDUE).outcome == Wait("ExtensionNotReady", f"Deploy infrastructure: {OVERDUE.message}", 5.0)
    failed = flow_status(TaskStatus(TaskState.FAILED, "TaskFailed", "no quota"))
    ended = status.reported(days, OperationType.RECONCILE, failed, 12 * 3600)
    assert ended.last_operation is not None
    assert ended.last_operation.state == "Failed"
    assert isinstance(failed.outcome, Fault)


def test_what_stays_overdue_is_written_once() -> None:
    def written(of: Object, now: datetime) -> Object:
        reported = status.reported(scope(object=of, now=now), OperationType.RECONCILE, flow_status(OVERDUE), 12 * 3600)
        return Object(encode_json({**of.tree, "status": msgspec.to_builtins(reported)}))

    once = written(begun(LONG), NOW)
    assert written(once, NOW + LONG).tree == once.tree


def test_what_is_overdue_can_be_read_back() -> None:
    flow = read(RECONCILE, flow_status(OVERDUE).description, {"Deploy infrastructure": OVERDUE.message})
    assert flow.tasks["Deploy infrastructure"].state is TaskState.OVERDUE
    assert flow.tasks["Deploy infrastructure"].reason == "ExtensionNotReady"
    failed = read(RECONCILE, "", {"Deploy infrastructure": "no quota"})
    assert failed.tasks["Deploy infrastructure"].state is TaskState.FAILED


def test_a_failure_counts_more_than_what_is_overdue() -> None:
    error = {"description": "no quota", "codes": ["ERR_INFRA_QUOTA_EXCEEDED"]}
    last = {"type": "Migrate", "state": "Error"}
    verdict = migrated(infrastructure(at(LONG), lastError=error, lastOperation=last))
    assert verdict == Failure("Infrastructure apple: no quota", ("ERR_INFRA_QUOTA_EXCEEDED",))


def test_resource_that_does_not_go_is_an_error() -> None:
    def deployed(ago: timedelta, *, is_confirmed: bool) -> Verdict:
        annotations = {metadata_keys.CONFIRM_DELETION: "true"} if is_confirmed else {metadata_keys.OPERATION: "migrate"}
        finalizers = ["extensions.gardener.cloud/infrastructure"]
        gone = {"deletionTimestamp": timestamp(NOW - ago), "finalizers": finalizers, "annotations": annotations}
        return extensions.deploy(Infrastructure)(of(infrastructure(order="", metadata=gone), 2 * LONG))

    for is_confirmed in (True, False):
        assert isinstance(deployed(SHORT, is_confirmed=is_confirmed), Wait)
        verdict = deployed(LONG, is_confirmed=is_confirmed)
        assert isinstance(verdict, Overdue)
        assert verdict.reason == "Deleting"


def test_invalid_lease_stops_no_migration() -> None:
    """A Shoot that leaves renews none: it would be named as the cause of whatever keeps the extension."""
    invalid = {"type": "LeaseValid", "status": "False", "reason": "LeaseExpired", "message": "the lease expired"}
    verdict = migrated(infrastructure(at(LONG), conditions=[invalid]))
    assert isinstance(verdict, Overdue)
    assert verdict.message.endswith("the extension last said: releasing the network")


@pytest.mark.parametrize(("failed", "fails"), [(LONG, False), (SHORT, True), (timedelta(), True)])
def test_error_of_attempt_before_order_is_no_failure(failed: timedelta, fails: bool) -> None:
    """An order to retry would end the operation again before its extension has begun."""
    error = {"description": "no quota", "lastUpdateTime": timestamp(NOW - failed)}
    resource = infrastructure(at(SHORT), lastError=error, lastOperation={"type": "Migrate", "state": "Error"})
    assert isinstance(migrated(resource), Failure if fails else Wait)


def test_a_changed_result_is_not_passed_on() -> None:
    """Nor is it waited for in silence: the message has object, field and remedy."""
    reported: Tree = {"lastOperation": {"type": "Create", "state": "Succeeded"}, "providerStatus": {"network": "net-1"}}
    stored = infrastructure(order="", **reported).object
    digests = results.digests_of(stored, ["providerStatus"])
    assert digests is not None

    def deployed(network: str, digests: str | None, began: timedelta) -> Verdict:
        annotations = {metadata_keys.RESULT_DIGESTS: digests} if digests is not None else {}
        status: Tree = {**reported, "providerStatus": {"network": network}}
        live = infrastructure(order="", metadata={"annotations": annotations}, **status).object
        ctx = of(ExtensionResource(Infrastructure, live), began)
        return extensions._wait_until_succeeded(ctx, live, live.decode(Infrastructure).status, "")

    assert isinstance(deployed("net-1", digests, SHORT), Done)
    assert isinstance(deployed("net-9", None, SHORT), Done), "of an extension that writes none"
    verdict = deployed("net-9", digests, SHORT)
    assert isinstance(verdict, Wait)
    assert verdict.reason == "ResultsChanged"
    assert verdict.message.startswith("Infrastructure apple: status.providerStatus: found a value that its extension")
    target = f"infrastructure.extensions.gardener.cloud apple -n {TECHNICAL_ID}"
    command = f"kubectl annotate {target} --overwrite gardener.cloud/operation=reconcile"
    assert verdict.message.endswith(command)
    overdue = deployed("net-9", digests, LONG)
    assert isinstance(overdue, Overdue)
    assert command in overdue.message
    malformed = deployed("net-1", "x", SHORT)
    assert isinstance(malformed, Wait)
    assert f"metadata.annotations[{metadata_keys.RESULT_DIGESTS}]" in malformed.message
