"""Conditions after the limit of their reason: over all reasons that end by themselves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from espalier.api import conditions as condition_list
from espalier.api.conditions import condition
from espalier.api.definitions.reference import Prose, Remedy
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.clusters.design import names
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report import overdue, readiness
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import GARDEN, datacenter, example, scope

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
SINCE = condition_list.timestamp(BEGAN)
LIMITED = [reason for reason in reasons.REASONS if reason.limit is not None and reasons.CLUSTER in reason.kinds]


def waiting(*others: Tree) -> Scope:
    """The example, whose workers have not been ready since 2026 began."""
    before = [{"type": names.WORKERS_READY, "status": "False", "reason": "X", "lastTransitionTime": SINCE}]
    return made(objects=[*objects(), *others], status={"conditions": before})


def machine(name: str, ready: Tree, *, role: str = "deployment-name", **metadata: object) -> Tree:
    labels = {"cluster.x-k8s.io/cluster-name": "garden", f"cluster.x-k8s.io/{role}": "garden-md-0"}
    reference = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": name}
    there = {"name": name, "namespace": "eksa-system", "labels": labels, "uid": name, "resourceVersion": "5"}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": there | {"creationTimestamp": SINCE} | metadata,
        "spec": {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference},
        "status": {"conditions": [ready]},
    }


def after(scope: Scope, seconds: float, reason: str = "ScalingUp") -> tuple[str, float | None]:
    """The message so long after that began, and the seconds until it changes."""
    part = condition(names.WORKERS_READY, "False", reason, "1 of 2 exist")
    again = overdue.complete(scope, [part], BEGAN + timedelta(seconds=seconds))
    return part.message, again


@pytest.mark.parametrize("reason", LIMITED, ids=lambda item: item.name)
def test_lasting_reason_says_since_when_and_what_helps(reason: Prose) -> None:
    assert reason.limit is not None
    limit = reason.limit.seconds
    assert after(waiting(), limit - 10, reason.name) == ("1 of 2 exist", 10)
    told = f"1 of 2 exist; unchanged since {SINCE}: {reason.limit.advice_on(GARDEN)}"
    assert after(waiting(), limit, reason.name) == (told, None)
    assert after(waiting(), 100 * limit, reason.name) == (told, None)


@pytest.mark.parametrize(
    "reason", [reason for reason in reasons.REASONS if reason.remedy is not Remedy.TIME], ids=lambda x: x[0]
)
def test_reason_for_a_person_says_at_once_what_helps(reason: Prose) -> None:
    assert after(waiting(), 1_000_000, reason.name) == ("1 of 2 exist", None)


NOT_READY = {"type": "Ready", "status": "False", "message": "* InfrastructureReady:\n  * out of quota"}


def at(seconds: float) -> str:
    return condition_list.timestamp(BEGAN + timedelta(seconds=seconds))


def test_holding_machines_are_named_with_their_times() -> None:
    scope = waiting(
        machine("old", NOT_READY | {"lastTransitionTime": at(60)}),
        machine("young", NOT_READY | {"lastTransitionTime": at(1000)}),
        machine("gone", NOT_READY, deletionTimestamp=at(120), finalizers=["a"]),
    )
    message, again = after(scope, 1920)
    assert message.startswith(
        f"1 of 2 exist; Machine eksa-system/old is not ready since {at(60)}: InfrastructureReady: out of quota; "
        f"Machine eksa-system/gone is being deleted since {at(120)}; `espalier describe cluster "
    )
    assert again == 2800 - 1920


def test_drain_is_named_after_two_minutes_with_advice() -> None:
    budget = (
        "Drain not completed yet:\n* Pods with eviction failed:\n  * The disruption budget web needs 2: default/web-1"
    )
    draining = {"type": "Deleting", "status": "True", "reason": "DrainingNode", "message": budget}
    scope = waiting(machine("a", draining, deletionTimestamp=SINCE, finalizers=["a"]))
    assert after(scope, 119) == ("1 of 2 exist", 1)
    assert after(scope, 120)[0] == (
        f"1 of 2 exist; Machine eksa-system/a is being deleted since {SINCE}: Drain not completed yet: Pods with "
        "eviction failed: The disruption budget web needs 2: default/web-1 (its pods go once their "
        "PodDisruptionBudgets allow that, or after nodeDrainTimeout)"
    )


def test_ready_machine_is_progress_and_a_new_is_not() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": at(900)}
    assert after(waiting(machine("a", ready)), 1800) == ("1 of 2 exist", 900)
    new = machine("a", NOT_READY | {"lastTransitionTime": at(1790)}, creationTimestamp=at(1790))
    assert "unchanged since" in after(waiting(new), 1800)[0]


def test_message_names_three_machines_and_the_number() -> None:
    many = [machine(f"m{number}", NOT_READY | {"lastTransitionTime": at(number)}) for number in range(7)]
    message, _ = after(waiting(*many), 3600)
    assert message.count("is not ready since") == 3
    assert "; and 4 more; `espalier" in message


def test_reports_of_other_controllers_are_cut() -> None:
    hostile = {"type": "Ready", "status": "False", "message": "x" * 100_000, "lastTransitionTime": "yesterday"}
    message, _ = after(waiting(machine("m", hostile)), 3600)
    assert len(message) < 1000
    hostile["lastTransitionTime"] = at(1)
    message, _ = after(waiting(machine("m", hostile)), 3600)
    assert len(message) < 1000
    assert "..." in message


def test_control_plane_machine_does_not_hold_workers() -> None:
    scope = waiting(machine("cp", NOT_READY | {"lastTransitionTime": SINCE}, role="control-plane"))
    assert "unchanged since" in after(scope, 3600)[0]


def test_any_machine_holds_the_deletion_of_a_cluster() -> None:
    machines = [machine("cp", NOT_READY, role="control-plane"), machine("worker", NOT_READY)]
    present = waiting(*machines)
    cluster = example()[0]
    cluster["metadata"]["deletionTimestamp"] = SINCE
    gone = scope(cluster, datacenter(), *objects(), *machines)
    both = ["Machine eksa-system/cp is not ready", "Machine eksa-system/worker is not ready"]
    for type_ in (names.WORKERS_READY, names.READY):
        assert [item.what for item in overdue.holders_of(gone, type_)] == both
    assert [item.what for item in overdue.holders_of(present, names.WORKERS_READY)] == both[1:]


def test_a_change_not_observed_has_advice_later() -> None:
    before = [{"type": names.CONTROL_PLANE_READY, "status": "False", "reason": "X", "lastTransitionTime": SINCE}]
    trees = objects(control_plane={"observedGeneration": 0})
    scope = made(objects=trees, status={"conditions": before})

    def message(seconds: float) -> str:
        (part,) = (item for item in readiness.conditions(scope) if item.type == names.CONTROL_PLANE_READY)
        assert part.reason == Reason.OUTDATED_INFORMATION
        overdue.complete(scope, [part], BEGAN + timedelta(seconds=seconds))
        return part.message

    assert message(299) == "control plane: Cluster API has not observed the last change yet"
    assert "see that they run, and what their logs say" in message(300)
