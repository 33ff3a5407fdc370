"""Pods that an API server refuses: controllers try again, because no event tells when it would take them."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import POD, STATEFUL_SET
from espalier.api.resource import Key, Resource
from espalier.clusterapi.machines.network import Network
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import Forbidden, KubeError, Status, StatusCause, StatusDetails, Unreachable
from espalier.runtime.clock import SystemClock
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.controller import WorkloadControllers

CLUSTER = Key("eksa-system", "seed")
DATABASE = {
    "apiVersion": "apps/v1",
    "kind": "StatefulSet",
    "metadata": {"name": "db", "namespace": "default"},
    "spec": {
        "replicas": 1,
        "serviceName": "db",
        "selector": {"matchLabels": {"app": "db"}},
        "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "db", "image": "db:1"}]}},
    },
}


@pytest.fixture
async def workloads() -> AsyncIterator[Workloads]:
    clock = SystemClock()
    made = Workloads(clock=clock, rng=random.Random(1), stores=MemoryStores())
    yield made
    await made.close()


@pytest.fixture
async def workload(workloads: Workloads) -> WorkloadCluster:
    authority = Authority.create("kubernetes", now=datetime.now(UTC))
    port = workloads.reserve(CLUSTER)
    opened = await workloads.open(CLUSTER, port, authority=authority, version="v1.36.3", network=Network())
    written = await opened.client.create(STATEFUL_SET, DATABASE)
    opened.cache(STATEFUL_SET).wrote(written)
    return opened


def refuse_pods(monkeypatch: pytest.MonkeyPatch, workload: WorkloadCluster, error: KubeError) -> None:
    create = workload.client.create

    async def refusing(resource: Resource, *arguments: Any, **options: Any) -> Any:
        if resource == POD:
            raise error
        return await create(resource, *arguments, **options)

    monkeypatch.setattr(workload.client, "create", refusing)


@pytest.mark.parametrize(
    "error",
    [
        Forbidden.of('error looking up service account default/db: serviceaccount "db" not found'),
        Unreachable("no response"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_refused_pod_is_created_by_a_later_try(
    workloads: Workloads, workload: WorkloadCluster, monkeypatch: pytest.MonkeyPatch, error: KubeError
) -> None:
    controllers = WorkloadControllers(workloads, clock=SystemClock(), rng=random.Random(1))
    with monkeypatch.context() as patched:
        refuse_pods(patched, workload, error)
        with pytest.raises(type(error)):
            await controllers.reconcile(CLUSTER)
    await controllers.reconcile(CLUSTER)
    assert [pod.name for pod in (await workload.client.list(POD)).items] == ["db-0"]


async def test_namespace_that_ends_is_no_failure(
    workloads: Workloads, workload: WorkloadCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = StatusDetails(causes=[StatusCause(reason="NamespaceTerminating")])
    refuse_pods(monkeypatch, workload, Forbidden(Status(message="because it is being terminated", details=ends)))
    controllers = WorkloadControllers(workloads, clock=SystemClock(), rng=random.Random(1))
    await controllers.reconcile(CLUSTER)
