"""T2: a management cluster on real API servers makes another one, with the real components of Cluster API in files."""

from __future__ import annotations

import asyncio
import random
from asyncio.subprocess import PIPE, STDOUT
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import yaml

from espalier.api.capi.cluster import Cluster as CAPICluster
from espalier.api.capi.machine import Machine
from espalier.api.core import DEPLOYMENT, SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CERT_MANAGER, CLUSTER_API
from espalier.cli.local.environment import programs
from espalier.clusterapi.installed import PROVIDER_LABEL
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.management import record as records
from espalier.realnodes.management.cluster_api import MANAGERS, documents_of
from espalier.realnodes.management.deployments import deployed
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.simulator import setup as simulator
from espalier.simulator.controller import Timing
from tests.support.environments import component_folders, deployed_programs
from tests.support.environments.bootstraps import manifest
from tests.support.environments.cluster_api import Making, RealClusterApi, real_cluster_api, why_no_cluster_api
from tests.support.environments.control_plane import ControlPlane, real_control_plane
from tests.support.environments.deployed_programs import deployed_programs as running
from tests.support.environments.environment import PROGRAM, LocalEnvironment
from tests.support.environments.managing import led_by
from tests.support.killed_commands import killed_at

pytestmark = [
    pytest.mark.capi,
    pytest.mark.skipif(bool(why_no_cluster_api()), reason=why_no_cluster_api() or "Cluster API is there"),
]

SECOND = Key("default", "second")
IMAGE = "registry.example.com/espalier:v0.26.0"
CAPD = ("capd-system", "capd-controller-manager")


def components(folder: Path) -> Path:
    """Cluster API's own, with a file for each provider; Docker's controllers are simulated."""
    home = programs.find_cluster_api()
    assert home is not None
    documents = {manager.name: list(documents_of(home, manager)) for manager in MANAGERS}
    images = {manager.name: f"registry.k8s.io/{manager.name}:v{CLUSTER_API.version}" for manager in MANAGERS}
    docker = component_folders.providers()[component_folders.DOCKER]
    labels = {PROVIDER_LABEL: component_folders.DOCKER}
    pod = {"containers": [{"name": "manager", "image": f"capd:v{CLUSTER_API.version}"}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    docker += [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": CAPD[0], "labels": labels}},
        DEPLOYMENT.body(CAPD[1], CAPD[0]) | {"spec": spec},
    ]
    folder.mkdir()
    parts: dict[str, list[Tree]] = {component_folders.DOCKER: docker}
    for tree in deployed(documents, images):
        parts.setdefault(tree["metadata"]["labels"][PROVIDER_LABEL], []).append(tree)
    for label, trees in parts.items():
        (folder / f"{label}.yaml").write_text(yaml.dump_all(trees, Dumper=yaml.CSafeDumper))
    released = CERT_MANAGER.home(assets_folder()) / CERT_MANAGER.file
    if is_finished(released.parent):
        (folder / released.name).write_bytes(released.read_bytes())
    return folder


@asynccontextmanager
async def target(env: RealClusterApi, folder: Path, environment: dict[str, str]) -> AsyncIterator[ControlPlane]:
    """The API server that the new management cluster gets, with the programs that are deployed there."""
    binaries, home = programs.find_control_plane(), programs.find_cluster_api()
    assert binaries is not None
    assert home is not None
    plane_folder = folder / "api"
    deployed_programs.write_egress(plane_folder)
    started: list[asyncio.Task[None]] = []
    async with real_control_plane(plane_folder, binaries, deployed_programs.FLAGS) as plane:

        async def machines(_item: Object) -> str:
            started.append(asyncio.create_task(simulate(env, plane)))
            return ""

        try:
            async with running(plane, folder / "programs", home, environment, {CAPD: machines}):
                yield plane
        finally:
            for task in started:
                task.cancel()
            await asyncio.gather(*started, return_exceptions=True)


async def simulate(env: RealClusterApi, plane: ControlPlane) -> None:
    """The simulated infrastructure, for what an API server has."""
    rng = random.SystemRandom()
    async with plane.connected() as client:
        manager = Manager(client, clock=SystemClock(), rng=rng, connect=env.workloads.connect)
        simulated = simulator.component(
            env.workloads, rng=rng, timing=Timing(boot=0.1), infrastructures=Making().simulated, cluster_api=False
        )
        assemble(manager, [simulated], client=client)
        async with led_by(manager):
            await asyncio.get_running_loop().create_future()


async def uids(client: Client) -> dict[str, str]:
    return {item.name: str(item.tree["spec"].get("providerID")) for item in (await client.list(Machine.resource)).items}


@pytest.mark.demand(L54="by a management cluster on real API servers, with Cluster API's own components")
async def test_real_components_make_a_management_cluster(tmp_path: Path) -> None:
    """It manages itself, none of its machines is replaced, and its deletion leaves nothing."""
    home = tmp_path / "home"
    home.mkdir()
    machine = LocalEnvironment(home)
    async with (
        real_cluster_api(tmp_path / "first") as env,
        target(env, tmp_path / "second", machine.environment) as plane,
    ):
        await env.provide_etcd(SECOND.name)
        await env.head_start(SECOND.name, "v1.35.4")
        file = tmp_path / "second.yaml"
        trees = manifest(SECOND, managed_by=SECOND.name)
        file.write_text(yaml.safe_dump_all(trees))
        by = ("--bootstrap-kubeconfig", str(env.control_plane.kubeconfig))
        words = (
            "create",
            "cluster",
            "-f",
            str(file),
            *by,
            "--components",
            str(components(tmp_path / "components")),
            "--image",
            IMAGE,
        )
        await asyncio.to_thread(killed_at, machine, words, "  install Cluster API")
        before = await uids(env.client)
        await lead_to(env.client, plane)

        await ended(machine, words)
        async with plane.connected() as client:
            assert await uids(client) == before
            assert await records.managed(client) == (SECOND, records.RUNNING)
            assert [item.name for item in (await client.list(CAPICluster.resource)).items] == [SECOND.name]
        assert not (await env.client.list(CAPICluster.resource)).items

        await ended(machine, ("delete", "cluster", SECOND.name, *by))
        assert not (await env.client.list(CAPICluster.resource)).items
        assert await records.of_bootstrap(env.client, SECOND) is None


async def lead_to(bootstrap: Client, plane: ControlPlane) -> None:
    """Have the rest of the creation meet a real API server: that of the simulated machines is another one."""
    data = {"value": b64encode(plane.kubeconfig.read_bytes()).decode()}
    name = records.name_of(SECOND)
    await bootstrap.patch(SECRET, name, SYSTEM_NAMESPACE, patch={"data": data}, type=PatchType.MERGE)


async def ended(machine: LocalEnvironment, words: Sequence[str]) -> None:
    """Run a command to its good end, which takes minutes where the processors are busy."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *words, env=machine.environment, cwd=machine.home, stdout=PIPE, stderr=STDOUT
    )
    try:
        output, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 0, output.decode()
