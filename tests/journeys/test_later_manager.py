"""The upgrade of a manager on a real API server, where managers are processes: nothing moves, and drift is seen."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

from espalier.api.capi.machine import Machine, MachineHealthCheck
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.management import SERVICE_ACCOUNT, Production, production
from tests.support.environments.many_clusters import CALM_SECONDS, all_ready
from tests.support.histories.isolation_stories import apply, is_synced, numbered
from tests.support.servers.audit import following, requests_of
from tests.support.waiting import until

pytestmark = pytest.mark.envtest

CLUSTERS = int(os.environ.get("ESPALIER_QUIET_CLUSTERS", "2"))
RESYNC = 3.0
LATER = (sys.executable, "-m", "tests.journeys.later_manager")
OF_THE_MANAGER = ("events", "validatingwebhookconfigurations", "mutatingwebhookconfigurations")
"""Objects that a starting manager writes for itself."""


async def machines(client: Client) -> set[str]:
    return {item.metadata.uid for item in (await client.list(Machine.resource, SYSTEM_NAMESPACE)).items}


@pytest.mark.demand("L6", "I1", "I28")
async def test_later_manager_writes_statuses_only(control_plane: ControlPlane, tmp_path: Path) -> None:
    """`ESPALIER_QUIET_CLUSTERS` says how many clusters there are."""
    async with production(control_plane, tmp_path) as management, following(control_plane.audit_log) as requests:
        clusters = management.caches.of(Cluster.resource)
        patience = management.kubectl.patience = 60 + 10 * CLUSTERS
        await apply(management.client, CLUSTERS)
        await all_ready(clusters, CLUSTERS, seconds=patience)
        async with asyncio.timeout(120):
            while await requests.writes(CALM_SECONDS):
                pass
        before = await machines(management.client)
        await management.stop()
        management.program, management.flags = LATER, ("--sync-period", f"{RESYNC:g}s")
        since = control_plane.audit_log.stat().st_size
        await management.start()
        await requests.writes(10 * 1.1 * RESYNC)
        written = [
            item
            for item in requests_of(control_plane.audit_log, SERVICE_ACCOUNT, since=since)
            if item.is_write and item.code < 400 and item.target.resource not in OF_THE_MANAGER
        ]
        assert {(item.target.group, item.target.full_resource) for item in written} == {
            (Cluster.resource.group, "clusters/status")  # to say that there is a patch
        }
        assert set(Counter(item.target.name for item in written).values()) == {1}
        assert await machines(management.client) == before
        steady = [cluster for cluster in clusters.list() if cluster.name.startswith("garden-")]
        assert len(steady) == CLUSTERS
        assert all(map(is_synced, steady))
        for key in (numbered(0), numbered(1)):  # one of each release
            await scale(management, key)
        assert before <= await machines(management.client)
        await drift_is_seen_and_brought_back(management, numbered(0))
        results = [item.name for item in steady]
        await management.kubectl("delete", Cluster.resource.group_resource, *results)
        await management.kubectl(
            "delete", DockerDatacenterConfig.resource.group_resource, *results, "--ignore-not-found"
        )


async def scale(management: Production, key: Key) -> None:
    """To three workers, and nothing else happens."""
    spec = {"workerNodeGroupConfigurations": [{"name": "md-0", "count": 3}]}
    await management.client.patch(Cluster.resource, key.name, key.namespace, patch={"spec": spec}, type=PatchType.MERGE)

    def is_scaled(value: Object | None) -> bool:
        assert value is not None
        cluster = value.decode(Cluster)
        current = cluster.status.observed_generation == cluster.metadata.generation
        return current and bool(cluster.status.ready) and cluster.metadata.generation > 1

    await until(management.caches.of(Cluster.resource), key, is_scaled)


async def drift_is_seen_and_brought_back(management: Production, key: Key) -> None:
    """By a real API server's bookkeeping of who owns which field."""
    client, cache = management.client, management.caches.of(Cluster.resource)
    check = f"{key.name}-md-0-worker-unhealthy"
    patch = {"spec": {"remediation": {"triggerIf": {"unhealthyLessThanOrEqualTo": "1%"}}}}
    await client.patch(MachineHealthCheck.resource, check, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
    field = f"MachineHealthCheck eksa-system/{check}: spec.remediation.triggerIf.unhealthyLessThanOrEqualTo"
    await until(cache, key, lambda value: value is not None and field in _synced(value), seconds=30)
    annotations = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
    await client.patch(Cluster.resource, key.name, key.namespace, patch=annotations, type=PatchType.MERGE)
    await until(cache, key, lambda value: value is not None and is_synced(value), seconds=30)


def _synced(object_: Object) -> str:
    return next(
        (
            condition.message
            for condition in object_.decode(Cluster).status.conditions
            if condition.type == names.SYNCED
        ),
        "",
    )
