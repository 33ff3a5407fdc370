"""Three control plane nodes and two workers are upgraded in place: by annotations, and by hooks."""

from __future__ import annotations

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from tests.support.environments import workload_use as use
from tests.support.environments.in_place_on_nodes import LONG, identities, watched
from tests.support.environments.node_versions import NEW, NEWER, OLD
from tests.support.environments.real_environment import real_environment, why_not
from tests.support.providers.node_manifests import manifest

WHY_NOT = why_not(OLD, NEW, watchers=256)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

FAILOVER = 10.0
"""Seconds within which the load balancer of the control plane goes on to another API server."""
BUSY = 3.0
"""How many times longer than an API server without nodes on the same machine that of the cluster may take."""


@pytest.mark.demand(U74="by hooks and by annotations; the endpoint was silent for 5.5 s at most, at load 100")
@pytest.mark.parametrize("way", FrontEnd)
async def test_three_nodes_and_two_workers_are_upgraded(
    tmp_path_factory: pytest.TempPathFactory, way: FrontEnd
) -> None:
    async with real_environment(tmp_path_factory.mktemp("three"), "--in-place", way) as env:
        await env.management("apply", "-f", "-", stdin=manifest(2, 3, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=3, workers=2, version=OLD)
        await use.carries_pods(workload)
        await use.answers_by_name_across_nodes(workload)
        before = await identities(env, workload)
        async with watched(workload) as seen, watched(env.management) as beside:
            await env.change(kubernetesVersion=NEWER)
            await env.ready("garden", within=LONG)
        assert await identities(env, workload) == before
        await use.has_nodes(workload, control_planes=3, workers=2, version=NEW)
        await use.carries_pods(workload)
        assert await use.etcd_members(workload) == 3
        assert await env.management("get", "nu", "-A", "--no-headers") == ""
        print(f"the API was away for {seen.gap:.1f} s at most, pods available: {seen.fewest} at least")
        print(f"the management cluster's, which nothing concerned, was away for {beside.gap:.1f} s")
        assert seen.gap < FAILOVER + BUSY * beside.gap
        assert seen.fewest >= 1, "the budget of the pods holds"
