"""T2: clusters through their lives under the real Cluster API controllers, which decide what happens to machines."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio

from espalier.api.capi.machine import Machine
from espalier.api.core import NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.cli.clusters.rollouts import certificates, rollouts
from espalier.cli.kit.printing.progress import Progress
from espalier.clusterapi import kubeconfig as kubeconfigs
from espalier.realnodes.management.processes import State
from tests.capi.going_back import both_go_back
from tests.capi.losing import infrastructure_and_control_plane_are_lost
from tests.support.environments.cluster_api import RealClusterApi
from tests.support.environments.managed_clusters import GARDEN
from tests.support.histories.machine_stories import CHANGES, Change, happens_as_planned, lives
from tests.support.sampling import sampled

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def stories(real: RealClusterApi, request: pytest.FixtureRequest) -> AsyncIterator[dict[str, asyncio.Task[None]]]:
    """Those of clusters of their own, told side by side from the beginning: they mostly wait."""
    chosen = {item.function for item in request.session.items if isinstance(item, pytest.Function)}
    told = [story for story, test in STORIES.items() if test in chosen]
    tasks = {story.__name__: asyncio.create_task(story(real)) for story in told}
    yield tasks
    for task in tasks.values():
        task.cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)


async def live(env: RealClusterApi) -> None:
    """Nothing is prepared but the etcd: Cluster API makes authority and kubeconfig itself."""
    await env.provide_etcd("garden")
    await env.apply()
    await env.until_ready()
    await env.without_pods_to_drain("garden")
    await lives(env, GARDEN)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def orchard(real: RealClusterApi) -> Key:
    """One that is there for all tests."""
    return await real.make("orchard")


async def change_all(env: RealClusterApi, key: Key, changes: Sequence[Change]) -> None:
    draw = random.Random(key.name)
    for change in changes:
        await happens_as_planned(env, key, change, draw)


@pytest.mark.demand("I20")
@pytest.mark.parametrize("first", sampled(range(3), 0))
async def test_real_controllers_do_as_planned(
    real: RealClusterApi, stories: dict[str, asyncio.Task[None]], orchard: Key, first: int
) -> None:
    """Of every third change, on a cluster each; the other stories go on beside it."""
    key = orchard if first == 0 else await real.make(f"orchard-{first}")
    await change_all(real, key, CHANGES[first::3])


@pytest.mark.parametrize("group", ["", "md-0"], ids=["control plane", "workers"])
async def test_real_controllers_restart_as_asked(real: RealClusterApi, orchard: Key, group: str) -> None:
    """`espalier rollout restart`: a time in a field that the manager does not render, nor take back."""
    owner = await rollouts.cluster(real.client, orchard)
    groups = [group] if group else []
    (target,) = await rollouts.targets(real.client, owner, groups, control_plane=not group)
    before = await machines_of(real, target)
    await rollouts.check_restart(real.client, [target], replaces_in_place=False)
    after = await rollouts.restart(real.client, [target])
    number = await rollouts.until_replaced(real.client, target, after, timeout=120, progress=Progress())
    assert number == len(before)
    assert not await machines_of(real, target) & before
    await real.until_ready(orchard)
    (later,) = await rollouts.targets(real.client, owner, groups, control_plane=not group)
    assert later.after == after


async def test_real_controllers_issue_a_kubeconfig_again(real: RealClusterApi, orchard: Key) -> None:
    key = kubeconfigs.secret_key(ClusterIdentity.of(orchard).capi)
    before = await real.client.get(SECRET, key.name, key.namespace)
    ends = await certificates.renew_kubeconfig(real.client, ClusterIdentity.of(orchard).capi)
    after = await real.client.get(SECRET, key.name, key.namespace)
    assert after.metadata.uid != before.metadata.uid
    assert ends > datetime.now(UTC) + timedelta(days=300)
    workload = real.workloads.connect(after.decode(Secret).data["value"])
    assert (await workload.list(NODE)).items
    await workload.close()
    await real.until_ready(orchard)


async def machines_of(real: RealClusterApi, target: rollouts.Target) -> set[str]:
    listed = await real.client.list(Machine.resource, target.object.namespace, labels=target.selector)
    return {machine.name for machine in listed.items}


async def test_killed_cluster_api_manager_is_started_again(real: RealClusterApi, orchard: Key) -> None:
    (core,) = (report for report in real.supervisor.reports if report.name == "cluster-api-core")
    assert core.pid is not None
    os.kill(core.pid, signal.SIGKILL)
    cluster = await real.client.get(Cluster.resource, orchard.name, orchard.namespace)
    spec = cluster.tree["spec"]
    spec["workerNodeGroupConfigurations"][0]["count"] += 1
    await real.change(orchard, **spec)
    await real.until_ready(orchard)
    (again,) = (report for report in real.supervisor.reports if report.name == "cluster-api-core")
    assert (again.state, again.restarts, again.last_exit) == (State.RUNNING, 1, -signal.SIGKILL)


@pytest.mark.demand("L10")
async def test_manifest_becomes_cluster_with_a_whole_life(
    stories: dict[str, asyncio.Task[None]],
) -> None:
    await stories[live.__name__]


async def test_recreated_infrastructure_keeps_its_endpoint(
    stories: dict[str, asyncio.Task[None]],
) -> None:
    await stories[infrastructure_and_control_plane_are_lost.__name__]


@pytest.mark.demand(V32="back only while no control plane machine runs the new version, and then made")
@pytest.mark.soak
async def test_hanging_upgrade_is_reverted_until_it_begins(
    stories: dict[str, asyncio.Task[None]],
) -> None:
    await stories[both_go_back.__name__]


STORIES = {
    live: test_manifest_becomes_cluster_with_a_whole_life,
    infrastructure_and_control_plane_are_lost: (test_recreated_infrastructure_keeps_its_endpoint),
    both_go_back: test_hanging_upgrade_is_reverted_until_it_begins,
}
"""Each with the test that has its result: of those that were left out nothing is begun."""
