"""Management clusters that can't be the bootstrap of another one on the operator's infrastructure: said beforehand."""

from __future__ import annotations

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import yaml

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.cli.clusters import chosen_release
from espalier.cli.management.own_infrastructure import Given, ManagementCluster
from espalier.clusterapi.installed import CORE
from espalier.kube.client import Client, PatchType
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.management import record as records
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments import component_folders
from tests.support.environments.bootstraps import MANAGEMENT, created, machines, manifest
from tests.support.environments.cluster_lives import EPOCH

pytestmark = pytest.mark.embedded

SECOND = Key("default", "second")
DOCKER = PROVIDERS["DockerDatacenterConfig"].infrastructure.cluster


class Story:
    """A created management cluster, and a folder with components for another one."""

    def __init__(self, connect: Callable[[], Client], folder: Path) -> None:
        self.connect, self.folder, self.image, self.cluster = connect, folder, "", connect()
        self.tree: Tree = manifest(SECOND, managed_by="bootstrap")[-1]

    def bootstrap(self, connect: Callable[[], Client] | None = None) -> ManagementCluster:
        """The management cluster as a bootstrap, or what another connection leads to."""
        bootstrap = ManagementCluster.__new__(ManagementCluster)
        bootstrap.title = "kubeconfig"

        async def connected() -> Client:
            return (connect or self.connect)()

        bootstrap.connect = connected  # type: ignore[method-assign]
        return bootstrap

    async def reasons(self, bootstrap: ManagementCluster | None = None) -> list[str]:
        """The reasons against a creation; nothing is written for these."""
        given = Given(self.folder, self.image)
        reasons = await (bootstrap or self.bootstrap()).prepare(SECOND, self.tree, PROVIDERS, given)
        assert await records.of_bootstrap(self.cluster, SECOND) is None
        assert [item.name for item in (await self.cluster.list(Cluster.resource)).items] == [MANAGEMENT.name]
        return reasons


def told(tmp_path: Path, story: Callable[[Story, Server], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            kubeconfig = await created(hosts)
            workload = hosts.workloads.reach(Key(SYSTEM_NAMESPACE, MANAGEMENT.name))
            assert workload is not None
            folder = component_folders.written(tmp_path / "components")
            await story(Story(lambda: hosts.workloads.connect(kubeconfig), folder), workload.server)

    run(main, epoch=EPOCH, seed=1)


def test_faults_of_a_bootstrap_are_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(given: Story, server: Server) -> None:
        cluster = given.cluster
        assert await given.reasons() == []

        nobody = User("nobody", ("system:authenticated",))
        lacking = await given.reasons(given.bootstrap(lambda: Client(InProcessTransport(server, nobody))))
        advice = ": use the kubeconfig of an administrator"
        assert f"kubeconfig: its user has no right to list deployments.apps{advice}" in lacking
        assert f"kubeconfig: its user has no right to patch secrets in namespace eksa-system{advice}" in lacking
        assert len(lacking) > 10

        with monkeypatch.context() as patch:
            patch.setattr(chosen_release, "own_version", lambda: "v0.25.1")
            reasons = await given.reasons()
        assert any("spec.eksaVersion: found v0.26.0, allowed is v0.25.1" in reason for reason in reasons)

        await cluster.delete(DEPLOYMENT, "espalier-controller-manager", SYSTEM_NAMESPACE)
        (reason,) = await given.reasons()
        assert "found no Deployment eksa-system/espalier-controller-manager" in reason
        given.image = "registry.example.com/espalier:v0.26.0"
        assert await given.reasons() == []

        served: Tree = {"spec": {"versions": None}}
        definition = await cluster.get(CUSTOM_RESOURCE_DEFINITION, DOCKER.group_resource)
        served["spec"]["versions"] = [{**definition.tree["spec"]["versions"][0], "name": "v1alpha1"}]
        await cluster.patch(CUSTOM_RESOURCE_DEFINITION, definition.name, patch=served, type=PatchType.MERGE)
        assert f"kubeconfig: it does not serve DockerCluster of {DOCKER.api_version}" in (await given.reasons())[0]

        await cluster.delete(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE)
        (reason,) = await given.reasons()
        assert "it is no management cluster" in reason

    told(tmp_path, story)


def test_faults_of_a_folder_are_told_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(given: Story, _server: Server) -> None:
        (older,) = given.folder.glob(f"{CORE}/*/components.yaml")
        text = older.read_text()
        older.write_text(text.replace(f":{component_folders.version()}", ":v1.13.1"))
        (reason,) = await given.reasons()
        assert "its folder says" in reason

        older.write_text(f"{text}---\n{yaml.safe_dump({'a': '${SOME_TOKEN}'})}")
        (reason,) = await given.reasons()
        assert reason.endswith("${SOME_TOKEN}: set variable SOME_TOKEN in the environment")
        monkeypatch.setenv("SOME_TOKEN", "secret: value")
        (reason,) = await given.reasons()
        assert ("missing required field" in reason, "secret" in reason) == (True, False)

        older.write_text(text)
        for path in given.folder.glob(f"*/{component_folders.version()}"):
            path.rename(path.with_name("v1.13.1"))
        (older,) = given.folder.glob(f"{CORE}/*/components.yaml")
        older.write_text(text.replace(f":{component_folders.version()}", ":v1.13.1"))
        (reason,) = await given.reasons()
        assert f"found version v1.13.1-eks-a-1, allowed is {component_folders.version()}-eks-a-1, which runs" in reason

        shutil.rmtree(given.folder / CORE)
        (reason,) = await given.reasons()
        assert reason == f"--components {given.folder}: provider cluster-api is missing: add its components"

    told(tmp_path, story)


def test_images_of_components_come_from_the_mirror(tmp_path: Path) -> None:
    async def story(given: Story, _server: Server) -> None:
        given.tree["spec"]["registryMirrorConfiguration"] = {
            "endpoint": "10.0.0.1",
            "port": "443",
            "ociNamespaces": [{"registry": "public.ecr.aws", "namespace": "mirrored"}],
        }
        bootstrap = given.bootstrap()
        assert await given.reasons(bootstrap) == []
        assert bootstrap.components is not None
        (deployment,) = (tree for tree in bootstrap.components.cluster_api if tree["kind"] == "Deployment")
        image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
        assert image.startswith("10.0.0.1:443/mirrored/")

    told(tmp_path, story)
