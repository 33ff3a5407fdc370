"""How long objects that a Cluster refers to may still come before it is reported that they are missing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import msgspec

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusters.act.steps import find_children
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.reference_grace import GRACE, ReferenceGrace
from espalier.clusters.observe.references import Missing, missing_kind
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report.status import status_of
from espalier.kube.client import Client
from espalier.providers.docker.cluster_api import DockerCluster
from espalier.providers.registry import PROVIDERS
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.outcome import Wait
from tests.support.objects.observed_clusters import NoServer, as_object, example, laptop, scope

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ABSENT = Missing("spec.datacenterRef", "DockerDatacenterConfig a in namespace default, which does not exist")


class Clock:
    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


def test_grace_begins_when_object_is_missed_and_ends() -> None:
    clock = Clock()
    grace, awaiting = ReferenceGrace(clock), lacking(ABSENT)
    assert grace.left(awaiting) == GRACE
    clock.now += timedelta(seconds=GRACE - 1)
    assert grace.left(awaiting) == 1
    clock.now += timedelta(seconds=1)
    assert grace.left(awaiting) == 0
    assert grace.left(scope(*example(), laptop())) == 0
    assert grace.left(awaiting) == GRACE, "it came, and went again"


def test_missing_kind_does_not_come_with_a_manifest() -> None:
    grace = ReferenceGrace(Clock())
    assert grace.left(lacking(missing_kind(DockerCluster.resource))) == 0
    assert grace.left(lacking(ABSENT, missing_kind(DockerCluster.resource))) == 0


def test_changed_cluster_has_a_grace_for_references() -> None:
    clock = Clock()
    grace, awaiting = ReferenceGrace(clock), lacking(ABSENT)
    grace.left(awaiting)
    clock.now += timedelta(seconds=GRACE)
    assert grace.left(awaiting) == 0
    tree = awaiting.object.tree
    tree["metadata"]["generation"] = (awaiting.object.metadata.generation or 0) + 1
    assert grace.left(msgspec.structs.replace(awaiting, object=as_object(tree))) == GRACE


def test_deleted_cluster_waits_for_nothing() -> None:
    seen = lacking(ABSENT)
    metadata = msgspec.structs.replace(seen.cluster.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    cluster = msgspec.structs.replace(seen.cluster, metadata=metadata)
    assert ReferenceGrace(Clock()).left(msgspec.structs.replace(seen, cluster=cluster)) == 0


def test_recreated_cluster_has_its_own_grace() -> None:
    clock = Clock()
    grace, awaiting = ReferenceGrace(clock), lacking(ABSENT)
    grace.left(awaiting)
    clock.now += timedelta(seconds=GRACE)
    ClusterObserver(Caches(Client(NoServer())), providers=PROVIDERS, grace=grace).forget(awaiting.key)
    assert grace.left(awaiting) == GRACE


def test_other_manager_does_not_revert_a_report() -> None:
    seen = lacking(ABSENT)
    status = msgspec.structs.replace(seen.cluster.status, failure_reason=Reason.MISSING_DEPENDENT_OBJECTS)
    cluster = msgspec.structs.replace(seen.cluster, status=status)
    assert ReferenceGrace(Clock()).left(msgspec.structs.replace(seen, cluster=cluster)) == 0


def test_nothing_fails_within_the_grace() -> None:
    waiting = msgspec.structs.replace(lacking(ABSENT), grace=4.0)
    outcome = find_children(waiting)
    assert isinstance(outcome, Wait)
    assert (outcome.reason, outcome.after) == (Reason.DEPENDENT_OBJECTS_AWAITED, 4.0)
    status = status_of(waiting, outcome, NOW)
    assert status.failure_reason is None
    assert "SpecValid" not in {condition.type for condition in status.conditions}
    missed = find_children(lacking(ABSENT))
    assert isinstance(missed, Wait)
    assert missed.reason == Reason.MISSING_DEPENDENT_OBJECTS
    assert status_of(lacking(ABSENT), missed, NOW).failure_reason == Reason.MISSING_DEPENDENT_OBJECTS


def lacking(*missing: Missing) -> Scope:
    return msgspec.structs.replace(scope(*example(), laptop()), missing=missing)
