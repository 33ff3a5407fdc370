"""One workload cluster whose API server runs in this process."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Endpoint
from espalier.api.core import (
    CERTIFICATE_SIGNING_REQUEST,
    CONFIG_MAP,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    KUBE_SYSTEM,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.clusterapi.machines.network import Network
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.errors import AlreadyExists, NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import Index
from espalier.runtime.clock import Clock
from espalier.runtime.concurrency import together
from espalier.simulator import addons, nodes
from espalier.simulator.bootstrap_data import CONTROL_PLANE_LABEL, Kubeadm
from espalier.simulator.hosts.static_pods import MIRROR

CONTAINER_RUNTIME = "2.1.5"
"""The version of containerd that simulated nodes report."""

WATCHED = (
    NODE,
    POD,
    DAEMON_SET,
    DEPLOYMENT,
    REPLICA_SET,
    STATEFUL_SET,
    POD_DISRUPTION_BUDGET,
    PERSISTENT_VOLUME_CLAIM,
    PERSISTENT_VOLUME,
    SERVICE,
    ENDPOINT_SLICE,
    CERTIFICATE_SIGNING_REQUEST,
)

Changed = Callable[[Key, Object], None]
"""Called with a changed object of a workload cluster, and the key of the cluster."""

_BY_PROVIDER_ID = "provider-id"
_BY_NODE = "node"


class _NodeSpec(msgspec.Struct):
    provider_id: str = msgspec.field(name="providerID", default="")


class _NodeView(msgspec.Struct):
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)


def _by_provider_id(node: Object) -> Iterable[str]:
    provider_id = node.decode(_NodeView).spec.provider_id
    return (provider_id,) if provider_id else ()


class _PodSpec(msgspec.Struct, rename="camel"):
    node_name: str = ""


class _PodView(msgspec.Struct):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)


def _by_node(pod: Object) -> Iterable[str]:
    node = pod.decode(_PodView).spec.node_name
    return (node,) if node else ()


_INDEXES: dict[Resource, dict[str, Index]] = {
    NODE: {_BY_PROVIDER_ID: _by_provider_id},
    POD: {_BY_NODE: _by_node},
}


class WorkloadCluster:
    """One workload cluster whose API server runs in this process."""

    def __init__(
        self,
        key: Key,
        endpoint: Endpoint,
        served: Endpoint,
        server: Server,
        authority: Authority,
        network: Network,
        clock: Clock,
    ) -> None:
        self.key = key
        self.endpoint = endpoint
        """The endpoint in the Cluster."""
        self.served = served
        """The address at which this process serves it."""
        self.server = server
        self.authority = authority
        self.network = network
        self.deleted_mirrors: dict[Key, Tree] = {}
        """Mirror pods that were deleted, until the kubelets recreate them."""
        self.tokens: dict[str, User] = {}
        """Bearer tokens that the API server accepts over the network: those of pods that run as processes."""
        self.kubelet_version: Callable[[str], str] = str
        """The version that kubelets of a machine's version report."""
        self.client = Client(InProcessTransport(server), field_manager="espalier-laptop", user_agent="espalier-laptop")
        self._clock = clock
        self._caches = Caches(self.client, rng=random.Random(0))  # noqa: S311 - spreads watches in time
        self._watched: dict[Resource, Cache] = {
            resource: self._caches.of(resource, indexes=_INDEXES.get(resource)) for resource in WATCHED
        }
        self._shell: HttpShell | None = None
        self._cache_task: asyncio.Task[None] | None = None

    @property
    def version(self) -> str:
        """The Kubernetes version of the API server."""
        return self.server.version

    @version.setter
    def version(self, version: str) -> None:
        self.server.version = version

    async def service_account_files(self, _pod: Object) -> Mapping[str, str] | None:
        """Token, CA and namespace for a pod whose containers are coroutines, by file name; None if it gets none.

        Raises `KubeError`.
        """
        return None

    def cache(self, resource: Resource) -> Cache:
        """The cache of one of the `WATCHED` kinds."""
        return self._watched[resource]

    def object(self, resource: Resource, key: Key) -> Object | None:
        """An object of one of the `WATCHED` kinds, from its cache."""
        return self._watched[resource].get(key)

    def node(self, provider_id: str) -> Object | None:
        """The node with this provider ID, from the cache."""
        return next(iter(self._watched[NODE].by_index(_BY_PROVIDER_ID, provider_id)), None)

    def pods(self, node: str) -> list[Object]:
        """The pods of a node, from the cache."""
        return self._watched[POD].by_index(_BY_NODE, node)

    async def start(self, changed: Changed, serving: KeyPair | None) -> None:
        """Serve in this process, and with a `serving` certificate over the network as well.

        Returns when the caches are synced. Raises `AddressTaken`.
        """
        if serving is not None:
            shell = HttpShell(
                self.server,
                host=self.served.host,
                port=self.served.port,
                serving=serving,
                client_ca=self.authority.certificate,
                tokens=self.tokens,
            )
            await shell.start()
            self._shell = shell
        await self.server.start()
        await self._find_deleted_mirrors()
        self._watched[POD].subscribe(self._track_mirror)
        for cache in self._watched.values():
            cache.subscribe(self._notifier(changed))
        self._cache_task = asyncio.create_task(self._caches.run(), name=f"workload cluster {self.key}")
        await self._caches.wait_synced()

    async def _find_deleted_mirrors(self) -> None:
        """Add to `deleted_mirrors` what was deleted just before another process ended, which nobody recreated."""
        try:
            kubeadm_config = await self.client.get(CONFIG_MAP, "kubeadm-config", KUBE_SYSTEM)
            configuration = addons.cluster_configuration(kubeadm_config.tree)
        except (NotFound, ValueError):
            return
        pods = (await self.client.list(POD, KUBE_SYSTEM)).items
        mirrors = [pod for pod in pods if MIRROR in pod.metadata.annotations]
        for node in (await self.client.list(NODE, labels=CONTROL_PLANE_LABEL)).items:
            node_mirrors = [pod for pod in mirrors if pod.tree["spec"].get("nodeName") == node.name]
            for tree in nodes.missing_mirrors(configuration, node, node_mirrors):
                self.deleted_mirrors[Key(tree["metadata"]["namespace"], tree["metadata"]["name"])] = tree

    def _track_mirror(self, old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None:
            self.deleted_mirrors.pop(new.key, None)
        elif old is not None and MIRROR in old.metadata.annotations:
            self.deleted_mirrors[old.key] = nodes.recreated_mirror(old)

    def _notifier(self, changed: Changed) -> Callable[[Object | None, Object | None, bool], None]:
        def notify(old: Object | None, new: Object | None, _first: bool) -> None:
            object_ = new or old
            if object_ is not None:
                changed(self.key, object_)

        return notify

    async def stop(self) -> None:
        """Stop serving; the data stay."""
        if self._cache_task is not None:
            self._cache_task.cancel()
            await asyncio.gather(self._cache_task, return_exceptions=True)
        if self._shell is not None:
            await self._shell.stop()
        await self.client.close()
        await self.server.close()

    async def install(self, kubeadm: Kubeadm) -> None:
        """Create the objects that kubeadm installs in a new cluster; existing ones are kept."""
        endpoint = f"{self.endpoint.host}:{self.endpoint.port}"
        objects = addons.installed(self.key.name, endpoint, kubeadm, self.network)
        await together(self.create(resource, body) for resource, body in objects)

    async def register(self, kubeadm: Kubeadm, *, provider_id: str, address: str) -> None:
        """Register a node as its kubelet does, with mirror pods on a control plane; existing objects are kept.

        Raises `ValueError` when kubeadm's configuration in the cluster is invalid.
        """
        if kubeadm.control_plane and kubeadm.cluster is None:  # a joining machine reads it from the cluster
            kubeadm_config = await self.client.get(CONFIG_MAP, "kubeadm-config", KUBE_SYSTEM)
            configuration = addons.cluster_configuration(kubeadm_config.tree)
            kubeadm = msgspec.structs.replace(kubeadm, cluster=configuration)
        now = condition_list.timestamp(self._clock.now())
        node = await self.create(
            NODE,
            nodes.node(
                kubeadm,
                provider_id=provider_id,
                address=address,
                container_runtime=CONTAINER_RUNTIME,
                now=now,
                kubelet=self.kubelet_version(kubeadm.version),
            ),
        )
        if kubeadm.control_plane:
            node = node or await self.client.get(NODE, kubeadm.node_name)
            pods = nodes.static_pods(kubeadm, node_uid=node.metadata.uid)
            await together(self.create(POD, pod) for pod in pods)

    async def delete_orphaned_nodes(self, has_machine: Callable[[str], bool]) -> None:
        """Delete the nodes whose machine, by provider ID, was deleted while this API server did not run.

        Nodes without a provider ID are kept.
        """
        orphaned = [
            node
            for node in self._watched[NODE].list()
            if (provider_id := node.decode(_NodeView).spec.provider_id) and not has_machine(provider_id)
        ]
        for node in orphaned:
            with suppress(NotFound):
                await self.client.delete(NODE, node.name, uid=node.metadata.uid)

    async def create(self, resource: Resource, body: Tree) -> Object | None:
        """Create an object; None when it exists already."""
        try:
            created = await self.client.create(resource, body)
        except AlreadyExists:
            return None
        if resource in self._watched:
            self._watched[resource].wrote(created)
        return created
