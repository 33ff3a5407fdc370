"""A provider that nothing but its own package knows lives the whole life of a cluster."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import CONFIG_MAP, DEPLOYMENT, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.clusters.design import names
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.providers.kinds import INFRASTRUCTURE_KINDS, PROVIDER_KINDS
from espalier.runtime.controllers.controller import RESYNC
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import IN_PLACE, NEW, OLD, identities
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    managed_environment,
)
from tests.support.environments.upgraders import Upgraders
from tests.support.histories import linked_stories as orchard
from tests.support.providers.orchard import (
    CARRIED,
    KINDS,
    ORCHARD,
    OrchardCluster,
    OrchardMachine,
    OrchardMachineTemplate,
    OrchardZone,
    carried,
)

pytestmark = pytest.mark.embedded

MERGE = PatchType.MERGE
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SOURCES = Path(__file__).parents[2] / "src" / "espalier"
WITHOUT_PROVIDERS = sorted(
    {path.name for path in SOURCES.iterdir() if path.is_dir()} - {"cli", "providers", "__pycache__"}
)
PROVIDERS = {path.parent.name for path in SOURCES.glob("providers/*/provider.py")} | {"orchard"}
NAMED_OTHERWISE = {
    kind
    for kind in (item.resource.kind.casefold() for item in (*PROVIDER_KINDS, *INFRASTRUCTURE_KINDS))
    if not any(name in kind for name in PROVIDERS)
}
"""Kinds of providers that do not have its name in theirs."""

OF_BUNDLES = {"cloudstack", "docker", "nutanix", "snow", "tinkerbell", "vsphere"}
ALLOWED = {
    # Bundles are EKS Anywhere's format: each release names the images of all its providers.
    "api/eksa/releases/components.py": {"docker", "vsphere"},
    "api/eksa/releases/infrastructure.py": OF_BUNDLES,
    "api/eksa/releases/release.py": OF_BUNDLES,
    # Descriptions of fields, which are in the CRDs of installed clusters.
    "api/eksa/parts/control_plane.py": {"docker"},
    "api/eksa/parts/network.py": {"docker"},
    "api/eksa/parts/workers.py": {"docker"},
    # Names of Cluster API's kinds, which end with a release.
    "clusterapi/installed.py": {"docker"},
    "api/version_matrix.py": {"docker"},
    # Formats that were named after the program: types of Secrets, headers of registries, archives for `docker load`.
    "apiserver/builtin/builtin_rules.py": {"docker"},
    "assets/archive.py": {"docker"},
    "realnodes/nspawn/system/registry.py": {"docker"},
    # What is built for the tests, of providers too: moving that would take a catalogue of recipes by provider.
    "assets/recipes.py": {"cloudstack", "docker", "nutanix", "snow", "tinkerbell", "vsphere"},
}
"""The words that files below the providers may have."""


def fields(*, version: str = "1.35", workers: int = 1, in_place: bool = True) -> Tree:
    """Of a Cluster in an orchard."""
    plane = {"count": 1, "machineGroupRef": orchard.machine_config("plane")}
    group = {**orchard.workers("workers"), "count": workers}
    strategy = {"upgradeRolloutStrategy": IN_PLACE} if in_place else {}
    return {
        "kubernetesVersion": version,
        "datacenterRef": {"kind": orchard.DATACENTER.kind, "name": "garden"},
        "controlPlaneConfiguration": plane | strategy,
        "workerNodeGroupConfigurations": [group | strategy],
    }


async def prepare(env: ManagedEnvironment, *domains: str) -> None:
    """Make what the Cluster links, with failure domains of these names."""
    await orchard.put(env, SECRET, orchard.CREDENTIALS, data=orchard.password("rose"))
    await orchard.put(env, CONFIG_MAP, orchard.MORE_MOUNTS, data={"paths": "/srv/plums"})
    datacenter = orchard.of_datacenter("/srv/apples") | {"domains": [{"name": name} for name in domains]}
    await orchard.put(env, orchard.DATACENTER, "garden", spec=datacenter)
    for name in ("plane", "workers"):
        await orchard.put(env, orchard.MACHINES, name, spec={"users": ["ann"]})


async def live(env: ManagedEnvironment) -> None:
    """Create, scale, upgrade in place, plan, roll, drift and delete."""
    Upgraders(env.workloads)
    await prepare(env)
    await env.apply(**fields())
    await env.until_ready()
    await is_of_orchard(env)

    await env.apply(**fields(workers=2))
    await env.until_ready()
    assert await env.versions() == [OLD] * 3

    before = await identities(env)
    await env.apply(**fields(workers=2, version="1.36"))
    await env.until_ready()
    assert await env.versions() == [NEW] * 3
    assert await identities(env) == before, "not one machine was replaced"

    planned = [tree_of_datacenter("/srv/pears")]
    preview = await env.preview(GARDEN, planned)
    assert preview.objects == (), "not even a template is made"
    assert {group.refused for group in preview.groups} == {("infrastructure.mounts",)}
    assert preview.stops.startswith("InPlaceUpgradeRefused: infrastructure.mounts of ")


async def is_of_orchard(env: ManagedEnvironment) -> None:
    """The machines are the provider's."""
    machine = (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items[0].decode(Machine)
    assert machine.spec.infrastructure_ref.kind == OrchardMachine.resource.kind
    assert machine.spec.provider_id == f"orchard://garden/{machine.spec.infrastructure_ref.name}"


def tree_of_datacenter(mount: str) -> Tree:
    resource = orchard.DATACENTER
    metadata = {"name": "garden", "namespace": NAMESPACE}
    spec = orchard.of_datacenter(mount)
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}


async def roll(env: ManagedEnvironment) -> None:
    """Changes that are impossible in place are made by replacing machines, once the Cluster allows it."""
    before = set((await identities(env)).values())
    await env.apply(**fields(workers=2, version="1.36", in_place=False))
    await orchard.edit(env, orchard.DATACENTER, "garden", spec=orchard.of_datacenter("/srv/pears"))
    await env.until_machines_rest("garden")
    await env.until_all(OrchardMachine.resource, "garden", lambda tree: "/srv/pears" not in tree["spec"]["mounts"])
    await env.until_ready()
    assert not before & set((await identities(env)).values())


async def drift(env: ManagedEnvironment) -> None:
    """Changes by hand are reported, and reverted."""
    marks = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
    await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=marks, type=MERGE)
    clusters = env.capi_objects.of(OrchardCluster.resource)
    edit: Tree = {"metadata": {"annotations": {CARRIED: "by hand"}}}
    await env.client.patch(OrchardCluster.resource, "garden", SYSTEM_NAMESPACE, patch=edit, type=MERGE)
    for expected in ("by hand", carried(b"rose")):
        is_so = partial(is_carried, expected)
        await env.until_any(clusters, "garden", is_so)


def is_carried(expected: str, tree: Tree) -> bool:
    return bool(tree["metadata"]["annotations"][CARRIED] == expected)


async def extra_objects(env: ManagedEnvironment) -> None:
    """Objects of the provider's own are planned, made, brought back, and go when nothing asks for them."""
    with_domains = orchard.of_datacenter("/srv/pears") | {"domains": [{"name": "east"}, {"name": "west"}]}
    preview = await env.preview(GARDEN, [tree_of_datacenter("/srv/pears") | {"spec": with_domains}])
    assert [(object_.verb, str(object_)) for object_ in preview.objects] == [
        ("create", "OrchardZone garden-garden-east"),
        ("create", "OrchardZone garden-garden-west"),
    ]
    assert preview.groups == ()
    await orchard.edit(env, orchard.DATACENTER, "garden", spec=with_domains)
    await asyncio.sleep(CALM)
    assert await zones(env) == ["garden-garden-east", "garden-garden-west"]

    await env.client.delete(OrchardZone.resource, "garden-garden-east")
    by_hand: Tree = {"data": orchard.password("by hand")}
    await env.client.patch(SECRET, "orchard-garden", SYSTEM_NAMESPACE, patch=by_hand, type=MERGE)
    synced = await env.until(lambda cluster: message_of(cluster, names.SYNCED).count("orchard-garden") == 1)
    assert "Secret eksa-system/orchard-garden: data.password" in message_of(synced, names.SYNCED)
    await env.until(lambda cluster: message_of(cluster, names.SYNCED).startswith("all objects are as "))
    assert (await secret(env)).data["password"] == b"rose"
    assert await zones(env) == ["garden-garden-east", "garden-garden-west"]

    await orchard.edit(env, orchard.DATACENTER, "garden", spec={"domains": [{"name": "west"}]})
    await asyncio.sleep(CALM)
    assert await zones(env) == ["garden-garden-west"]


async def failure_domains(env: ManagedEnvironment) -> None:
    """A worker node group in two failure domains has a MachineDeployment, with a template, in each of them."""
    spread = [{"name": name, "groups": ["md-0"]} for name in ("east", "west")]
    await env.apply(**fields(version="1.36", workers=3, in_place=False))
    await orchard.edit(env, orchard.DATACENTER, "garden", spec={"domains": spread})
    await env.until_machines_rest("garden")
    await asyncio.sleep(CALM)
    await env.until_ready()
    assert await replicas(env) == {"garden-md-0-east": 2, "garden-md-0-west": 1}
    machines = await env.client.list(Machine.resource, SYSTEM_NAMESPACE)
    results = sorted(item.tree["spec"].get("failureDomain", "") for item in machines.items)
    assert results == ["", "east", "east", "west"]
    hardware = await env.client.list(OrchardMachine.resource, SYSTEM_NAMESPACE)
    assert sorted(item.tree["spec"].get("zone", "") for item in hardware.items) == ["", "east", "east", "west"]
    config = await env.client.list(KubeadmConfigTemplate.resource, SYSTEM_NAMESPACE)
    assert sorted(item.name for item in config.items) == ["garden-md-0-east-1", "garden-md-0-west-1"]

    await env.apply(**fields(version="1.36", workers=2, in_place=False))
    await env.until_ready()
    assert await replicas(env) == {"garden-md-0-east": 1, "garden-md-0-west": 1}
    without: Tree = {"spec": orchard.of_datacenter("/srv/pears") | {"domains": []}}
    preview = await env.preview(GARDEN, [tree_of_datacenter("/srv/pears") | without])
    assert {group.name for group in preview.groups} == {"garden-md-0", "garden-md-0-east", "garden-md-0-west"}


async def in_workload_cluster(env: ManagedEnvironment) -> None:
    """The provider's objects in the workload cluster are planned, follow, are compared, and go."""
    workload = await env.workload()
    assert await domains_there(workload) == ["domain-east", "domain-west"]
    await workload.delete(DEPLOYMENT, "orchard-controller", "kube-system")
    await asyncio.sleep(2 * RESYNC)  # nothing there is watched
    await workload.get(DEPLOYMENT, "orchard-controller", "kube-system")

    east = {"domains": [{"name": "east", "groups": ["md-0"]}]}
    planned: Tree = {"spec": orchard.of_datacenter("/srv/pears") | east}
    preview = await env.preview(GARDEN, [tree_of_datacenter("/srv/pears") | planned])
    assert [(item.verb, str(item)) for item in preview.workload if item.verb == "delete"] == [
        ("delete", "ConfigMap kube-system/domain-west")
    ]
    await orchard.edit(env, orchard.DATACENTER, "garden", spec=east)
    await asyncio.sleep(CALM)
    await env.until_ready()
    assert await domains_there(workload) == ["domain-east"]
    preview = await env.preview(GARDEN, [])
    assert preview.workload == ()


async def domains_there(workload: Client) -> list[str]:
    listed = await workload.list(CONFIG_MAP, "kube-system")
    return [item.name for item in listed.items if item.name.startswith("domain-")]


async def resolved(env: ManagedEnvironment) -> None:
    """The findings of a provider's controller are part of the content, and waited for while unknown."""
    await orchard.edit(env, orchard.MACHINES, "workers", spec={"variety": "plum"})
    waits = await env.until(lambda cluster: "the provider to resolve it" in message_of(cluster, "Ready"))
    assert "OrchardMachineConfig workers: spec.variety" in message_of(waits, "Ready")
    config = await env.client.get(orchard.MACHINES, "workers", NAMESPACE)
    assert config.tree["status"]["failureMessage"] == "the market has no plum"
    await orchard.edit(env, orchard.MACHINES, "workers", spec={"variety": "pear"})
    await env.until_all(OrchardMachineTemplate.resource, "garden", lacks_rootstock)
    await env.until_ready()
    hardware = await env.client.list(OrchardMachine.resource, SYSTEM_NAMESPACE)
    assert sorted(item.tree["spec"].get("rootstock", "") for item in hardware.items) == ["", "Quince C", "Quince C"]
    assert all(item.tree["status"]["ready"] for item in hardware.items), "by contract v1beta1"
    assert all("initialization" not in item.tree["status"] for item in hardware.items)


def lacks_rootstock(tree: Tree) -> object:
    is_of_workers = "md-0" in tree["metadata"]["name"]
    return is_of_workers and tree["spec"]["template"]["spec"].get("rootstock") != "Quince C"


async def replicas(env: ManagedEnvironment) -> dict[str, int]:
    listed = await env.client.list(MachineDeployment.resource, SYSTEM_NAMESPACE)
    return {item.name: item.decode(MachineDeployment).status.replicas or 0 for item in listed.items}


def message_of(cluster: Cluster, type_: str) -> str:
    value = conditions.get(cluster.status.conditions, type_)
    return value.message if value is not None else ""


async def zones(env: ManagedEnvironment) -> list[str]:
    return [item.name for item in (await env.client.list(OrchardZone.resource)).items]


async def secret(env: ManagedEnvironment) -> Secret:
    return (await env.client.get(SECRET, "orchard-garden", SYSTEM_NAMESPACE)).decode(Secret)


async def delete(env: ManagedEnvironment) -> None:
    """Nothing is left, templates included; what names the credentials goes before them."""
    gone: list[str] = []
    kinds = (OrchardCluster.resource, OrchardZone.resource, SECRET)

    def changed(old: Object | None, new: Object | None, _first: bool) -> None:
        if new is None and old is not None:
            gone.append(old.kind)

    ends = [env.capi_objects.of(kind).subscribe(changed) for kind in kinds]
    await env.client.delete(Cluster.resource, "garden", NAMESPACE)
    await env.until_gone()
    await asyncio.sleep(1)
    for end in ends:
        end()
    for made in (OrchardCluster, OrchardMachine, OrchardMachineTemplate, Machine):
        assert (await env.client.list(made.resource, SYSTEM_NAMESPACE)).items == []
    assert await zones(env) == []
    assert "orchard-garden" not in [item.name for item in (await env.client.list(SECRET, SYSTEM_NAMESPACE)).items]
    assert gone.index("OrchardCluster") < gone.index("OrchardZone")


def test_cluster_of_a_foreign_provider_lives_and_ends() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, providers=ORCHARD, kinds=KINDS) as env:
            await prepare(env, "east")
            await env.apply(**fields(in_place=False))
            await env.until_ready()
            await is_of_orchard(env)
            await delete(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_cluster_of_provider_of_its_own_lives_and_ends() -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, providers=ORCHARD, kinds=KINDS) as env:
            await live(env)
            await roll(env)
            await drift(env)
            await extra_objects(env)
            await failure_domains(env)
            await in_workload_cluster(env)
            await resolved(env)
            await delete(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("package", WITHOUT_PROVIDERS)
def test_no_package_below_the_providers_names_one(package: str) -> None:
    """Names and kinds of providers stand in `providers/` alone, apart from `ALLOWED`, which has no more than is so."""
    naming: dict[str, set[str]] = {}
    for path in sorted((SOURCES / package).rglob("*.py")):
        text = path.read_text().casefold()
        if results := {word for word in PROVIDERS | NAMED_OTHERWISE if word in text}:
            naming[path.relative_to(SOURCES).as_posix()] = results
    assert naming == {path: words for path, words in ALLOWED.items() if path.startswith(f"{package}/")}
