"""Facts about each provider for the life of a cluster: its example, what that needs, and fields of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusters.design.names import GATE_KEY
from espalier.kube.client import Client
from espalier.providers.kinds import KINDS
from tests.support.environments.managed_clusters import NAMESPACE, AccountedClusters
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers import cloudstack, hardware, nutanix, snow, tinkerbell, vsphere
from tests.support.providers.examples import documents, put_secret

CONTROL_PLANE = ""
STORED = (*(kind.resource for kind in KINDS), SECRET, CONFIG_MAP)


async def nothing(_env: AccountedClusters) -> None:
    """The preparation for a provider without credentials."""


async def spare_hardware(env: AccountedClusters) -> None:
    """Enough to replace every machine, and workers of another size."""
    await hardware.put(env.client, [*hardware.rack(2, 4), *hardware.pieces("big-worker", 4)])


@dataclass(frozen=True)
class ProviderLife:
    """A provider's example. Functions that change a manifest get its documents."""

    datacenter: str
    """The kind of `spec.datacenterRef`."""
    manifest: Callable[[str], list[Tree]]
    """The documents, for a namespace; the Cluster comes first."""
    provider_id: str
    """The beginning of its machines' `providerID`."""
    images: Callable[[list[Tree], str], None] = lambda _trees, _version: None
    """Name the images that have a version of Kubernetes."""
    before: Callable[[AccountedClusters], Awaitable[None]] = nothing
    """The preparation by an administrator."""
    workers: Callable[[list[Tree]], Any] = lambda _trees: {}
    """The spec of the machine config of the workers."""
    other: tuple[str, Any] = ("", None)
    """A field of it, and another value; empty where the provider has none."""
    refused: str = ""
    """The field of the machine template that this changes: in place, it can't be."""
    more: Callable[[list[Tree]], None] = lambda _trees: None
    """Ask for what no other provider has."""
    less: Callable[[list[Tree]], None] = lambda _trees: None
    """Take some of that back."""
    external_etcd: Tree | None = None
    """`spec.externalEtcdConfiguration`; None for a provider that has none."""

    def steps(self, env: AccountedClusters) -> PlannedSteps:
        """The example, with one machine for the control plane."""
        trees = self.manifest(NAMESPACE)
        return PlannedSteps(env, Key(NAMESPACE, trees[0]["metadata"]["name"]), trees)

    def change_machines(self, steps: PlannedSteps) -> None:
        """Ask for other machines of the workers."""
        field, value = self.other
        self.workers(steps.trees)[field] = value

    def kubernetes(self, steps: PlannedSteps, version: str) -> None:
        """Ask for another version, and the images that have it."""
        steps.spec["kubernetesVersion"] = version
        self.images(steps.trees, version)


def _secret(tree: Tree) -> Callable[[AccountedClusters], Awaitable[None]]:
    return lambda env: put_secret(env.client, tree)


def _templates(trees: list[Tree], version: str) -> None:
    for name in ("vineyard-cp", "vineyard"):
        vsphere.of(trees, "VSphereMachineConfig", name)["template"] = f"ubuntu-{version.replace('.', '-')}"


def _os_image(trees: list[Tree], version: str) -> None:
    image = f"https://images.example.com/ubuntu-{version.replace('.', '-')}.gz"
    tinkerbell.of(trees, "TinkerbellDatacenterConfig")["osImageURL"] = image


def _prism_images(trees: list[Tree], version: str) -> None:
    for name in ("quarry-cp", "quarry"):
        nutanix.of(trees, "NutanixMachineConfig", name)["image"] = nutanix.named(f"ubuntu-{version.replace('.', '-')}")


def _cloud_templates(trees: list[Tree], version: str) -> None:
    for name in ("harbor-cp", "harbor"):
        template = {"name": f"rhel8-kube-v{version.replace('.', '-')}"}
        cloudstack.of(trees, "CloudStackMachineConfig", name)["template"] = template


def _amis(trees: list[Tree], version: str) -> None:
    for name in ("glacier-cp", "glacier"):
        snow.of(trees, snow.MACHINES, name)["amiID"] = f"s.ami-{version}"


def _etcd(reference: Tree) -> Tree:
    return {"count": 1, "machineGroupRef": reference}


def _failure_domains(trees: list[Tree]) -> None:
    domains = [vsphere.DOMAIN, vsphere.DOMAIN | {"name": "west"}]
    vsphere.of(trees, "VSphereDatacenterConfig")["failureDomains"] = domains


def _one_failure_domain(trees: list[Tree]) -> None:
    vsphere.of(trees, "VSphereDatacenterConfig")["failureDomains"].pop()


def _workflow(trees: list[Tree]) -> None:
    trees.append(tinkerbell.template(NAMESPACE))
    tinkerbell.of(trees, tinkerbell.MACHINES)["templateRef"] = {"kind": "TinkerbellTemplateConfig", "name": "forge"}


def _domains_and_bundle(trees: list[Tree]) -> None:
    datacenter = nutanix.of(trees, "NutanixDatacenterConfig")
    domains = [nutanix.domain("east", "md-0"), nutanix.domain("west", "md-0")]
    datacenter |= {"failureDomains": domains, "additionalTrustBundle": nutanix.AUTHORITY}


def _one_domain_without_bundle(trees: list[Tree]) -> None:
    datacenter = nutanix.of(trees, "NutanixDatacenterConfig")
    datacenter["failureDomains"].pop()
    del datacenter["additionalTrustBundle"]


def _zones(trees: list[Tree]) -> None:
    cloudstack.of(trees, "CloudStackDatacenterConfig")["availabilityZones"].append(cloudstack.zone("az-2"))


def _another_pool(trees: list[Tree]) -> None:
    trees.append(snow.another_pool(NAMESPACE))
    for name in ("glacier", "glacier-cp"):
        (interface,) = snow.of(trees, snow.MACHINES, name)["network"]["directNetworkInterfaces"]
        interface["ipPoolRef"]["name"] = "crevasse"


LIVES = (
    ProviderLife(
        "DockerDatacenterConfig",
        lambda namespace: documents("docker.yaml", namespace),
        "docker:////",
        external_etcd={"count": 1},
    ),
    ProviderLife(
        "VSphereDatacenterConfig",
        vsphere.manifest,
        "vsphere://",
        _templates,
        _secret(vsphere.credentials(namespace=NAMESPACE)),
        lambda trees: vsphere.of(trees, "VSphereMachineConfig"),
        ("memoryMiB", 16384),
        "memoryMiB",
        external_etcd=_etcd(vsphere.reference("vineyard-cp")),
        more=_failure_domains,
        less=_one_failure_domain,
    ),
    ProviderLife(
        "TinkerbellDatacenterConfig",
        tinkerbell.manifest,
        "tinkerbell://eksa-system/",
        _os_image,
        spare_hardware,
        lambda trees: tinkerbell.of(trees, tinkerbell.MACHINES),
        ("hardwareSelector", {"type": "big-worker"}),
        "hardwareAffinity.required",
        more=_workflow,
    ),
    ProviderLife(
        "NutanixDatacenterConfig",
        nutanix.manifest,
        "nutanix://",
        _prism_images,
        _secret(nutanix.credentials(namespace=NAMESPACE)),
        lambda trees: nutanix.of(trees, "NutanixMachineConfig"),
        ("memorySize", "16Gi"),
        "memorySize",
        external_etcd=_etcd(nutanix.reference("quarry-cp")),
        more=_domains_and_bundle,
        less=_one_domain_without_bundle,
    ),
    ProviderLife(
        "CloudStackDatacenterConfig",
        cloudstack.manifest,
        "cloudstack:///",
        _cloud_templates,
        _secret(cloudstack.credentials(namespace=NAMESPACE)),
        lambda trees: cloudstack.of(trees, "CloudStackMachineConfig"),
        ("computeOffering", {"name": "8 CPUs, 16 GB"}),
        "offering.name",
        external_etcd=_etcd(cloudstack.reference("harbor-cp")),
        more=_zones,
    ),
    ProviderLife(
        "SnowDatacenterConfig",
        snow.manifest,
        "aws-snow:////",
        _amis,
        _secret(snow.credentials(namespace=NAMESPACE, servers=f"{snow.DEVICE},{snow.OTHER_DEVICE}")),
        lambda trees: snow.of(trees, snow.MACHINES),
        ("instanceType", "sbe-c.xlarge"),
        "instanceType",
        external_etcd=_etcd(snow.reference("glacier-cp")),
        more=_another_pool,
    ),
)


async def live(life: ProviderLife, steps: PlannedSteps) -> None:
    """A cluster is made; then whatever is changed, one thing after the other."""
    env = steps.env
    await steps.make()
    nodes = await env.nodes(steps.key)
    assert len(nodes) == 1 + sum(group["count"] for group in steps.spec["workerNodeGroupConfigurations"])
    assert all(node["spec"]["providerID"].startswith(life.provider_id) for node in nodes)
    await change(life, steps)


async def change(life: ProviderLife, steps: PlannedSteps) -> None:
    """Whatever is changed, one thing after the other: machines are replaced where the plan says so."""
    workers = f"{steps.key.name}-md-0"
    groups = steps.spec["workerNodeGroupConfigurations"]
    count = groups[0]["count"]
    groups[0]["count"] = count + 1
    await steps.step()
    groups[0]["count"] = count
    await steps.step()
    groups[0]["labels"] = {"leaf": "green"}
    await steps.step(workers)
    groups[0]["taints"] = [{"key": "late", "value": "frost", "effect": "PreferNoSchedule"}]
    await steps.step(workers)
    if life.other[0]:
        life.change_machines(steps)
        await steps.step(workers)
    groups.append({"name": "md-1", "count": 1} | {k: v for k, v in groups[0].items() if k == "machineGroupRef"})
    await steps.step()
    groups.pop()
    await steps.step()
    steps.spec["controlPlaneConfiguration"]["certSans"] = ["cluster.example.com"]
    await steps.step(CONTROL_PLANE)
    life.kubernetes(steps, "1.36")
    await steps.step(CONTROL_PLANE, workers)
    assert {version.split("-")[0] for version in await steps.env.versions(steps.key)} == {"v1.36.3"}


async def delete(steps: PlannedSteps) -> None:
    """Delete the Cluster, and wait until it is gone."""
    await steps.env.client.delete(Cluster.resource, steps.key.name, NAMESPACE)
    await steps.env.until_gone(steps.key)


async def in_system(client: Client) -> set[tuple[Resource, str]]:
    """The objects in the system's namespace and those in none, apart from the manager's own."""
    return {
        (kind, item.name)
        for kind in STORED
        for item in (await client.list(kind)).items
        if item.namespace in {SYSTEM_NAMESPACE, None, ""} and item.key != GATE_KEY
    }
