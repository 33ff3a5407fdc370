"""Cluster API is upgraded to the next row's version under settled clusters: no machine is rolled, we write nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.resource import Key
from espalier.api.version_matrix import ROWS
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import cluster_api as recipe
from espalier.cli.local.environment import programs
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.realnodes.management import cluster_api, processes
from espalier.runtime.clock import SystemClock
from tests.support.environments.cluster_api import GATES, Making, RealClusterApi, real_cluster_api
from tests.support.waiting import eventually

pytestmark = [pytest.mark.capi, pytest.mark.asyncio(loop_scope="session")]

BEFORE, AFTER = (recipe(ROWS[name].cluster_api).home(assets_folder()) for name in ("1.36", "1.37"))
REPORTING = (KubeadmControlPlane.resource, MachineDeployment.resource, MachineSet.resource)
KINDS = (Cluster.resource, KubeadmConfig.resource, Machine.resource, *REPORTING)
STORED = ("v1beta2", "v1beta1")
"""Versions in which objects of the clusters are stored: those of the second as Cluster API 1.10 left them."""
AT_ONCE = 5
"""Clusters that are made together: most of the time Cluster API pauses."""
PATIENCE = 600.0
"""Seconds within which the next Cluster API reports on everything."""
ITS_OWN = {
    ("KubeadmControlPlane", "cluster-api-kubeadm-control-plane", "status"),
    ("Machine", "cluster-api-kubeadm-control-plane", "status"),
    *((kind, "cluster-api-core", "status") for kind in ("Cluster", "Machine", "MachineDeployment", "MachineSet")),
}
"""Kind, writer and subresource of what Cluster API 1.14 writes to settled clusters: it reports `status.versions`, and
that Machines whose kubelets are named by their builds are not up to date."""
APPLIED_AGAIN = {("KubeadmConfig", "capi-kubeadmcontrolplane-metadata", "")}
"""Further possible writes, with the same labels: only the time of the entry in `managedFields` changes."""

DEFINITIONS = [f"{kind.plural}.{kind.group}" for kind in KINDS]
State = dict[tuple[str, str], Object]


async def state(env: RealClusterApi) -> State:
    """The objects of Cluster API, by kind and name."""
    return {(resource.kind, item.name): item for resource in KINDS for item in (await env.client.list(resource)).items}


async def store_as(env: RealClusterApi, version: str) -> None:
    """Have the API server store objects of Cluster API in a version from now on."""
    for name in DEFINITIONS:
        definition = await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)
        versions = [{**item, "storage": item["name"] == version} for item in definition.tree["spec"]["versions"]]
        patch = {"spec": {"versions": versions}}
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=patch, type=PatchType.MERGE)


def writers(before: Object, after: Object) -> set[tuple[str, str]]:
    """The writers of an object since, each with the subresource."""

    def entries(object_: Object) -> set[tuple[str, str, str]]:
        managed: list[dict[str, Any]] = object_.tree["metadata"].get("managedFields", [])
        return {(entry["manager"], entry.get("subresource", ""), str(entry)) for entry in managed}

    return {(manager, subresource) for manager, subresource, _ in entries(after) - entries(before)}


async def is_reported(env: RealClusterApi) -> bool:
    """True if the next Cluster API has reported on everything: `status.versions` is its own."""
    results = [item for resource in REPORTING for item in (await env.client.list(resource)).items]
    return all((item.tree.get("status") or {}).get("versions") for item in results)


@pytest.mark.skipif(
    programs.find_control_plane() is None or not (is_finished(BEFORE) and is_finished(AFTER)),
    reason="two versions of Cluster API are not built: run make real-matrix",
)
@pytest.mark.parametrize("clusters", [2, pytest.param(50, marks=pytest.mark.soak)])
async def test_the_next_cluster_api_rolls_no_machine(tmp_path: Path, clusters: int) -> None:
    async with real_cluster_api(tmp_path, Making(cluster_api=BEFORE)) as env:
        keys: list[Key] = []
        for version in STORED:
            await store_as(env, version)
            names = [f"stored-as-{version}-{number}" for number in range(clusters // len(STORED))]
            for first in range(0, len(names), AT_ONCE):
                keys += await asyncio.gather(*map(env.make, names[first : first + AT_ONCE]))
        before, written = await state(env), len(env.written)
        await env.supervisor.stop()
        clock = SystemClock()
        async with processes.supervised(tmp_path / "next", clock) as supervisor:
            folder = tmp_path / "cluster-api"
            await cluster_api.run_cluster_api(
                supervisor, AFTER, folder, env.control_plane, env.client, clock, gates=GATES
            )
            await eventually(lambda: is_reported(env), within=PATIENCE + clusters * 5, every=0.5)
            for key in keys:
                await env.until_ready(key)
            after = await state(env)
            for name in DEFINITIONS:
                definition = await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)
                assert set(definition.tree["status"]["storedVersions"]) == {*STORED}
            ours = [f"{request.method} {request.path}" for request in env.written[written:]]
    assert after.keys() == before.keys()
    assert {item.metadata.uid for item in after.values()} == {item.metadata.uid for item in before.values()}
    generations = {
        name for name, element in after.items() if element.metadata.generation != before[name].metadata.generation
    }
    assert generations == set()
    assert ours == []
    written_since = {(name[0], *writer) for name, value in after.items() for writer in writers(before[name], value)}
    assert written_since - APPLIED_AGAIN == ITS_OWN
    machines = sum(kind == Machine.resource.kind for kind, _ in after)
    assert machines >= 2 * clusters
    print(f"{clusters} clusters with {machines} machines: none was replaced, we wrote {len(ours)} times")
