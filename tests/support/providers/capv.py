"""T2 of provider vSphere: Cluster API's own provider (CAPV) makes machines in govmomi's simulator of a vCenter.

Virtual machines of the simulator do not boot. `Guests` does for each that is powered on what its operating system
would: it reads the bootstrap data that CAPV handed over, gets an address, and registers a node.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from espalier.api.capi.cluster import Endpoint
from espalier.api.definitions.structural import schema_of
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import CAPV
from espalier.clusters.design.cluster_objects.shared_parts import with_shared_parts
from espalier.providers.kinds import INFRASTRUCTURE_KINDS
from espalier.providers.vsphere import cluster_api as vsphere_kinds
from espalier.providers.vsphere import environment
from espalier.providers.vsphere.checks.vcenter import VCenters
from espalier.providers.vsphere.kinds import VSphereDatacenterConfigSpec
from espalier.providers.vsphere.provider import vsphere
from espalier.providers.vsphere.render import REGION, ZONE
from espalier.realnodes.management import cluster_api
from espalier.simulator import bootstrap_data
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.cluster_api import Making, RealClusterApi, real_cluster_api, why_no_cluster_api
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.histories.machine_stories import KUBERNETES
from tests.support.providers import vcenter as simulated
from tests.support.providers.external_etcd import with_external_etcd
from tests.support.providers.vcenter import ACCOUNT, Gone, VCenter, properties, tag, vim
from tests.support.providers.vsphere import manifest, of

HOME = CAPV.home(assets_folder())
MANAGER = cluster_api.Manager("capv", "config", crds="default/crd/bases", webhooks="govmomi/webhook")

FOLDERS, TEMPLATE = ("/DC0/vm/vineyard", "/DC0/vm/east"), "ubuntu-1-35"
POOL = "/DC0/host/DC0_C0/Resources/grapes"
TAGS = ("os:ubuntu", "eksdRelease:kubernetes-1-35-eks-1")
DOMAIN = {
    "name": "east",
    "computeCluster": "DC0_C0",
    "resourcePool": "/DC0/host/DC0_C0/Resources",
    "datastore": "/DC0/datastore/LocalDS_0",
    "folder": "/DC0/vm/east",
    "network": "/DC0/network/VM Network",
}
ADDRESSES = "198.51.100"


def why_no_capv() -> str:
    """Advice when something is not there that `capv` needs; empty when all is."""
    own = "" if is_finished(HOME) else "CAPV is not built: run make real-assets"
    return why_no_cluster_api() or simulated.MISSING or own


@dataclass(kw_only=True)
class Vineyard:
    """The environment: a management cluster with CAPV, and a furnished vCenter."""

    env: RealClusterApi
    center: VCenter
    guests: Guests

    @property
    def trees(self) -> list[Tree]:
        """The example, as it names what is in the vCenter."""
        trees = manifest(NAMESPACE)
        datacenter = of(trees, "VSphereDatacenterConfig")
        datacenter |= {"server": server(self.center), "thumbprint": self.center.thumbprint, "datacenter": "DC0"}
        trees[0]["spec"]["controlPlaneConfiguration"]["count"] = 1
        (workers,) = trees[0]["spec"]["workerNodeGroupConfigurations"]
        workers["count"] = 1
        for name in ("vineyard", "vineyard-cp"):
            of(trees, "VSphereMachineConfig", name).update(
                {"datastore": "LocalDS_0", "folder": "vineyard", "resourcePool": POOL, "diskGiB": 25}
            )
        of(trees, "VSphereMachineConfig").update({"numCPUs": 3, "memoryMiB": 4096, "networks": ["DC0_DVPG0"]})
        return trees

    def secrets(self, trees: list[Tree]) -> list[Tree]:
        """The Secrets that `espalier create cluster` makes of an administrator's environment variables."""
        given = {
            "EKSA_VSPHERE_USERNAME": ACCOUNT.username,
            "EKSA_VSPHERE_PASSWORD": ACCOUNT.password,
            "EKSA_VSPHERE_CP_USERNAME": "reader",
            "EKSA_VSPHERE_CP_PASSWORD": "plum-canary",
        }
        return list(environment.secrets(given, trees))


def server(center: VCenter) -> str:
    """As a manifest names the vCenter, and CAPV finds it."""
    host, port = center.address
    return f"{host}:{port}"


@asynccontextmanager
async def capv(folder: Path, center: VCenter) -> AsyncIterator[Vineyard]:
    """The environment, in a folder of its own. Ready when clusters can be applied."""
    making = Making(
        providers=with_external_etcd(with_shared_parts(vsphere(VCenters(center.resolve)))),
        kinds=[kind for kind in INFRASTRUCTURE_KINDS if kind not in vsphere_kinds.KINDS],
        simulated=(),
        managers={MANAGER: HOME},
    )
    with _on_this_machine():
        async with real_cluster_api(folder, making) as env:
            guests = Guests(center, env.workloads)
            task = asyncio.create_task(guests.run())
            try:
                yield Vineyard(env=env, center=center, guests=guests)
            finally:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task


@contextmanager
def _on_this_machine() -> Iterator[None]:
    """Have the CRD let a vCenter be at a loopback address: CAPV looks nothing up but by the resolver.

    Schemas that were made meanwhile are forgotten: other tests of the process have the rule.
    """
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        stack.callback(schema_of.cache_clear)
        schema_of.cache_clear()
        rules = VSphereDatacenterConfigSpec.validations
        left = tuple(rule for rule in rules if "loopback" not in rule.message)
        assert len(left) == len(rules) - 1
        patch.setattr(VSphereDatacenterConfigSpec, "validations", left)
        yield


def furnish(center: VCenter) -> None:
    """Create the administrator's part of the vCenter: folders, a resource pool, a template, and tags."""
    with center.administrator() as content:

        def find(path: str) -> Any:
            return content.searchIndex.FindByInventoryPath(path)

        for name in ("vineyard", "east"):
            find("/DC0/vm").CreateFolder(name)
        allocation = vim.ResourceAllocationInfo(
            reservation=0, limit=-1, expandableReservation=True, shares=vim.SharesInfo(level="normal", shares=4000)
        )
        spec = vim.ResourceConfigSpec(cpuAllocation=allocation, memoryAllocation=allocation)
        find("/DC0/host/DC0_C0/Resources").CreateResourcePool("grapes", spec)
        machine = find("/DC0/vm/DC0_C0_RP0_VM0")
        machine.PowerOffVM_Task()
        machine.Rename_Task(TEMPLATE)
        machine.MarkAsTemplate()
    tag(center, f"/DC0/vm/{TEMPLATE}", *TAGS)
    tag(center, "/DC0", "DC0", category=REGION)
    tag(center, "/DC0/host/DC0_C0", "DC0_C0", category=ZONE)


def machines_of(content: Any) -> list[Any]:
    """The virtual machines of the cluster."""
    return [item for path in FOLDERS for item in content.searchIndex.FindByInventoryPath(path).childEntity]


@dataclass
class Guests:
    """The operating systems of virtual machines. Polls, as govmomi's simulator runs nothing in them."""

    center: VCenter
    workloads: Workloads
    joined: dict[str, str] = field(default_factory=dict)
    """Provider ID of each node, by name, as the cloud controller of vSphere would write it."""

    async def run(self) -> None:
        """Boot whatever is powered on, and forget what is gone."""
        while True:
            machines = await asyncio.to_thread(self._booting)
            for name, provider_id, data, address in machines:
                await self._join(name, provider_id, data, address)
            await asyncio.sleep(0.3)

    def _booting(self) -> list[tuple[str, str, bytes, str]]:
        """Machines that have just booted; each has an address from now on."""
        results = []
        with self.center.administrator() as content:
            paths = ("name", "runtime.powerState", "config.extraConfig", "config.uuid")
            for machine in machines_of(content):
                with suppress(Gone):  # deleted since it was listed
                    results += [
                        self._boot(property_)
                        for property_ in properties(content, [machine], *paths)
                        if property_.get("runtime.powerState") == "poweredOn" and property_["name"] not in self.joined
                    ]
        return results

    def _boot(self, machine: dict[str, Any]) -> tuple[str, str, bytes, str]:
        name, options = machine["name"], {item.key: item.value for item in machine["config.extraConfig"]}
        self.joined[name] = provider_id = f"vsphere://{machine['config.uuid']}"
        address = f"{ADDRESSES}.{len(self.joined)}"
        given = vim.option.OptionValue(key="SET.guest.ipAddress", value=address)
        machine["self"].ReconfigVM_Task(vim.vm.ConfigSpec(extraConfig=[given]))
        return name, provider_id, base64.b64decode(options["guestinfo.userdata"]), address

    async def _join(self, name: str, provider_id: str, data: bytes, address: str) -> None:
        workload = self.workloads.reach(Key(SYSTEM_NAMESPACE, "vineyard"))
        assert workload is not None
        kubeadm = bootstrap_data.read(data, version=KUBERNETES["1.35"], node_name=name)
        if kubeadm.init:
            await workload.install(kubeadm)
        await workload.register(kubeadm, provider_id=provider_id, address=address)


ENDPOINT = Endpoint(host="192.0.2.10", port=6443)
"""As the example names it."""
