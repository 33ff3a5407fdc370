"""Shared dependencies of the controllers: caches, writer, and state on the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.resource import Key, Resource
from espalier.clusterapi import names
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.objects import cluster_key
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.realnodes.nspawn import images
from espalier.realnodes.nspawn.bases import NodeBases
from espalier.realnodes.nspawn.host import NodeHost
from espalier.realnodes.nspawn.images import RequestedImage
from espalier.realnodes.nspawn.owners import ENVIRONMENT, authority_secret, fingerprint
from espalier.realnodes.nspawn.system.registry import ImageBuild, ServedImages
from espalier.realnodes.nspawn.system.state import State
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import by_owner
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.writer import Writer

BY_CLUSTER = "nspawn/cluster"
BY_OWNER = "nspawn/owner"


@dataclass(frozen=True)
class NodeTools:
    """Shared by the controllers of a local environment's real nodes."""

    clusters: Cache
    machines: Cache
    secrets: Cache
    manifests: Cache
    """The Clusters of users, for their CNI."""
    infrastructure_clusters: Cache
    infrastructure_machines: Cache
    kinds: Infrastructure
    client: Client
    writer: Writer
    clock: Clock
    host: NodeHost
    bases: NodeBases
    asked_images: Sequence[RequestedImage]
    built_images: Mapping[str, ImageBuild]
    owner: str = ENVIRONMENT
    """This management cluster, as records name it."""
    is_alone: Callable[[], bool] = lambda: False
    """True if no other management cluster acts on nodes of this local environment."""

    @classmethod
    def of(
        cls,
        client: Client,
        caches: Caches,
        *,
        clock: Clock,
        host: NodeHost,
        bases: NodeBases,
        asked_images: Sequence[RequestedImage],
        built_images: Mapping[str, ImageBuild],
        kinds: Infrastructure,
        owner: str = ENVIRONMENT,
        is_alone: Callable[[], bool] = lambda: False,
    ) -> NodeTools:
        """Create the tools with the caches of one management cluster."""
        indexes = {BY_CLUSTER: _by_cluster, BY_OWNER: by_owner}
        infrastructure_clusters = caches.of(kinds.cluster, indexes=indexes)
        infrastructure_machines = caches.of(kinds.machine, indexes=indexes)
        written = {kinds.cluster: infrastructure_clusters, kinds.machine: infrastructure_machines}
        return cls(
            clusters=caches.of(Cluster.resource),
            machines=caches.of(Machine.resource),
            secrets=caches.of(SECRET, labels=names.CLUSTER),
            manifests=caches.of(eksa.Cluster.resource),
            infrastructure_clusters=infrastructure_clusters,
            infrastructure_machines=infrastructure_machines,
            kinds=kinds,
            client=client,
            writer=Writer(client, written),
            clock=clock,
            host=host,
            bases=bases,
            asked_images=asked_images,
            built_images=built_images,
            owner=owner,
            is_alone=is_alone,
        )

    @property
    def state(self) -> State:
        """The records on this machine."""
        return self.host.state

    async def current_cluster(self, key: Key) -> Object | None:
        """The Cluster as the API server has it now. A cache may not know yet that it is paused."""
        try:
            return await self.client.get(Cluster.resource, key.name, key.namespace)
        except NotFound:
            return None

    def authority_of(self, cluster: Key) -> str:
        """The fingerprint of a cluster's certificate authority; empty while it has none."""
        return fingerprint(self.secrets.get(authority_secret(cluster)))

    def owner_of(self, infrastructure: Object, kind: str, cache: Cache) -> Object | None:
        """The object of `kind` that owns an infrastructure object; a Cluster does so without being its controller."""
        owner = next((owner for owner in infrastructure.metadata.owner_references if owner.kind == kind), None)
        return cache.get(Key(infrastructure.namespace, owner.name)) if owner else None

    @staticmethod
    def finalizer(resource: Resource) -> str:
        """The finalizer of an infrastructure object, until its node or address is removed."""
        return f"{resource.group}/espalier-{resource.kind.lower()}"

    def asks_for_cilium(self, infrastructure: Object) -> bool:
        """True if the Cluster of an infrastructure object has Cilium as CNI."""
        labels = infrastructure.metadata.labels
        key = Key(labels.get(CLUSTER_NAMESPACE_LABEL, ""), labels.get(CLUSTER_NAME_LABEL, ""))
        manifest = self.manifests.get(key)
        network = manifest.decode(eksa.Cluster).spec.cluster_network if manifest else None
        if network is None:
            return False
        return bool(network.cni_config and network.cni_config.cilium) or network.cni.startswith("cilium")

    def served_images(self) -> ServedImages:
        """The images of all bases, and created ones."""
        names: dict[str, str] = {}
        bases = self.bases.all()
        for base in bases:
            names |= images.by_name(base.version, base.images, self.asked_images)
        return ServedImages(names, [base.store for base in bases], self.built_images)


def _by_cluster(object_: Object) -> list[str]:
    key = cluster_key(object_)
    return [str(key)] if key.name else []
