"""The real clusterctl installs, upgrades and deletes our provider from a local repository, and knows its kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
import pytest_asyncio
import yaml

from espalier.api.capi import cluster as capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.assets.recipes import CLUSTERCTL
from espalier.cli.install import clusterctl as provider
from espalier.cli.install import manifests, written
from espalier.clusters import rbac
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.real_api_server import managed_on
from tests.support.servers import real_clusterctl as clusterctl
from tests.support.servers.clusterctl import DISCOVERY

pytestmark = [
    pytest.mark.envtest,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.skipif(
        clusterctl.PROGRAM is None, reason="clusterctl was not built: run make real-assets REAL=clusterctl"
    ),
]

CORE, CORE_VERSION = "cluster-api", f"v{CLUSTERCTL.version}"
PROVIDER = Resource("clusterctl.cluster.x-k8s.io", "v1alpha3", "providers", "Provider")
POLICY = Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
IMAGE = "registry.example.com/espalier"
OF_PROVIDER = {DISCOVERY: "", "cluster.x-k8s.io/provider": provider.LABEL}


@dataclass(frozen=True)
class Management:
    """A management cluster with cert-manager's kinds, and a repository with versions v1.0.0 and v1.1.0 of ours."""

    plane: ControlPlane
    client: Client
    folder: Path

    async def clusterctl(self, *words: str) -> list[str]:
        """The lines of a command that succeeds."""
        where = ("--kubeconfig", str(self.plane.kubeconfig), "--config", str(self.folder / "clusterctl.yaml"))
        ended = await clusterctl.run(self.folder, *words, *where)
        assert ended.code == 0, ended.lines
        return ended.lines

    async def init(self, version: str) -> list[str]:
        """Install Cluster API's core and our provider."""
        others = ("--core", CORE, "--bootstrap", "-", "--control-plane", "-")
        return await self.clusterctl("init", *others, "--runtime-extension", f"{provider.NAME}:{version}")

    async def without_webhooks(self) -> None:
        """Delete them: nobody serves them here."""
        for plural in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            await self.plane.run_kubectl("delete", plural, "--all")

    async def image(self) -> str:
        """The image of the manager."""
        deployment = await self.client.get(DEPLOYMENT, manifests.NAME, SYSTEM_NAMESPACE)
        image: str = deployment.tree["spec"]["template"]["spec"]["containers"][0]["image"]
        return image


def repository(folder: Path) -> None:
    """A repository of providers: ours in two versions, and Cluster API's core as far as it matters here."""
    for version in ("v1.0.0", "v1.1.0"):
        trees = manifests.everything(image=f"{IMAGE}:{version}")
        written.write(folder / provider.LABEL / version, provider.release(version, trees))
    core = msgspec.to_builtins(crd_of(capi.Cluster))
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi-system"}}
    major, minor, _ = map(int, CLUSTERCTL.version.split("."))
    metadata = {
        "apiVersion": "clusterctl.cluster.x-k8s.io/v1alpha3",
        "kind": "Metadata",
        "releaseSeries": [{"major": major, "minor": minor, "contract": provider.CONTRACT}],
    }
    files = {"core-components.yaml": written.documents([namespace, core]), "metadata.yaml": yaml.safe_dump(metadata)}
    written.write(folder / CORE / CORE_VERSION, files)
    configuration = yaml.safe_load(provider.configuration(folder, "v1.0.0"))
    url = (folder / CORE / CORE_VERSION / "core-components.yaml").as_uri()
    configuration["providers"].append({"name": CORE, "url": url, "type": "CoreProvider"})
    (folder / "clusterctl.yaml").write_text(yaml.safe_dump(configuration))


def definition(group: str, version: str, plural: str, kind: str) -> Tree:
    """A kind that clusterctl asks for, and nothing of ours does."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"}
    spec = {"group": group, "names": names, "scope": "Namespaced", "versions": [served]}
    return {"metadata": {"name": f"{plural}.{group}"}, "spec": spec}


OTHERS = (
    ("cert-manager.io", "v1", "issuers", "Issuer"),
    ("cert-manager.io", "v1", "certificates", "Certificate"),
    ("cluster.x-k8s.io", "v1beta2", "machinepools", "MachinePool"),
)


@pytest_asyncio.fixture(loop_scope="session")
async def management(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Management]:
    repository(tmp_path)
    async with control_plane.connected() as client:
        for other in OTHERS:
            await client.apply(CUSTOM_RESOURCE_DEFINITION, definition(*other))
        yield Management(control_plane, client, tmp_path)


async def test_the_provider_is_installed_upgraded_deleted(management: Management) -> None:
    """And clusters stay."""
    await management.init("v1.0.0")
    client = management.client
    entry = await client.get(PROVIDER, provider.LABEL, SYSTEM_NAMESPACE)
    assert (entry.tree["type"], entry.tree["version"]) == ("RuntimeExtensionProvider", "v1.0.0")
    for resource, name, namespace in (
        (NAMESPACE, SYSTEM_NAMESPACE, ""),
        (CUSTOM_RESOURCE_DEFINITION, Cluster.resource.group_resource, ""),
        (VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS, ""),
        (POLICY, manifests.NAME, ""),
        (DEPLOYMENT, manifests.NAME, SYSTEM_NAMESPACE),
    ):
        value = await client.get(resource, name, namespace)
        assert OF_PROVIDER.items() <= value.metadata.labels.items(), name
    await management.without_webhooks()
    cluster = await a_cluster(client)
    lines = await management.clusterctl("upgrade", "plan")
    (planned,) = (line.split() for line in lines if line.startswith(provider.LABEL))
    assert planned[-2:] == ["v1.0.0", "v1.1.0"]
    await management.clusterctl("upgrade", "apply", "--runtime-extension", f"{provider.NAME}:v1.1.0")
    assert await management.image() == f"{IMAGE}:v1.1.0"
    assert (await client.get(Cluster.resource, "kept", "default")).metadata.uid == cluster
    await management.clusterctl("delete", "--runtime-extension", provider.NAME)
    with pytest.raises(NotFound):
        await management.image()
    assert (await client.get(Cluster.resource, "kept", "default")).metadata.uid == cluster


async def a_cluster(client: Client) -> str:
    """The uid of a new Cluster."""
    metadata = {"name": "kept", "namespace": "default", "finalizers": ["example.com/machines"]}
    made = await client.create(
        Cluster.resource,
        {
            "apiVersion": Cluster.resource.api_version,
            "kind": Cluster.resource.kind,
            "metadata": metadata,
            "spec": {"kubernetesVersion": "1.35"},
        },
    )
    return made.metadata.uid


async def test_clusters_are_described_and_would_be_moved(management: Management) -> None:
    """With the labels of an installation by clusterctl on all definitions of ours."""
    await management.init("v1.1.0")
    await management.without_webhooks()
    async with managed_on(management.plane, MemoryStores()) as env:
        await clusterctl.make_discoverable(env.client)
        await env.apply()
        await env.until_ready()
        lines = await management.clusterctl("describe", "cluster", "garden", "-n", SYSTEM_NAMESPACE)
        (machines,) = (line for line in lines if "KubeadmControlPlane/garden" in line)
        assert "True" in machines
        lines = await management.clusterctl("move", "--dry-run", "-n", "default", "-v", "1")
        assert {
            'Creating Cluster="garden" Namespace="default"',
            'Creating DockerDatacenterConfig="garden" Namespace="default"',
        } <= set(lines)
