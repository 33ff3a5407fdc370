"""The reads of hooks: from the API server, not from a cache.

Cluster API calls a hook as soon as it sees a change, maybe before our watches do. An answer from an older state could
have a machine replaced that should stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

from msgspec import json

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import NODE, POD, SECRET
from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_HOOKS
from espalier.api.identity import ClusterIdentity
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi import kubeconfig, kubernetes_versions
from espalier.clusterapi.changes.machine_change import bootstrap_for_comparison
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.upgrades import names
from espalier.upgrades.observed.evidence import is_own
from espalier.upgrades.observed.health import CONTROL_PLANE
from espalier.upgrades.observed.views import Node


class Unanswerable(Exception):
    """A hook can't answer, because an object is missing or invalid; the message names it."""


@dataclass(frozen=True)
class Owner:
    """The control plane or worker node group that a call is about."""

    resource: Resource
    object: Object

    @property
    def fallback(self) -> str:
        """`Fail` or `RollingUpdate`; empty if its machines are not upgraded in place."""
        return self.object.metadata.annotations.get(IN_PLACE_HOOKS, "")


class DesiredMachine(NamedTuple):
    """The desired state of a machine."""

    machine: Object
    version: str
    etcd: str | None
    bootstrap: Tree
    """Spec of its KubeadmConfig."""

    @property
    def goal(self) -> str:
        """The digest of the bootstrap configuration."""
        return goal(self.bootstrap)


NAMED_BY_LABELS = (
    f"labels {CLUSTER_NAME_LABEL} and {DEPLOYMENT_NAME_LABEL} of the machine or MachineSet name them: set them back if "
    "somebody edited them"
)


@dataclass(frozen=True)
class Queries:
    """Reads of the management cluster through `client`, and of workload clusters."""

    client: Client
    remotes: RemoteClients

    async def control_plane(self, labels: Mapping[str, str]) -> Owner:
        """The control plane of a machine with these labels. Raises `Unanswerable`, `KubeError`."""
        cluster = labels.get(CLUSTER_NAME_LABEL, "")
        for control_plane in await self._of_cluster(KubeadmControlPlane.resource, cluster):
            return Owner(KubeadmControlPlane.resource, control_plane)
        raise Unanswerable(f"cluster {cluster or 'without a name'} has no KubeadmControlPlane; {NAMED_BY_LABELS}")

    async def deployment(self, labels: Mapping[str, str]) -> Owner:
        """The MachineDeployment of a MachineSet with these labels. Raises `Unanswerable`, `KubeError`."""
        cluster, name = labels.get(CLUSTER_NAME_LABEL, ""), labels.get(DEPLOYMENT_NAME_LABEL, "")
        for machine_deployment in await self._of_cluster(MachineDeployment.resource, cluster):
            if machine_deployment.name == name:
                return Owner(MachineDeployment.resource, machine_deployment)
        raise Unanswerable(f"cluster {cluster or 'without a name'} has no MachineDeployment {name}; {NAMED_BY_LABELS}")

    async def desired_machine(self, machine: str) -> DesiredMachine:
        """The desired state that Cluster API has written for a machine. Raises `Unanswerable`, `KubeError`.

        It is read from the API, not from the request: reaching the hooks must not be enough to upgrade a node.
        """
        current = await self.machine(machine)
        if UPDATE_IN_PROGRESS not in current.metadata.annotations:
            raise Unanswerable(f"Machine {machine} is not being updated: annotation {UPDATE_IN_PROGRESS} is missing")
        config = (await self.with_configs([current]))[0][1]
        if config is None:
            raise Unanswerable(f"the KubeadmConfig of Machine {machine} does not exist")
        etcd = _etcd(config.decode(KubeadmConfig)) if CONTROL_PLANE_LABEL in current.metadata.labels else None
        return DesiredMachine(current, current.decode(Machine).spec.version, etcd, config.tree.get("spec") or {})

    async def machine(self, name: str) -> Object:
        """A Machine. Raises `KubeError`."""
        return await self.client.get(Machine.resource, name, SYSTEM_NAMESPACE)

    async def machines_of(self, set_: str, deployment: Object) -> list[Object]:
        """The machines of a MachineSet of a deployment. Raises `KubeError`.

        By UID: a label or a name in an owner reference would let anybody have machines of other users annotated.
        """
        cluster = deployment.metadata.labels.get(CLUSTER_NAME_LABEL, "")
        uids = {
            machine_set.metadata.uid
            for machine_set in await self._of_cluster(MachineSet.resource, cluster)
            if machine_set.name == set_
        }
        return [
            machine
            for machine in await self._of_cluster(Machine.resource, cluster)
            if any(owner.controller and owner.uid in uids for owner in machine.metadata.owner_references)
        ]

    async def with_configs(self, machines: Sequence[Object]) -> list[tuple[Object, Object | None]]:
        """Each machine with its KubeadmConfig, read afterwards; None if that is gone. Raises `KubeError`."""
        refs = [machine.decode(Machine).spec.bootstrap.config_ref for machine in machines]
        config_names = {ref.name for ref in refs if ref is not None}
        labels = f"{CLUSTER_NAME_LABEL}={machines[0].metadata.labels.get(CLUSTER_NAME_LABEL, '')}" if machines else ""
        fields = f"metadata.name={next(iter(config_names))}" if len(config_names) == 1 else ""
        configs: dict[str, Object] = {}
        if config_names:
            labels = "" if fields else labels
            listed = await self.client.list(KubeadmConfig.resource, SYSTEM_NAMESPACE, labels=labels, fields=fields)
            configs = {config.name: config for config in listed.items}
        pairs = zip(machines, refs, strict=True)
        return [(machine, configs.get(ref.name) if ref else None) for machine, ref in pairs]

    async def is_first(self, name: str, version: str) -> bool:
        """True if no control plane node of a cluster has this version or a later version.

        Nodes decide, not kubeadm's ConfigMap, in which the kubeadm control plane provider writes the new version before
        it has any machine upgraded. Raises `Unanswerable`, `KubeError`.
        """
        workload = await self._workload(name)
        nodes = [node.decode(Node) for node in (await workload.list(NODE, labels=CONTROL_PLANE)).items]
        return all(kubernetes_versions.is_older(node.status.node_info.kubelet_version, version) for node in nodes)

    async def node(self, node_upgrade: Object) -> tuple[Node, Object | None]:
        """The node of a NodeUpgrade, and the upgrader pod that is its own. Raises `Unanswerable`, `KubeError`."""
        machine = await self.machine(node_upgrade.decode(NodeUpgrade).spec.machine.name)
        reference = machine.decode(Machine).status.node_ref
        if reference is None:
            raise Unanswerable(f"Machine {machine.name} has no node")
        workload = await self._workload(machine.metadata.labels.get(CLUSTER_NAME_LABEL, ""))
        nodes = (await workload.list(NODE, fields=f"metadata.name={reference.name}")).items
        if not nodes:
            raise Unanswerable(f"node {reference.name} of Machine {machine.name} does not exist")
        field = f"metadata.name={names.upgrader(reference.name)}"
        pods = (await workload.list(POD, names.UPGRADER_NAMESPACE, fields=field)).items
        return nodes[0].decode(Node), next((pod for pod in pods if is_own(pod, node_upgrade)), None)

    async def _workload(self, name: str) -> Client:
        control_planes = await self._of_cluster(KubeadmControlPlane.resource, name)
        cluster = ClusterIdentity.of_objects(name, (control_plane.metadata for control_plane in control_planes))
        key = kubeconfig.secret_key(cluster.capi)
        secrets = (await self.client.list(SECRET, key.namespace, fields=f"metadata.name={key.name}")).items
        content = kubeconfig.content(secrets[0]) if secrets else None
        if content is None:
            raise Unanswerable(f"waiting for Secret {key} with the kubeconfig of workload cluster {name}")
        try:
            return self.remotes.get(cluster, content)
        except ValueError as error:
            raise Unanswerable(f"Secret {key} has an invalid kubeconfig: {error}") from None

    async def _of_cluster(self, resource: Resource, cluster: str) -> list[Object]:
        if not cluster:
            return []
        listed = await self.client.list(resource, SYSTEM_NAMESPACE, labels=f"{CLUSTER_NAME_LABEL}={cluster}")
        return listed.items


def goal(bootstrap: Tree) -> str:
    """The digest of the compared parts of a KubeadmConfig's spec."""
    return sha256(json.encode(bootstrap_for_comparison(bootstrap), order="sorted")).hexdigest()[:16]


def _etcd(config: KubeadmConfig) -> str | None:
    """The tag of etcd's image, if it is set."""
    cluster = config.spec.cluster_configuration
    local = cluster.etcd.local if cluster and cluster.etcd else None
    return (local.image_tag if local else "") or None
