"""A cluster on vSphere, whose machines the real CAPV makes in govmomi's vCenter.

The tests are one story, in this order.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest
import pytest_asyncio

from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError, NotFound
from espalier.providers.kinds import CATALOG
from espalier.providers.vsphere.cluster_api import KINDS, VSphereCluster, VSphereDeploymentZone, VSphereFailureDomain
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.histories.machine_stories import KUBERNETES
from tests.support.objects.rendered_manifests import objects
from tests.support.providers.capv import DOMAIN, ENDPOINT, TEMPLATE, Vineyard, capv, furnish, machines_of, why_no_capv
from tests.support.providers.vcenter import ACCOUNT, VCenter, properties, vcenter, vim
from tests.support.providers.vsphere import everything, made, of, reference

MISSING = why_no_capv()
pytestmark = [
    pytest.mark.capi,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(bool(MISSING), reason=MISSING),
]
KEY = Key(NAMESPACE, "vineyard")
HARDWARE = ("config.hardware.numCPU", "config.hardware.memoryMB", "config.hardware.device")
OF_REQUESTS = (".metadata.resourceVersion",)
LONGEST = 300.0
CALM = 3.0
"""Seconds in which something would be written, if it was."""


@pytest.fixture(scope="module")
def center() -> Iterator[VCenter]:
    with vcenter() as made:
        furnish(made)
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def vineyard(center: VCenter, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Vineyard]:
    """A cluster that is ready, with the credentials that `espalier create cluster` writes."""
    async with capv(tmp_path_factory.mktemp("capv"), center) as made:
        await made.env.provide_etcd(KEY.name)
        await made.env.head_start(KEY.name, KUBERNETES["1.35"], ENDPOINT)
        trees = made.trees
        await apply(made, [*made.secrets(trees), *trees])
        await made.env.until_ready(KEY, seconds=LONGEST)
        yield made


async def apply(vineyard: Vineyard, trees: list[Tree]) -> None:
    for tree in trees:
        resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
        await vineyard.env.client.apply(resource, tree, field_manager="kubectl")


class Made(NamedTuple):
    """The parts of a virtual machine, and where it is."""

    cpus: int
    memory: int
    disks: list[int]
    networks: list[str]
    datastores: list[str]
    folder: str
    pool: str


async def made_of(vineyard: Vineyard) -> dict[str, list[Made]]:
    """The parts of the cluster's virtual machines, by the group of their Machine."""
    machines = await vineyard.env.client.list(Machine.resource, SYSTEM_NAMESPACE)
    groups = {item.name: item.metadata.labels.get(names.DEPLOYMENT, "") for item in machines.items}
    results: dict[str, list[Made]] = {}
    with vineyard.center.administrator() as content:
        for property_ in properties(
            content, machines_of(content), "name", *HARDWARE, "parent", "datastore", "resourcePool"
        ):
            cpus, memory, devices = (property_[path] for path in HARDWARE)
            made = Made(
                cpus=cpus,
                memory=memory,
                disks=[each.capacityInBytes >> 30 for each in devices if isinstance(each, vim.vm.device.VirtualDisk)],
                networks=[network(content, each.backing) for each in devices if hasattr(each, "macAddress")],
                datastores=[each.name for each in property_["datastore"]],
                folder=property_["parent"].name,
                pool=property_["resourcePool"].name,
            )
            results.setdefault(groups[property_["name"]], []).append(made)
    return results


def network(content: Any, backing: Any) -> str:
    """Name of the network that a card is in."""
    port = getattr(backing, "port", None)
    if port is None:
        return str(backing.deviceName)
    networks = content.searchIndex.FindByInventoryPath("/DC0").networkFolder.childEntity
    return str(next(item.name for item in networks if item._moId == port.portgroupKey))


@pytest.mark.demand(L21="CAPV takes what passed them")
async def test_a_manifest_becomes_virtual_machines(vineyard: Vineyard) -> None:
    assert await made_of(vineyard) == {
        "": [Made(2, 8192, [25], ["VM Network"], ["LocalDS_0"], "vineyard", "grapes")],
        "vineyard-md-0": [Made(3, 4096, [25], ["DC0_DVPG0"], ["LocalDS_0"], "vineyard", "grapes")],
    }
    nodes = await vineyard.env.nodes(KEY)
    assert {node["metadata"]["name"]: node["spec"]["providerID"] for node in nodes} == vineyard.guests.joined
    (vsphere_cluster,) = (await vineyard.env.client.list(VSphereCluster.resource, SYSTEM_NAMESPACE)).items
    assert vsphere_cluster.decode(VSphereCluster).status.initialization.provisioned


@pytest.mark.demand(L18="as the real provider for vSphere stores it")
async def test_stored_objects_are_those_that_were_written(vineyard: Vineyard) -> None:
    """After defaults, conversions and controllers: fields that CAPV drops or changes would be written for ever."""
    env, read = vineyard.env, set()
    applied = {item.path: item for item in env.written if "apply-patch" in item.headers.get("content-type", "")}
    for resource in (SECRET, *(kind.resource for kind in KINDS)):
        for element in (await env.client.list(resource, SYSTEM_NAMESPACE if resource.namespaced else "")).items:
            path = resource.path(namespace=element.namespace, name=element.name)
            if path in applied:
                assert lost(msgspec.json.decode(applied[path].body), element.tree) == {}
                read.add(element.kind)
    assert read >= {"Secret", "VSphereCluster", "VSphereMachineTemplate"}


def lost(written: Any, stored: Any, path: str = "") -> dict[str, Any]:
    """Fields that are not stored as they were written."""
    if isinstance(written, dict) and isinstance(stored, dict):
        return {k: v for name in written for k, v in lost(written[name], stored.get(name), f"{path}.{name}").items()}
    return {} if written == stored or path in OF_REQUESTS else {path: (written, stored)}


@pytest.mark.demand(L18="as the real provider for vSphere stores it")
async def test_a_settled_cluster_is_left_alone(vineyard: Vineyard) -> None:
    env = vineyard.env
    before = len(env.written)
    patch: Tree = {"metadata": {"annotations": {"example.com/seen": "yes"}}}
    await env.client.patch(Cluster.resource, KEY.name, KEY.namespace, patch=patch, type=PatchType.MERGE)
    await asyncio.sleep(CALM)
    assert [f"{item.method} {item.path}" for item in env.written[before:]] == []


async def test_groups_grow_and_may_be_in_a_failure_domain(vineyard: Vineyard) -> None:
    trees = vineyard.trees
    of(trees, "VSphereDatacenterConfig")["failureDomains"] = [DOMAIN]
    groups = trees[0]["spec"]["workerNodeGroupConfigurations"]
    groups[0]["count"] = 2
    groups.append({"name": "east", "count": 1, "machineGroupRef": reference("vineyard"), "failureDomains": ["east"]})
    await apply(vineyard, trees)
    await vineyard.env.until_ready(KEY, seconds=LONGEST)
    made = await made_of(vineyard)
    assert len(made["vineyard-md-0"]) == 2
    assert made["vineyard-east"] == [Made(3, 4096, [25], ["VM Network"], ["LocalDS_0"], "east", "Resources")]
    (zone,) = (await vineyard.env.client.list(VSphereDeploymentZone.resource)).items
    assert zone.tree["status"]["ready"]
    await test_stored_objects_are_those_that_were_written(vineyard)
    await test_a_settled_cluster_is_left_alone(vineyard)


async def test_a_failure_domain_stays_as_it_is(vineyard: Vineyard) -> None:
    """CAPV refuses another topology, so the datacenter's is refused when it is asked for."""
    client = vineyard.env.client
    (domain,) = (await client.list(VSphereFailureDomain.resource)).items
    moved: Tree = {"spec": {"topology": {"datastore": "Other"}}}
    with pytest.raises(ApiError, match="immutable"):
        await client.patch(VSphereFailureDomain.resource, domain.name, patch=moved, type=PatchType.MERGE)
    other: Tree = {"spec": {"failureDomains": [DOMAIN | {"datastore": "Other"}]}}
    with pytest.raises(ApiError, match="a failure domain can't be changed, because machines run there"):
        await client.patch(VSphereDatacenterConfig.resource, KEY.name, KEY.namespace, patch=other, type=PatchType.MERGE)


@pytest.mark.demand(L3="virtual machines of a vCenter")
async def test_deleted_cluster_deletes_its_virtual_machines(vineyard: Vineyard) -> None:
    env = vineyard.env
    await env.client.delete(Cluster.resource, KEY.name, KEY.namespace)
    await env.until_gone(KEY)
    with vineyard.center.administrator() as content:
        assert machines_of(content) == []
        assert content.searchIndex.FindByInventoryPath(f"/DC0/vm/{TEMPLATE}") is not None
    for kind in KINDS:
        assert (await env.client.list(kind.resource)).items == []
    with pytest.raises(NotFound):
        await env.client.get(SECRET, "vineyard-vsphere-credentials", SYSTEM_NAMESPACE)
    for log in env.folder.rglob("*.log"):
        assert ACCOUNT.password not in log.read_text(errors="replace")


async def test_all_that_can_be_asked_for_passes_its_webhooks(vineyard: Vineyard) -> None:
    """As a dry run, after the story: what was made would be in the way."""
    resources = {kind.resource.kind: kind.resource for kind in KINDS}
    trees = [tree for tree in objects(made(everything())) if tree["kind"] in resources]
    assert {tree["kind"] for tree in trees} == resources.keys() - {"VSphereMachine"}
    for tree in trees:
        stored = await vineyard.env.client.apply(resources[tree["kind"]], tree, field_manager="dry", dry_run=True)
        assert lost(tree, stored.tree) == {}
