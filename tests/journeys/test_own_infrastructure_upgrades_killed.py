"""Upgrades of a management cluster by components from files, killed at their writes: the same command goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MANAGEMENT_UPGRADING, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.kit import flags
from espalier.cli.management import access, changing
from espalier.cli.management.own_infrastructure import Given
from espalier.clusterapi import names
from espalier.clusterapi.installed import NAMESPACE as CAPI_NAMESPACE
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Unreachable
from espalier.management import record as records
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments import component_folders
from tests.support.environments.bootstraps import MANAGEMENT, Bootstrap, applied, bootstrap, machines, manifest
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managed_environment import CALM
from tests.support.servers.dying import Dying

pytestmark = pytest.mark.embedded

WORKLOAD = Key("default", "garden")
PATCH = "v1.13.9"
NEW_FIELD = "ofTheLaterPatch"


def later(tree: Tree) -> None:
    """A later patch of the simulated controllers, whose definitions have a field more."""
    if tree["kind"] == DEPLOYMENT.kind:
        (container,) = tree["spec"]["template"]["spec"]["containers"]
        container["image"] = container["image"].replace(f":{component_folders.version()}", f":{PATCH}")
    if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind:
        for version in tree["spec"]["versions"]:
            version["schema"]["openAPIV3Schema"]["properties"][NEW_FIELD] = {"type": "string"}


class Commands:
    """Commands on a machine that reaches the management cluster, each of which dies at some write."""

    def __init__(self, env: Bootstrap, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.env, self.given, self.dying = env, Given(folder), Dying(10**6)
        monkeypatch.setattr(access, "of_management_cluster", self.reached)

    async def reached(self, _key: Key, _flag: flags.Connection) -> tuple[Client, Kubeconfig]:
        client = self.env.connect(self.env.written[-1])
        client.transport = self.dying(client.transport)
        return client.without_repeats(), Kubeconfig.parse(self.env.written[-1])

    async def upgrade_components(self) -> None:
        await changing.upgrade_components(
            MANAGEMENT.name, flags.Connection(), timeout=3600, dry_run=False, given=self.given
        )

    async def upgrade(self) -> None:
        trees = manifest(MANAGEMENT, managed_by=MANAGEMENT.name)
        trees[-1]["spec"] |= {"kubernetesVersion": "1.36"}
        parsed = [*read_manifests(yaml.safe_dump_all(trees).encode(), source="manifest")]
        await changing.upgrade(parsed, [], flags.Connection(), timeout=3600, dry_run=False, given=self.given)

    async def killed_until_done(self, act: Callable[[], Awaitable[None]], more: int) -> int:
        """The number of deaths, each `more` writes later than the one before."""
        for deaths in range(400):
            self.dying = Dying(1 + more * deaths)
            try:
                await act()
            except Unreachable:
                assert self.dying.is_dead
                await self.never_worse()
            else:
                return deaths
        raise AssertionError("it never ends")

    async def never_worse(self) -> None:
        """The record is there and paused; the manager acts on it by the switch alone, or not."""
        cluster = self.env.connect(self.env.written[-1])
        record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
        assert record.metadata.annotations[PAUSED_ANNOTATION] == "true"
        managed = await records.managed(cluster)
        assert managed in ((MANAGEMENT, records.RUNNING), (MANAGEMENT, MANAGEMENT_UPGRADING))
        await cluster.close()


Story = Callable[[Commands, Client], Awaitable[None]]


def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, story: Story) -> None:
    """A created management cluster with a settled workload cluster, and the folder of a later patch."""
    folder = component_folders.written(tmp_path / "later", component_folders.providers(later), PATCH)

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            async with bootstrap(hosts) as env:
                await env.create()
            cluster = env.connect(env.written[-1])
            await applied(cluster, manifest(WORKLOAD, managed_by=MANAGEMENT.name))
            await asyncio.sleep(CALM)
            before = await of_workload(cluster)
            await story(Commands(env, folder, monkeypatch), cluster)
            await asyncio.sleep(CALM)
            assert await of_workload(cluster) == before

    run(main, epoch=EPOCH, seed=1)


async def of_workload(cluster: Client) -> dict[str, str]:
    """The resource version of each object of the workload cluster."""
    kinds = (*(kind.resource for kind in CLUSTER_API_KINDS), SECRET)
    labels = f"{names.CLUSTER}={WORKLOAD.name}"
    stored = [item for kind in kinds for item in (await cluster.list(kind, SYSTEM_NAMESPACE, labels=labels)).items]
    stored.append(await cluster.get(Cluster.resource, WORKLOAD.name, WORKLOAD.namespace))
    return {f"{item.kind} {item.key}": item.resource_version for item in stored}


async def holds(cluster: Client) -> None:
    """All components are those of the folder, each runs once, and nothing is recorded any more."""
    for tree in [tree for trees in component_folders.providers(later).values() for tree in trees]:
        if tree["kind"] == DEPLOYMENT.kind:
            stored = await cluster.get(DEPLOYMENT, tree["metadata"]["name"], tree["metadata"]["namespace"])
            (container,) = stored.tree["spec"]["template"]["spec"]["containers"]
            assert container["image"] == tree["spec"]["template"]["spec"]["containers"][0]["image"]
        if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind:
            stored = await cluster.get(CUSTOM_RESOURCE_DEFINITION, tree["metadata"]["name"])
            assert all(
                NEW_FIELD in version["schema"]["openAPIV3Schema"]["properties"]
                for version in stored.tree["spec"]["versions"]
            )
    managers = (await cluster.list(DEPLOYMENT, CAPI_NAMESPACE)).items
    assert all(item.tree["status"]["availableReplicas"] == item.tree["spec"].get("replicas", 1) for item in managers)
    assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
    assert await records.read(cluster, MANAGEMENT) is None
    record = (await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)).decode(Cluster)
    assert record.status.ready


EACH = pytest.mark.parametrize("more", [23, *(pytest.param(more, marks=pytest.mark.soak) for more in (1, 3, 7))])


@EACH
def test_killed_upgrades_of_components_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """No machine of it is touched."""

    async def story(commands: Commands, cluster: Client) -> None:
        nodes = {node.name: node.metadata.uid for node in (await cluster.list(NODE)).items}
        deaths = await commands.killed_until_done(commands.upgrade_components, more)
        assert deaths > 2
        await holds(cluster)
        assert {node.name: node.metadata.uid for node in (await cluster.list(NODE)).items} == nodes

    told(tmp_path, monkeypatch, story)


@EACH
def test_killed_upgrades_by_files_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int) -> None:
    """Its machines get the version as well."""

    async def story(commands: Commands, cluster: Client) -> None:
        deaths = await commands.killed_until_done(commands.upgrade, more)
        assert deaths > 2
        await holds(cluster)
        nodes = [node.tree["status"]["nodeInfo"]["kubeletVersion"][:5] for node in (await cluster.list(NODE)).items]
        assert nodes == ["v1.36"] * 3

    told(tmp_path, monkeypatch, story)
