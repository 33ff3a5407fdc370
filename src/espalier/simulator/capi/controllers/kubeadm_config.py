"""The bootstrap controller: turns a KubeadmConfig into the bootstrap data of its machine, once."""

from __future__ import annotations

import base64
from dataclasses import dataclass

import msgspec

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigInitialization, KubeadmConfigStatus
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.objects import cluster_key, controller_of, is_paused, new_object, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.simulator import bootstrap_data
from espalier.simulator.capi.certificates import find_secret, unavailable_message
from espalier.simulator.capi.inventory import Inventory, Scheme, in_cluster


@dataclass(frozen=True)
class Observed:
    """A KubeadmConfig to reconcile, with its machine and cluster."""

    object: Object
    config: KubeadmConfig
    machine: Machine
    cluster: Cluster
    is_oldest_control_plane_machine: bool

    @property
    def control_plane(self) -> bool:
        """True if the machine belongs to the control plane."""
        return names.CONTROL_PLANE in self.machine.metadata.labels

    @property
    def initialized(self) -> bool:
        """True if the cluster's control plane is initialized."""
        return self.cluster.status.initialization.control_plane_initialized


def observe(inventory: Inventory, key: Key) -> Observed | None:
    """The config with its machine and cluster; None while one is missing, deleted or paused."""
    object_ = inventory.configs.get(key)
    if object_ is None or object_.metadata.deletion_timestamp is not None or is_paused(object_):
        return None
    owner = controller_of(object_.metadata)
    machine = inventory.machines.get(Key(key.namespace, owner.name)) if owner and owner.kind == "Machine" else None
    cluster = inventory.clusters.get(cluster_key(object_))
    if machine is None or cluster is None or is_paused(cluster):
        return None
    typed = cluster.decode(Cluster)
    if typed.spec.paused:
        return None
    return Observed(
        object_, object_.decode(KubeadmConfig), machine.decode(Machine), typed, _is_oldest(inventory, machine)
    )


def _is_oldest(inventory: Inventory, machine: Object) -> bool:
    peers = [
        peer
        for peer in in_cluster(inventory.machines, cluster_key(machine))
        if names.CONTROL_PLANE in peer.metadata.labels and peer.metadata.deletion_timestamp is None
    ]
    oldest = min(peers, key=lambda peer: (peer.metadata.creation_timestamp or "", peer.name), default=machine)
    return oldest.name == machine.name


def obstacle(observed: Observed) -> Wait | None:
    """The outcome while bootstrap data can't be generated yet."""
    if not observed.cluster.status.initialization.infrastructure_provisioned:
        return Wait("WaitingForClusterInfrastructureReady", "waiting for the cluster's infrastructure")
    if observed.initialized:
        return None
    if not observed.control_plane or not observed.is_oldest_control_plane_machine:
        return Wait("WaitingForControlPlaneInitialized", "waiting for the first control plane machine")
    return None


def bootstrap_secret(observed: Observed) -> Tree:
    """The Secret with the bootstrap data."""
    data = bootstrap_data.render(
        observed.config.spec,
        version=observed.machine.spec.version,
        init=not observed.initialized,
        control_plane=observed.control_plane,
        node_name=observed.machine.metadata.name,
    )
    metadata = {
        "name": observed.object.name,
        "namespace": observed.object.namespace,
        "labels": {names.CLUSTER: observed.cluster.metadata.name},
        "ownerReferences": [msgspec.to_builtins(owner_reference(KubeadmConfig.resource, observed.object))],
    }
    format_ = observed.config.spec.format or "cloud-config"
    encoded = {
        name: base64.b64encode(value).decode() for name, value in (("value", data), ("format", format_.encode()))
    }
    return new_object(SECRET, metadata, type=names.CLUSTER_SECRET, data=encoded)


_RETRY_SECONDS = 30.0


class KubeadmConfigs:
    """Reconciles KubeadmConfigs."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    async def reconcile(self, key: Key) -> Outcome:
        """Generate the bootstrap data of one machine, once its cluster is ready for it."""
        observed = observe(self._scheme.inventory, key)
        if observed is None:
            return Done()
        created = observed.config.status.initialization.data_secret_created
        waiting = None if created else obstacle(observed) or await self._await_authority(observed)
        if waiting is None and not created:
            await self._scheme.writer.create(SECRET, bootstrap_secret(observed))
            created = True
        available = (
            condition("DataSecretAvailable", True, "Available")
            if created
            else condition("DataSecretAvailable", False, "NotAvailable", waiting.message if waiting else "")
        )
        await self._scheme.writer.status(
            KubeadmConfig.resource, observed.object, self._status(observed, created, available)
        )
        return waiting or Done()

    async def _await_authority(self, observed: Observed) -> Wait | None:
        """The outcome while the cluster's CA is missing: joining machines discover the cluster by its hash."""
        if not observed.initialized or await find_secret(self._scheme, cluster_key(observed.object), "ca") is not None:
            return None
        return Wait("CertificatesMissing", unavailable_message(["ca"]), after=_RETRY_SECONDS)

    def _status(self, observed: Observed, created: bool, available: Condition) -> KubeadmConfigStatus:
        generation = observed.config.metadata.generation
        ready = condition("Ready", available.status == "True", "Ready" if created else "NotReady", available.message)
        certificates = condition("CertificatesAvailable", True, "Available")
        return KubeadmConfigStatus(
            initialization=KubeadmConfigInitialization(data_secret_created=created),
            data_secret_name=observed.object.name if created else "",
            observed_generation=generation,
            conditions=stated(
                observed.config.status.conditions,
                [available, certificates, ready],
                now=self._scheme.clock.now(),
                generation=generation,
            ),
        )
