"""A local environment in one process, for journeys: embedded API server, simulated Cluster API, simulated machines."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DAEMON_SET, SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.clusterapi.contract import DEPLOYMENT_NAME_LABEL
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.machines import rollouts
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Transport
from espalier.providers.kinds import KINDS
from espalier.providers.registry import LOCAL
from espalier.releases import Releases
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import Clock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.simulator import setup as simulator
from espalier.simulator.controller import Timing
from espalier.simulator.workload_clusters.stores import MemoryStores, Stores
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.managing import led_by
from tests.support.environments.pod_network import pod_network
from tests.support.environments.prepared_cluster import prepare
from tests.support.environments.shared_caches import shared
from tests.support.waiting import until

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTER_LABEL = "cluster.x-k8s.io/cluster-name"
OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"
INFRASTRUCTURE = "infrastructure.cluster.x-k8s.io"

Wrap = Callable[[Transport], Transport]


class Environment:
    """A running environment. What it is asked to do goes through the API, as a user would ask it."""

    def __init__(self, client: Client, caches: Caches, workloads: Workloads) -> None:
        self.client = client
        self.caches = caches
        self.workloads = workloads

    def cache(self, resource: Resource) -> Cache:
        """All objects of a kind in the management cluster."""
        return shared(self.caches, resource)

    async def until(self, resource: Resource, name: str, is_so: Callable[[Object | None], bool]) -> None:
        """Wait until an object of the management cluster is as described; None stands for its absence."""
        await until(self.cache(resource), Key(SYSTEM_NAMESPACE, name), is_so, seconds=600)

    async def create(
        self,
        name: str,
        *,
        control_planes: int = 1,
        workers: int = 2,
        max_surge: int = 1,
        provider: Infrastructure = LOCAL.infrastructure,
    ) -> Client:
        """Create a cluster with a pod network, and wait until it is available. Returns a client for it."""
        for resource, body in manifest(name, control_planes, workers, max_surge, provider):
            await self.client.create(resource, body)
        await self.until(KubeadmControlPlane.resource, name, lambda value: condition(value, "Initialized") == "True")
        workload = await self.connect(name)
        await workload.create(DAEMON_SET, pod_network())
        await self.until(Cluster.resource, name, lambda value: condition(value, "Available") == "True")
        await self.until(KubeadmControlPlane.resource, name, lambda value: is_settled(value, control_planes, OLD))
        return workload

    async def revision(self) -> str:
        """Where the management cluster's history ends."""
        return (await self.client.list(SECRET)).resource_version

    async def connect(self, name: str) -> Client:
        """A client made from the cluster's kubeconfig."""
        secret = await self.client.get(SECRET, f"{name}-kubeconfig", SYSTEM_NAMESPACE)
        return self.workloads.connect(base64.b64decode(secret.tree["data"]["value"]))

    async def change(self, resource: Resource, name: str, patch: Tree) -> None:
        """Merge a patch into an object of the management cluster."""
        await self.client.patch(resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)

    async def upgrade(self, name: str, *, control_planes: int, workers: int) -> None:
        """Bring the control plane, then the workers, to the next version."""
        await self.change(KubeadmControlPlane.resource, name, {"spec": {"version": NEW}})
        await self.until(KubeadmControlPlane.resource, name, lambda value: is_settled(value, control_planes, NEW))
        template = {"spec": {"template": {"spec": {"version": NEW}}}}
        await self.change(MachineDeployment.resource, f"{name}-md-0", template)
        await self.until_rolled_out(f"{name}-md-0", workers)

    async def until_rolled_out(self, name: str, replicas: int) -> None:
        """Wait until a deployment has so many machines, all as it asks for."""
        sets = self.cache(MachineSet.resource)

        def is_so(value: Object | None) -> bool:
            labelled = sets.list(SYSTEM_NAMESPACE, f"{DEPLOYMENT_NAME_LABEL}={name}")
            return is_rolled_out(value, replicas, [item.decode(MachineSet) for item in labelled])

        await self.until(MachineDeployment.resource, name, is_so)

    async def delete(self, name: str) -> None:
        """Delete a cluster and wait until it is gone."""
        await self.client.delete(Cluster.resource, name, SYSTEM_NAMESPACE)
        await self.until(Cluster.resource, name, lambda value: value is None)


@asynccontextmanager
async def environment(
    clock: Clock,
    *,
    seed: int = 1,
    store: Store | None = None,
    stores: Stores | None = None,
    wrap: Wrap = lambda transport: transport,
    provider: Infrastructure = LOCAL.infrastructure,
) -> AsyncIterator[Environment]:
    """An environment on the running loop. With `store` and `stores` of an earlier one it goes on where that stopped.

    `wrap` stands between the controllers and the API server, for faults.
    """
    rng = random.Random(seed)
    server = Server(store or MemoryStore(), now=clock.now, random=random.Random(rng.getrandbits(64)))
    await server.start()
    own = wrap(InProcessTransport(server))
    try:
        async with controlled(clock, InProcessTransport(server), own, rng, stores=stores, provider=provider) as env:
            yield env
    finally:
        await server.close()


@asynccontextmanager
async def controlled(
    clock: Clock,
    users: Transport,
    own: Transport,
    rng: random.Random,
    *,
    stores: Stores | None = None,
    boot_seconds: float = 1.0,
    provider: Infrastructure = LOCAL.infrastructure,
) -> AsyncIterator[Environment]:
    """The controllers of the local environment, whose API server is reached through `own`; users use `users`."""
    client = Client(users, user_agent="journey")
    await prepare(client, Releases.load(), KINDS)
    if provider is not LOCAL.infrastructure:
        for resource in (provider.cluster, provider.machine, provider.machine_template):
            await client.create(CUSTOM_RESOURCE_DEFINITION, definition(resource))
    manager = Client(own, field_manager="espalier-laptop", user_agent="espalier-laptop")
    running = Manager(manager, clock=clock, rng=random.Random(rng.getrandbits(64)))
    workloads = Workloads(
        clock=clock, rng=random.Random(rng.getrandbits(64)), stores=stores or MemoryStores(), listen=False
    )
    simulated = simulator.component(
        workloads,
        rng=random.Random(rng.getrandbits(64)),
        keys=random.Random(rng.getrandbits(64)),
        infrastructures=[provider],
        timing=Timing(boot=boot_seconds),
    )
    assemble(running, [simulated], client=manager)
    try:
        async with led_by(running):
            yield Environment(client, running.caches, workloads)
    finally:
        await workloads.close()
        await manager.close()
        await client.close()


def definition(resource: Resource) -> Tree:
    """The CRD of an infrastructure kind that keeps whatever it is given."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {
        "name": resource.version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": anything, "status": anything}}},
    }
    return {
        "apiVersion": CUSTOM_RESOURCE_DEFINITION.api_version,
        "kind": CUSTOM_RESOURCE_DEFINITION.kind,
        "metadata": {
            "name": resource.group_resource,
            "labels": {f"cluster.x-k8s.io/{resource.version}": resource.version},
        },
        "spec": {
            "group": resource.group,
            "scope": "Namespaced",
            "names": {"kind": resource.kind, "plural": resource.plural},
            "versions": [served],
        },
    }


def condition(value: Object | None, type_: str) -> str:
    """The status of a condition, empty when it is not there."""
    conditions = value.tree.get("status", {}).get("conditions", []) if value else []
    return next((entry["status"] for entry in conditions if entry["type"] == type_), "")


def is_settled(value: Object | None, replicas: int, version: str) -> bool:
    """True if a control plane has so many machines, all of this version and available."""
    status = value.decode(KubeadmControlPlane).status if value else None
    return status is not None and (
        status.version,
        status.replicas,
        status.up_to_date_replicas,
        status.available_replicas,
    ) == (version, replicas, replicas, replicas)


def is_rolled_out(value: Object | None, replicas: int, sets: Sequence[MachineSet]) -> bool:
    """True if a deployment has so many machines, all as wanted and available, and knows its present spec."""
    deployment = value.decode(MachineDeployment) if value else None
    if deployment is None or deployment.status.observed_generation != deployment.metadata.generation:
        return False
    if rollouts.outdated_machines(deployment, sets):
        return False
    status = deployment.status
    return status.replicas == status.up_to_date_replicas == status.available_replicas == replicas


def machines(env: Environment, name: str) -> list[Machine]:
    """The machines of a cluster."""
    listed = env.cache(Machine.resource).list(SYSTEM_NAMESPACE, f"{CLUSTER_LABEL}={name}")
    return [machine.decode(Machine) for machine in listed]


def manifest(
    name: str, control_planes: int, workers: int, max_surge: int = 1, provider: Infrastructure = LOCAL.infrastructure
) -> Iterator[tuple[Resource, Tree]]:
    """The Cluster API objects of a cluster, on Docker unless another provider is given."""

    def body(resource: Resource, name: str, spec: Tree) -> tuple[Resource, Tree]:
        metadata = {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": labels}
        return resource, {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}

    def reference(resource: Resource, name: str) -> Tree:
        return {"apiGroup": resource.group, "kind": resource.kind, "name": name}

    labels = {CLUSTER_LABEL: name}
    machine_template, config_template = provider.machine_template, KubeadmConfigTemplate.resource
    for template in (f"{name}-control-plane-1", f"{name}-md-0-1"):
        yield body(machine_template, template, {"template": {"spec": {"customImage": "node:1"}}})
    yield body(provider.cluster, name, {})
    yield body(
        Cluster.resource,
        name,
        {
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.96.0.0/12"]},
            },
            "controlPlaneRef": reference(KubeadmControlPlane.resource, name),
            "infrastructureRef": reference(provider.cluster, name),
        },
    )
    configuration = {
        "imageRepository": "registry.example/kubernetes",
        "etcd": {"local": {"imageRepository": "registry.example/etcd-io", "imageTag": "v3.6.6"}},
        "dns": {"imageRepository": "registry.example/coredns", "imageTag": "v1.13.1"},
    }
    yield body(
        KubeadmControlPlane.resource,
        name,
        {
            "replicas": control_planes,
            "version": OLD,
            "machineTemplate": {"spec": {"infrastructureRef": reference(machine_template, f"{name}-control-plane-1")}},
            "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": max_surge}}},
            "kubeadmConfigSpec": {
                "clusterConfiguration": configuration,
                "initConfiguration": {"nodeRegistration": {"criSocket": "unix:///run/containerd/containerd.sock"}},
                "joinConfiguration": {"nodeRegistration": {"criSocket": "unix:///run/containerd/containerd.sock"}},
            },
        },
    )
    arguments = [{"name": "node-labels", "value": "disk=fast"}]
    yield body(
        config_template,
        f"{name}-md-0-1",
        {"template": {"spec": {"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": arguments}}}}},
    )
    machine = {
        "clusterName": name,
        "version": OLD,
        "bootstrap": {"configRef": reference(config_template, f"{name}-md-0-1")},
        "infrastructureRef": reference(machine_template, f"{name}-md-0-1"),
    }
    yield body(
        MachineDeployment.resource,
        f"{name}-md-0",
        {
            "clusterName": name,
            "replicas": workers,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    )
