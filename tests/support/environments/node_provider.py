"""The provider of real nodes alone, on the embedded API server, and the objects that Cluster API would make for it."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espalier.api import eksa
from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import Store
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachine
from espalier.providers.kinds import KINDS
from espalier.providers.registry import LOCAL
from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.bases import NodeBase, NodeBases
from espalier.realnodes.nspawn.host import NodeHost
from espalier.realnodes.nspawn.owners import ENVIRONMENT
from espalier.realnodes.nspawn.setup import component
from espalier.realnodes.nspawn.system.addresses import AddressRange
from espalier.realnodes.nspawn.system.commands import run
from espalier.realnodes.nspawn.system.state import NodeRecord, State
from espalier.releases import Releases
from espalier.runtime.caches.cache import Cache
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager

ADDRESSES = AddressRange.parse("10.79.0.0/24")
BRIDGE = "esptest"
PATIENCE = 600.0
VERSION = "v1.20.9"
"""Of Kubernetes; no release has clusters of it, so a base for it needs no image."""


@dataclass
class Provider:
    """The provider, and the objects that Cluster API's controllers would make for it."""

    client: Client
    manager: Manager
    state: State

    def cache(self, resource: Resource) -> Cache:
        return self.manager.caches.of(resource)

    async def until(self, resource: Resource, name: str, is_so: Callable[[Object | None], bool]) -> None:
        cache = self.cache(resource)
        reached = asyncio.Event()

        def changed(_old: Object | None, new: Object | None, _first: bool) -> None:
            if (new or _old) is not None and (new or _old).name == name and is_so(new):  # type: ignore[union-attr]
                reached.set()

        stop = cache.subscribe(changed)
        try:
            if not is_so(cache.get(Key("default", name))):
                async with asyncio.timeout(PATIENCE):
                    await reached.wait()
        finally:
            stop()

    async def make_cluster(
        self,
        name: str = "garden",
        *,
        becomes: Callable[[Object | None], bool] | None = None,
        manifest: Tree | None = None,
    ) -> None:
        """A cluster, made for what somebody asked for in `manifest`; returns when it `becomes` so, else provisioned."""
        labels = {"cluster.x-k8s.io/cluster-name": name}
        if manifest is not None:
            kind = eksa.cluster.Cluster.resource
            asked = await self.client.create(kind, manifest)
            await self.until(kind, asked.name, lambda value: value is not None)
            labels |= {CLUSTER_NAME_LABEL: asked.name, CLUSTER_NAMESPACE_LABEL: asked.namespace}
        cluster = await self.client.create(Cluster.resource, body(Cluster.resource, name, spec={}))
        await self.client.create(
            DockerCluster.resource, body(DockerCluster.resource, name, owner=cluster, labels=labels)
        )
        await self.until(DockerCluster.resource, name, becomes or is_provisioned)

    async def make_machine(self, name: str, data: bytes, version: str = VERSION, *, provider_id: str = "") -> None:
        labels = {"cluster.x-k8s.io/cluster-name": "garden"}
        secret = body(SECRET, name, labels=labels) | {"data": {"value": base64.b64encode(data).decode()}}
        await self.client.create(SECRET, secret)
        spec = {
            "clusterName": "garden",
            "version": version,
            "bootstrap": {"dataSecretName": name},
            "infrastructureRef": {
                "apiGroup": DockerMachine.resource.group,
                "kind": DockerMachine.resource.kind,
                "name": name,
            },
        }
        machine = await self.client.create(Machine.resource, body(Machine.resource, name, spec=spec, labels=labels))
        known = {"providerID": provider_id} if provider_id else {}
        infrastructure = body(DockerMachine.resource, name, spec=known, owner=machine, labels=labels)
        await self.client.create(DockerMachine.resource, infrastructure)

    async def reconcile_machine(self, name: str) -> None:
        """Reconcile a machine once more, to the end, whether its object is there or not."""
        name_of_controller = f"nspawn-{DockerMachine.resource.kind.lower()}"
        controllers = self.manager._controllers
        controller = next(controller for controller in controllers if controller.name == name_of_controller)
        await controller._reconcile(Key("default", name))

    async def delete_machine(self, name: str) -> None:
        await self.client.delete(DockerMachine.resource, name, "default")
        await self.until(DockerMachine.resource, name, lambda value: value is None)

    async def delete_cluster(self, name: str = "garden") -> None:
        await self.client.delete(DockerCluster.resource, name, "default")
        await self.until(DockerCluster.resource, name, lambda value: value is None)

    def node(self, name: str) -> tuple[NodeRecord, container.Running]:
        record = next(record for record in self.state.nodes() if record.name == name)
        running = container.find(self.state.folder(record.id))
        assert running is not None
        return record, running

    async def inside(self, name: str, *command: str) -> str:
        return await run(*container.inside(self.node(name)[1], *command))


def body(
    resource: Resource, name: str, *, spec: Tree | None = None, owner: Object | None = None, labels: Tree | None = None
) -> Tree:
    metadata: Tree = {"name": name, "namespace": "default", "labels": labels or {}}
    if owner is not None:
        reference = {"apiVersion": owner.tree["apiVersion"], "kind": owner.kind, "name": owner.name}
        metadata["ownerReferences"] = [reference | {"uid": owner.metadata.uid}]
    made: Tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return made if spec is None else made | {"spec": spec}


def is_provisioned(value: Object | None) -> bool:
    return bool(value and value.tree.get("status", {}).get("initialization", {}).get("provisioned"))


def ready(value: Object | None) -> Tree:
    conditions = value.tree.get("status", {}).get("conditions", []) if value else []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def says(reason: str) -> Callable[[Object | None], bool]:
    return lambda value: ready(value).get("reason") == reason


@asynccontextmanager
async def provider(
    folder: Path, store: Store, bases: NodeBases, *, owner: str = ENVIRONMENT, is_alone: bool | None = True
) -> AsyncIterator[Provider]:
    """A provider that takes over whatever `folder` and `store` hold. Leaving it is as if it were killed.

    It does not know whether it `is_alone` with None, as the managers of management clusters on these nodes.
    """
    clock = SystemClock()
    server = Server(store, now=clock.now, random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server))
    await install_definitions(KINDS, client)
    manager = Manager(client, clock=clock)
    state = State(folder)
    knowledge: dict[str, Any] = {} if is_alone is None else {"is_alone": lambda: is_alone}
    nodes = component(
        host=NodeHost.of(state, ADDRESSES, BRIDGE),
        bases=bases,
        releases=Releases.load(),
        infrastructure=LOCAL.infrastructure,
        owner=owner,
        **knowledge,
    )
    assemble(manager, [nodes], client=client)
    running = asyncio.create_task(manager.run())
    await manager.leading.wait()
    try:
        yield Provider(client, manager, state)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()
        await server.close()


DATA = b"#cloud-config\nruncmd: []\n"


class NoBases:
    """Nothing was built."""

    def find(self, version: str) -> NodeBase:
        raise LookupError(f"there is no base for nodes of Kubernetes {version}: run `espalier assets build`")

    def all(self) -> list[NodeBase]:
        return []
