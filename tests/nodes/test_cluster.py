"""Real clusters to which something happens: the environment is killed, a node breaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments import workload_use as use
from tests.support.environments.footprint import Footprint, footprint
from tests.support.environments.node_port_client import asked_throughout
from tests.support.environments.node_versions import FIRST, OLD, OLDER, OLDEST
from tests.support.environments.real_environment import RealEnvironment, Tree, made, real_environment, why_not
from tests.support.providers.node_manifests import CLUSTER, manifest
from tests.support.servers.kubectl import Kubectl

MISSING = why_not(OLD)
UPGRADED = why_not(FIRST, OLD)
MANY = why_not(OLD, watchers=256)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


async def test_environment_killed_in_a_creation_finishes(home: Path, clean: Footprint) -> None:
    async with real_environment(home) as env:
        await env.apply(manifest(1))
        await env.until("dockerclusters", lambda value: "status" in value)
        await env.kill()  # before there is a node, or while the first boots
        await env.up()
        await env.until("dockermachines", is_bootstrapping)
        nodes = await env.nodes()
        await env.kill()  # while the first runs its bootstrap data
        await env.up()
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1)
        assert {node["pid"] for node in nodes} <= {node["pid"] for node in await env.nodes()}
        await env.management("delete", CLUSTER, "--wait")
    assert made(footprint(home), home) == made(clean, home)


@pytest.mark.skipif(bool(UPGRADED), reason=UPGRADED)
async def test_environment_killed_in_an_upgrade_finishes(home: Path) -> None:
    async with real_environment(home) as env:
        workload = await ready_garden(env, kubernetes=OLDEST, version=FIRST)
        async with asked_throughout(env):
            await env.apply(manifest(2, kubernetes=OLDER))
            await env.until("dockermachines", is_bootstrapping)
            await env.kill()  # while the second control plane machine joins
            await env.up()
            await env.until("machines.cluster.x-k8s.io", is_worker_that_goes)
            await env.kill()  # while the first worker is drained
            await env.up()
            await env.ready("garden")
            await use.has_nodes(workload, control_planes=1, workers=2)
            await use.carries_pods(workload)


@pytest.mark.skipif(bool(MANY), reason=MANY)
async def test_broken_control_plane_node_is_replaced(home: Path) -> None:
    async with real_environment(home) as env:
        await env.apply(manifest(1, 3, impatient=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=3, workers=1)
        broken = next(node["name"] for node in await env.nodes() if node["role"] == "control-plane")
        code, _, complaint = await env.espalier("nodes", "crash", broken)
        assert code == 0, complaint
        await workload("get", "--raw", "/readyz")
        await env.management(
            "wait", "-n", "eksa-system", "--for=delete", f"machines.cluster.x-k8s.io/{broken}", "--timeout=600s"
        )
        await env.ready("garden")
        await use.has_nodes(workload, control_planes=3, workers=1)
        assert await use.etcd_members(workload) == 3


async def ready_garden(env: RealEnvironment, *, kubernetes: str, version: str) -> Kubectl:
    """A cluster of two workers in which the Service of `use` answers."""
    await env.apply(manifest(2, kubernetes=kubernetes))
    await env.ready("garden")
    workload = await env.workload("garden")
    await use.has_nodes(workload, control_planes=1, workers=2, version=version)
    await use.carries_pods(workload)
    await use.answers_by_name_across_nodes(workload)
    return workload


def is_bootstrapping(machine: Tree) -> bool:
    """A DockerMachine whose node runs its bootstrap data."""
    conditions = machine.get("status", {}).get("conditions", [])
    return any(condition["reason"] == "Bootstrapping" for condition in conditions)


def is_worker_that_goes(machine: Tree) -> bool:
    """A Machine of a worker that is being deleted."""
    metadata = machine["metadata"]
    is_control_plane = "cluster.x-k8s.io/control-plane" in metadata["labels"]
    return not is_control_plane and "deletionTimestamp" in metadata
