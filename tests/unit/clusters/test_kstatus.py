"""Statuses of Clusters as programs that follow kstatus read them: Flux, Argo CD and others."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Tree
from espalier.clusters.design import names
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.status import status_of, unreadable
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from tests.support.objects.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, faults, verdict
from tests.support.objects.made_clusters import made, objects, settled
from tests.support.objects.observed_clusters import as_object, example, scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PAUSED = {PAUSED_ANNOTATION: "true"}
STALLED, RECONCILING, READY, NOT_READY, UNKNOWN = (
    {"type": type_, "status": status}
    for type_, status in (
        ("Stalled", "True"),
        ("Reconciling", "True"),
        ("Ready", "True"),
        ("Ready", "False"),
        ("Ready", "Unknown"),
    )
)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (None, CURRENT),
        ({}, CURRENT),
        ({"observedGeneration": -1}, IN_PROGRESS),
        ({"observedGeneration": 1, "conditions": [STALLED]}, IN_PROGRESS),
        ({"observedGeneration": 2, "conditions": [READY, STALLED]}, FAILED),
        ({"observedGeneration": 2, "conditions": [NOT_READY]}, IN_PROGRESS),
        ({"observedGeneration": 2, "conditions": [UNKNOWN]}, IN_PROGRESS),
        ({"observedGeneration": 2, "conditions": [READY, RECONCILING]}, IN_PROGRESS),
        ({"observedGeneration": 2, "conditions": [RECONCILING, STALLED]}, IN_PROGRESS),
        ({"observedGeneration": 2, "conditions": [STALLED, RECONCILING]}, FAILED),
        ({"conditions": [READY]}, CURRENT),
        ({"observedGeneration": 2, "failureReason": "X", "phase": "Failed"}, CURRENT),
        ({"observedGeneration": 3, "conditions": [READY]}, IN_PROGRESS),
    ],
)
def test_verdicts_are_those_of_kstatus(status: Tree | None, expected: str) -> None:
    """As measured with kstatus itself (docs/gitops.md)."""
    assert verdict({"metadata": {"generation": 2}, "status": status}) == expected


def judged(scope: Scope, outcome: Outcome) -> tuple[str, str]:
    """The verdict, and the condition that says it with its reason."""
    status = status_of(scope, outcome, NOW)
    tree = scope.object.tree | {"status": msgspec.to_builtins(status)}
    assert list(faults(tree)) == []
    told = {
        condition.type: condition.reason
        for condition in status.conditions
        if condition.type in (names.STALLED, names.RECONCILING)
    }
    return verdict(tree), " ".join(f"{type_}/{reason}" for type_, reason in told.items())


WAITING = Wait("OutdatedInformation", "waiting for Cluster API")
REFUSED = Fault("ObjectRefused", "the API server rejects it")
ROLLING: Tree = {"replicas": 2, "upToDateReplicas": 1}
LOST: Tree = {"conditions": [{"type": "Available", "status": "False", "reason": "X", "message": "no leader"}]}


UNSEEN: Tree = {"observedGeneration": -1}
CHANGED = settled(childrenObservedGeneration=5)


def cluster(status: Tree = UNSEEN, annotations: Tree | None = None, **reported: Any) -> Scope:
    return made(objects=objects(**reported), status=status, annotations=annotations)


@pytest.mark.parametrize(
    ("state", "outcome", "expected"),
    [
        (scope(*example()), WAITING, (IN_PROGRESS, "Reconciling/ControlPlaneInitializationInProgress")),
        (cluster(), Done(), (CURRENT, "")),
        (cluster(settled()), Done(), (CURRENT, "")),
        (cluster(settled(), control_plane=ROLLING), Done(), (IN_PROGRESS, "Reconciling/RollingUpgradeInProgress")),
        (cluster(settled(), control_plane=LOST), Done(), (IN_PROGRESS, "Reconciling/ControlPlaneComponentsUnhealthy")),
        (cluster(), REFUSED, (IN_PROGRESS, "Stalled/ObjectRefused")),
        (cluster(CHANGED), REFUSED, (FAILED, "Stalled/ObjectRefused")),
        (cluster(settled(), PAUSED), Done(), (CURRENT, "")),
        (cluster(CHANGED, PAUSED), Done(), (FAILED, "Stalled/Paused")),
    ],
    ids=["new", "made", "settled", "rolled", "sick", "refused", "refused-linked", "paused", "paused-changed"],
)
def test_a_cluster_is_judged_by_its_state(state: Scope, outcome: Outcome, expected: tuple[str, str]) -> None:
    assert judged(state, outcome) == expected


def test_a_status_of_nobody_is_in_progress() -> None:
    fresh = {"metadata": {"generation": 1}, "status": {"observedGeneration": -1}}
    assert verdict(fresh) == IN_PROGRESS
    assert msgspec.convert(fresh["status"], ClusterStatus).observed_generation == -1


def test_an_unreadable_cluster_is_stalled() -> None:
    tree = {"apiVersion": "v1", "kind": "Cluster", "metadata": {"name": "a", "generation": 2}, "spec": 3}
    tree["status"] = {"observedGeneration": 2}
    status = unreadable(as_object(tree), Fault("ClusterInvalid", "no"), NOW)
    tree["status"] = msgspec.to_builtins(status)
    assert (verdict(tree), list(faults(tree))) == (FAILED, [])


def test_a_deleted_cluster_is_terminating() -> None:
    tree = {"metadata": {"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert verdict(tree) == TERMINATING
