"""Two minor versions in place on two and on five real nodes, of which one reboots and one is destroyed."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.realnodes.nspawn.system import cgroups
from espalier.realnodes.nspawn.system.state import State
from espalier.upgrader.files import STAGED
from tests.support.environments import workload_use as use
from tests.support.environments.in_place_on_nodes import LONG, identities, inside, nothing_is_left, watched
from tests.support.environments.node_versions import FIRST, NEW, NEWER, OLD, OLDER, OLDEST
from tests.support.environments.real_environment import READY_SECONDS, RealEnvironment, Tree, real_environment, why_not
from tests.support.environments.real_node import BIN, Host
from tests.support.providers.node_manifests import manifest
from tests.support.servers.kubectl import Kubectl

WHY_NOT = why_not(FIRST, OLD, NEW, watchers=256)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)]

SYSTEM = ("-n", "eksa-system")
KEPT_BY_KUBEADM = "/etc/kubernetes/tmp"


@pytest.mark.demand("U46")
async def test_two_versions_survive_reboot_death_and_loss(tmp_path: Path) -> None:
    async with real_environment(tmp_path) as env:
        await env.apply(manifest(2, 3, kubernetes=OLDEST, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=3, workers=2, version=FIRST)
        await use.carries_pods(workload)
        await use.answers_by_name_across_nodes(workload)
        before, pods = await identities(env, workload), await pods_left_alone(workload)

        async with watched(workload) as asked:
            await env.change(kubernetesVersion=OLDER)
            first = await begun(env)
            await Host.find(env, first).appears(f"{BIN}/.kubeadm{STAGED}", within=READY_SECONDS)
            await reboot(env, first)
            await asyncio.sleep(5)  # nothing to wait for: it is the moment at which the manager dies that is arbitrary
            await env.kill()
            await env.up()
            await env.ready("garden", within=LONG)
        after = await identities(env, workload)
        assert (after["machines"], after["nodes"]) == (before["machines"], before["nodes"])
        await use.has_nodes(workload, control_planes=3, workers=2, version=OLD)
        assert of_others(await pods_left_alone(workload), first) == of_others(pods, first)
        assert asked.fewest >= 1, "the budget of the pods holds"

        async with watched(workload) as asked:
            await env.change(kubernetesVersion=NEWER)
            at_work = await begun(env)
            planes = sorted(node["name"] for node in await env.nodes() if node["role"] == "control-plane")
            lost = next(name for name in planes if name not in (at_work, first))
            code, _, complaint = await env.espalier("nodes", "crash", lost)
            assert code == 0, complaint
            await env.management("delete", "machines.cluster.x-k8s.io", lost, *SYSTEM, "--wait=false")
            await env.ready("garden", within=LONG)
        left = await identities(env, workload)
        assert set(after["machines"]) - set(left["machines"]) == {lost}
        await use.has_nodes(workload, control_planes=3, workers=2, version=NEW)
        others = of_others(pods, first, lost)
        assert {pod: item for pod, item in (await pods_left_alone(workload)).items() if pod in others} == others
        assert asked.fewest >= 1, "the budget of the pods holds"
        await use.carries_pods(workload)
        assert await use.etcd_members(workload) == 3
        await kubeadm_left_nothing(env)
        await nothing_is_left(env.management, workload)


async def test_two_nodes_become_two_versions_newer(tmp_path: Path) -> None:
    async with real_environment(tmp_path) as env:
        await env.apply(manifest(1, kubernetes=OLDEST, in_place=True))
        await env.ready("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1, version=FIRST)
        await use.carries_pods(workload)
        before, pods = await identities(env, workload), await pods_left_alone(workload)
        for minor, version in ((OLDER, OLD), (NEWER, NEW)):
            await env.change(kubernetesVersion=minor)
            await env.ready("garden", within=LONG)
            assert await identities(env, workload) == before
            assert await pods_left_alone(workload) == pods
            await use.has_nodes(workload, control_planes=1, workers=1, version=version)
        await use.carries_pods(workload)
        await kubeadm_left_nothing(env)
        await nothing_is_left(env.management, workload)


async def kubeadm_left_nothing(env: RealEnvironment) -> None:
    """Backups of manifests and of etcd's data are gone from every node."""
    for node in await env.nodes():
        made_by_kubeadm = await inside(env, node["name"], "sh", "-c", f"ls {KEPT_BY_KUBEADM} 2>/dev/null || true")
        assert made_by_kubeadm == "", node["name"]


async def pods_left_alone(workload: Kubectl) -> dict[str, tuple[str, str]]:
    """Pod -> its node and container, of pods that each node has and that no upgrade in place concerns."""
    pods = (await workload.tree("pods", "-n", "kube-system"))["items"]
    return {
        pod["metadata"]["name"]: (pod["spec"]["nodeName"], pod["status"]["containerStatuses"][0]["containerID"])
        for pod in pods
        if pod["metadata"]["name"].startswith("kindnet")
    }


def of_others(pods: dict[str, tuple[str, str]], *broken: str) -> dict[str, tuple[str, str]]:
    """The pods whose node was neither switched off nor destroyed."""
    return {pod: item for pod, item in pods.items() if item[0] not in broken}


async def begun(env: RealEnvironment) -> str:
    """The first node that has an upgrader pod."""
    seen: list[str] = []

    def has_begun(tree: Tree) -> bool:
        conditions = tree.get("status", {}).get("conditions", [])
        is_made = any(
            condition["type"] == "UpgraderPodCreated" and condition["status"] == "True" for condition in conditions
        )
        name = str(tree.get("spec", {}).get("machine", {}).get("name", ""))
        if is_made and name:
            seen.append(name)
        return bool(seen)

    await env.until("nodeupgrades", has_begun)
    return seen[0]


async def reboot(env: RealEnvironment, name: str) -> None:
    """The power of a node fails; its machine is switched on again."""
    record = next(record for record in State(env.home.nodes).nodes() if record.name == name)
    await cgroups.end_all(record.id)
