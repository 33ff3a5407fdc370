"""The chart in a real API server: installed, upgraded, rolled back, adopted, refused and uninstalled by Helm."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio
import yaml

from espalier.api.core import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    NAMESPACE,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.install import manifests
from espalier.clusters import rbac
from espalier.clusters.design import names
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from tests.support.environments.control_plane import ControlPlane
from tests.support.servers import helm
from tests.support.servers.helm import CHART, RELEASE, Ended, Helm, sets

pytestmark = [pytest.mark.envtest, pytest.mark.asyncio(loop_scope="session"), helm.NEEDED]

VALUES: Tree = {"image.repository": "registry.example.com/espalier", "image.tag": "v1"}
CLUSTERS = Cluster.resource.group_resource
CLUSTER = {
    "apiVersion": Cluster.resource.api_version,
    "kind": "Cluster",
    "metadata": {"name": "kept", "namespace": "default", "finalizers": ["example.com/machines"]},
    "spec": {"kubernetesVersion": "1.35"},
}


@dataclass(frozen=True)
class Management:
    """A management cluster, and what its administrator has."""

    plane: ControlPlane
    client: Client
    helm: Helm

    async def run(self, *words: str, release: str = RELEASE, chart: Path = CHART, values: Tree = VALUES) -> Ended:
        """`helm install` or `helm upgrade` with flags."""
        verb, *flags = words
        where = ("--namespace", SYSTEM_NAMESPACE)
        return await asyncio.to_thread(self.helm.run, verb, release, str(chart), *where, *flags, *sets(values))

    async def install(self, *flags: str, release: str = RELEASE) -> Ended:
        """`helm install` as the page says."""
        return await self.run("install", "--create-namespace", *flags, release=release)

    async def other(self, *words: str) -> Ended:
        """Another command about the release."""
        return await asyncio.to_thread(self.helm.run, *words, RELEASE, "--namespace", SYSTEM_NAMESPACE)

    async def image(self) -> str:
        """The image of the manager."""
        deployment = await self.client.get(DEPLOYMENT, manifests.NAME, SYSTEM_NAMESPACE)
        image: str = deployment.tree["spec"]["template"]["spec"]["containers"][0]["image"]
        return image

    async def columns(self) -> list[str]:
        """Those that a definition has printed."""
        custom_resource_definition = await self.client.get(CUSTOM_RESOURCE_DEFINITION, CLUSTERS)
        return [
            column["name"]
            for column in custom_resource_definition.tree["spec"]["versions"][0]["additionalPrinterColumns"]
        ]


@pytest_asyncio.fixture(loop_scope="session")
async def management(control_plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Management]:
    """One without anything of ours but definitions."""
    async with control_plane.connected() as client:
        made = Management(control_plane, client, Helm(tmp_path, control_plane.kubeconfig))
        yield made
        await made.other("uninstall", "--ignore-not-found")
        # Definitions stay: an API server takes minutes to delete those that were made a moment ago.
        applied = await asyncio.to_thread(made.helm.template, *sets(VALUES | {"crds.enabled": False}))
        await control_plane.run_kubectl("delete", "--ignore-not-found", "-f", "-", stdin=applied.output.encode())
        await control_plane.run_kubectl("delete", CLUSTERS, "--all", "-n", "default", "--wait=false")
        with suppress(NotFound):
            patch = {"metadata": {"finalizers": None}}
            await client.patch(Cluster.resource, "kept", "default", patch=patch, type=PatchType.MERGE)


def succeeded(ended: Ended) -> None:
    assert ended.code == 0, ended.complaint


async def named_bundles(client: Client) -> list[str]:
    validating_webhook_configuration = await client.get(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)
    return [hook["clientConfig"].get("caBundle", "") for hook in validating_webhook_configuration.tree["webhooks"]]


def newer(folder: Path) -> Path:
    """A later version of the chart, whose definitions have one more column."""
    chart = Path(shutil.copytree(CHART, folder / "newer"))
    about = yaml.safe_load((chart / "Chart.yaml").read_text())
    (chart / "Chart.yaml").write_text(yaml.safe_dump(about | {"version": "99.0.0", "appVersion": "v99.0.0"}))
    definitions = chart / "templates" / "crds.yaml"
    column = "    additionalPrinterColumns:\n"
    text = definitions.read_text()
    assert column in text
    definitions.write_text(
        text.replace(column, f"{column}    - name: NEWER\n      type: string\n      jsonPath: .spec.newer\n")
    )
    return chart


async def test_a_release_is_upgraded_and_rolled_back(management: Management, tmp_path: Path) -> None:
    """With its definitions, and without losing what the manager wrote."""
    succeeded(await management.install())
    assert await management.image() == "registry.example.com/espalier:v1"
    before = await management.columns()
    bundle = "Y2E="
    hooks = range(len(await named_bundles(management.client)))
    trusted = [{"op": "add", "path": f"/webhooks/{at}/clientConfig/caBundle", "value": bundle} for at in hooks]
    await management.client.patch(
        VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS, patch=trusted, type=PatchType.JSON
    )
    values = {"image.repository": "registry.example.com/espalier"}
    succeeded(await management.run("upgrade", chart=newer(tmp_path), values=values))
    assert await management.image() == "registry.example.com/espalier:v99.0.0"
    assert await management.columns() == ["NEWER", *before]
    succeeded(await management.other("rollback"))
    assert await management.image() == "registry.example.com/espalier:v1"
    assert await management.columns() == before
    assert set(await named_bundles(management.client)) == {bundle}


async def test_upgrade_without_the_record_keeps_its_name(management: Management) -> None:
    succeeded(await management.run("install", "--create-namespace", values=VALUES | {"managementCluster": "a/b"}))
    succeeded(await management.run("upgrade"))
    config_map = await management.client.get(CONFIG_MAP, names.MANAGEMENT_CLUSTER.name, SYSTEM_NAMESPACE)
    assert config_map.tree["data"] == {"namespace": "a", "name": "b"}
    await management.client.delete(CONFIG_MAP, names.MANAGEMENT_CLUSTER.name, SYSTEM_NAMESPACE)


async def test_an_upgrade_without_a_change_changes_nothing(management: Management) -> None:
    succeeded(await management.install())
    before = await versions(management)
    succeeded(await management.run("upgrade"))
    assert await versions(management) == before


async def versions(management: Management) -> Mapping[str, object]:
    """The generation of each object, or its version: a controller writes the status of definitions."""
    text = await asyncio.to_thread(management.helm.template, *sets(VALUES))
    result = await management.plane.run_kubectl("get", "-o", "json", "-f", "-", stdin=text.output.encode())
    return {
        f"{item['kind']}/{item['metadata']['name']}": item["metadata"].get("generation")
        or item["metadata"]["resourceVersion"]
        for item in json.loads(result)["items"]
    }


async def test_clusters_outlive_an_uninstallation(management: Management) -> None:
    """And are there when it is installed again."""
    succeeded(await management.install())
    for resource in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):  # nobody serves them here
        await management.plane.run_kubectl("delete", resource, "--all")
    created = await management.client.create(Cluster.resource, CLUSTER)
    succeeded(await management.other("uninstall"))
    with pytest.raises(NotFound):
        await management.image()
    left = await management.client.get(Cluster.resource, "kept", "default")
    assert left.tree == created.tree
    await management.plane.run_kubectl("get", "namespace", SYSTEM_NAMESPACE)
    succeeded(await management.install())
    again = await management.client.get(Cluster.resource, "kept", "default")
    assert again.metadata.uid == created.metadata.uid


async def test_a_second_release_is_refused(management: Management) -> None:
    succeeded(await management.install())
    ended = await management.install(release="second")
    assert ended.code != 0
    assert 'meta.helm.sh/release-name" must equal "second": current value is "espalier"' in ended.complaint
    assert await management.image() == "registry.example.com/espalier:v1"


async def test_applied_manifests_are_adopted_when_asked(management: Management) -> None:
    text = await asyncio.to_thread(management.helm.template, *sets(VALUES))
    await management.client.apply(NAMESPACE, {"metadata": {"name": SYSTEM_NAMESPACE}})
    await management.plane.run_kubectl("apply", "-f", "-", stdin=text.output.encode())
    refused = await management.install()
    assert refused.code != 0
    assert "invalid ownership metadata" in refused.complaint
    before = await management.client.get(CUSTOM_RESOURCE_DEFINITION, CLUSTERS)
    succeeded(await management.install("--take-ownership"))
    after = await management.client.get(CUSTOM_RESOURCE_DEFINITION, CLUSTERS)
    assert after.metadata.uid == before.metadata.uid
    succeeded(await management.run("upgrade", values=VALUES | {"image.tag": "v2"}))
    assert await management.image() == "registry.example.com/espalier:v2"
