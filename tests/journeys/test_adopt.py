"""Clusters that EKS Anywhere made are taken over: nothing of Cluster API is written, and nothing rolls later."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.eksa.reasons import Reason
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.management.adoption.plan import Outcome, State, plan
from espalier.management.adoption.site import read
from espalier.providers.registry import PROVIDERS
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment
from tests.support.environments.of_eks_anywhere import adopted, after, nothing

pytestmark = pytest.mark.embedded


def condition(env: ManagedEnvironment, type_: str = "Ready") -> Tree:
    found = env.clusters.get(GARDEN)
    assert found is not None
    return next(one for one in found.tree["status"]["conditions"] if one["type"] == type_)


def test_cluster_of_eks_anywhere_waits_to_be_adopted() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert condition(env)["reason"] == Reason.NOT_ADOPTED

    assert after(nothing, story) == []


def test_manager_writes_nothing_for_adopted_cluster() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert condition(env)["status"] == "True"

    assert after(adopted, story) == []


def test_plan_says_what_is_kept_and_what_is_changed() -> None:
    async def before(client: Client) -> None:
        planned = plan(await read(client, PROVIDERS), [GARDEN])
        assert planned.blocks == ()
        (cluster,) = planned.clusters
        assert (cluster.state, cluster.blocks) == (State.READY, ())
        by_outcome = {outcome: [row for row in cluster.rows if row.outcome is outcome] for outcome in Outcome}
        (control_plane,) = [row for row in by_outcome[Outcome.STAYS] if row.object.startswith("KubeadmControlPlane")]
        assert all("criSocket" in field for field in control_plane.fields)
        assert not any("kubeadmConfigSpec" in field for row in by_outcome[Outcome.NEXT] for field in row.fields)
        assert any("labels" in field for row in by_outcome[Outcome.NEXT] for field in row.fields)

    after(before, nothing)


def test_scaling_adopted_cluster_replaces_no_machine() -> None:
    async def story(env: ManagedEnvironment) -> None:
        before = await env.machine_names("garden")
        groups = [dict(one) for one in env.clusters.get(GARDEN).tree["spec"]["workerNodeGroupConfigurations"]]  # type: ignore[union-attr]
        groups[0]["count"] += 1
        await env.change(workerNodeGroupConfigurations=groups)
        await env.until_ready()
        await asyncio.sleep(CALM)
        now = await env.machine_names("garden")
        assert all(before[name] <= now[name] for name in before)
        assert sum(map(len, now.values())) == sum(map(len, before.values())) + 1

    assert after(adopted, story)
