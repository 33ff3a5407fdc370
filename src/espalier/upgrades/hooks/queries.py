"""What hooks read: as it is stored now, not as a cache shows it.

Cluster API asks as soon as it sees a change, which may be before our watches do. An answer by an older state would have
a machine replaced that was to stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import NODE, SECRET
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import IN_PLACE_HOOKS, UPDATE_IN_PROGRESS
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Resource
from espalier.clusterapi import kubeconfig, kubernetes_versions
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.remote import RemoteClients
from espalier.upgrades.health import CONTROL_PLANE
from espalier.upgrades.views import Node


class Unanswerable(Exception):
    """What is needed to answer is not there; the message says what."""


@dataclass(frozen=True)
class Owner:
    """The control plane or worker node group that a question is about."""

    resource: Resource
    object: Object

    @property
    def fallback(self) -> str:
        """`Fail` or `RollingUpdate`; empty when its machines are not to be upgraded in place."""
        return self.object.metadata.annotations.get(IN_PLACE_HOOKS, "")


class Wish(NamedTuple):
    """What a machine is to become."""

    machine: Object
    version: str
    etcd: str | None


@dataclass(frozen=True)
class Questions:
    """Reads of the management cluster through `client`, and of workload clusters."""

    client: Client
    remotes: RemoteClients

    async def control_plane(self, labels: Mapping[str, str]) -> Owner:
        """The control plane of a machine with these labels: a cluster has one. Raises `Unanswerable`, `KubeError`."""
        cluster = labels.get(CLUSTER_NAME_LABEL, "")
        for found in await self._of_cluster(KubeadmControlPlane.resource, cluster):
            return Owner(KubeadmControlPlane.resource, found)
        raise Unanswerable(f"cluster {cluster or 'without a name'} has no KubeadmControlPlane")

    async def deployment(self, labels: Mapping[str, str]) -> Owner:
        """The MachineDeployment of a MachineSet with these labels. Raises `Unanswerable`, `KubeError`."""
        cluster, name = labels.get(CLUSTER_NAME_LABEL, ""), labels.get(DEPLOYMENT_NAME_LABEL, "")
        for found in await self._of_cluster(MachineDeployment.resource, cluster):
            if found.name == name:
                return Owner(MachineDeployment.resource, found)
        raise Unanswerable(f"cluster {cluster or 'without a name'} has no MachineDeployment {name}")

    async def wish(self, machine: str) -> Wish:
        """What Cluster API has written that a machine is to become. Raises `Unanswerable`, `KubeError`.

        A call says no more than which machine: who can reach the hooks, but not change machines, has no node upgraded.
        """
        found = await self.client.get(Machine.resource, machine, SYSTEM_NAMESPACE)
        if UPDATE_IN_PROGRESS not in found.metadata.annotations:
            raise Unanswerable(f"Machine {machine} is not being updated: annotation {UPDATE_IN_PROGRESS} is missing")
        decoded = found.decode(Machine)
        config, etcd = decoded.spec.bootstrap.config_ref, None
        if CONTROL_PLANE_LABEL in found.metadata.labels and config is not None:
            named = f"metadata.name={config.name}"
            configs = (await self.client.list(KubeadmConfig.resource, SYSTEM_NAMESPACE, fields=named)).items
            etcd = next((_etcd(one.decode(KubeadmConfig)) for one in configs), None)
        return Wish(found, decoded.spec.version, etcd)

    async def is_first(self, name: str, version: str) -> bool:
        """Whether no control plane node of a cluster has this version yet, or a later one.

        Nodes are asked, not kubeadm's ConfigMap: there the kubeadm control plane provider writes the new version before
        it has any machine upgraded. Raises `Unanswerable`, `KubeError`.
        """
        control_planes = await self._of_cluster(KubeadmControlPlane.resource, name)
        cluster = ClusterIdentity.of_objects(name, (found.metadata for found in control_planes))
        key = kubeconfig.secret_key(cluster.capi)
        secrets = (await self.client.list(SECRET, key.namespace, fields=f"metadata.name={key.name}")).items
        content = kubeconfig.content(secrets[0]) if secrets else None
        if content is None:
            raise Unanswerable(f"waiting for Secret {key}, by which workload cluster {name} is reached")
        try:
            workload = self.remotes.get(cluster, content)
        except ValueError as error:
            raise Unanswerable(f"Secret {key} holds no kubeconfig: {error}") from None
        nodes = [found.decode(Node) for found in (await workload.list(NODE, labels=CONTROL_PLANE)).items]
        return all(kubernetes_versions.is_older(node.status.node_info.kubelet_version, version) for node in nodes)

    async def _of_cluster(self, resource: Resource, cluster: str) -> list[Object]:
        if not cluster:
            return []
        found = await self.client.list(resource, SYSTEM_NAMESPACE, labels=f"{CLUSTER_NAME_LABEL}={cluster}")
        return found.items


def _etcd(config: KubeadmConfig) -> str | None:
    """Tag of the image of etcd, when one is asked for."""
    cluster = config.spec.cluster_configuration
    local = cluster.etcd.local if cluster and cluster.etcd else None
    return (local.image_tag if local else "") or None
