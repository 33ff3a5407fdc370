"""The Cluster controller: connects infrastructure, control plane and workers, and deletes them in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.resource import Key, Resource
from espalier.clusterapi import external_etcd, names
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureCluster
from espalier.clusterapi.objects import is_paused, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.simulator.capi.inventory import Scheme, in_cluster
from espalier.simulator.capi.states.cluster_status import Observed, spec_changes, status

RESOURCE = Cluster.resource


class BlockingObject(NamedTuple):
    """An object that blocks the cluster's deletion."""

    resource: Resource
    object: Object


def stages(observed: Observed) -> Iterator[tuple[str, list[BlockingObject]]]:
    """The objects to delete before the infrastructure, in order, with a description: workers, control plane, etcd."""
    workers = [BlockingObject(MachineDeployment.resource, deployment) for deployment in observed.deployments]
    workers += [
        BlockingObject(MachineSet.resource, set_) for set_ in observed.sets if not set_.metadata.owner_references
    ]
    workers += [
        BlockingObject(Machine.resource, machine)
        for machine in observed.machine_objects
        if not machine.metadata.owner_references
    ]
    yield "worker objects", workers
    control_plane = observed.control_plane_object
    yield "control plane", [BlockingObject(KubeadmControlPlane.resource, control_plane)] if control_plane else []
    yield "etcd", [BlockingObject(EtcdadmCluster.resource, observed.etcd_object)] if observed.etcd_object else []


class Clusters:
    """Reconciles Clusters."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.clusters.get(key)
        if object_ is None or is_paused(object_):
            return None
        cluster = object_.decode(Cluster)
        infrastructure = control_plane = None
        if reference := cluster.spec.infrastructure_ref:
            infrastructure = inventory.infrastructure_object(reference.kind, Key(key.namespace, reference.name))
        if (reference := cluster.spec.control_plane_ref) and reference.kind == KubeadmControlPlane.resource.kind:
            control_plane = inventory.control_planes.get(Key(key.namespace, reference.name))
        etcd = None
        if external := cluster.spec.managed_external_etcd_ref:
            etcd = inventory.etcds.get(Key(key.namespace, external.name))
        machines = [
            machine
            for machine in in_cluster(inventory.machines, key)
            if external_etcd.MACHINE_LABEL not in machine.metadata.labels
        ]
        return Observed(
            object=object_,
            cluster=cluster,
            infrastructure_object=infrastructure,
            infrastructure=infrastructure.decode(InfrastructureCluster) if infrastructure else None,
            control_plane_object=control_plane,
            control_plane=control_plane.decode(KubeadmControlPlane) if control_plane else None,
            etcd_object=etcd,
            deployments=tuple(in_cluster(inventory.deployments, key)),
            sets=tuple(in_cluster(inventory.sets, key)),
            machines=tuple(machine.decode(Machine) for machine in machines),
            machine_objects=tuple(machines),
            reachable=self._scheme.workload_clusters.reach(key) is not None,
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one Cluster."""
        observed = self._observe(key)
        if observed is None or observed.cluster.spec.paused:
            return Done()
        if observed.deleting:
            return await self._delete(observed)
        writer = self._scheme.writer
        current = await writer.add_finalizer(RESOURCE, observed.object, names.CLUSTER_FINALIZER)
        await self._adopt(observed)
        if spec := spec_changes(observed):
            await writer.merge(RESOURCE, current, {"spec": spec})
            return Wait("SpecChanged", "waiting for the cache to show the changed cluster")
        await writer.status(RESOURCE, current, status(observed, self._scheme.clock.now()))
        return Done()

    async def _adopt(self, observed: Observed) -> None:
        """Set the cluster as owner of infrastructure, control plane and external etcd."""
        owner = owner_reference(RESOURCE, observed.object, controller=False)
        labels = {names.CLUSTER: observed.object.name}
        infrastructure = observed.infrastructure_object
        if infrastructure is not None and (resource := self._scheme.inventory.resource(infrastructure.kind)):
            await self._scheme.writer.add_owner(resource, infrastructure, owner, labels)
        control_plane = observed.control_plane_object
        if control_plane is not None:
            await self._scheme.writer.add_owner(KubeadmControlPlane.resource, control_plane, owner, labels)
        if observed.etcd_object is not None:
            await self._scheme.writer.add_owner(EtcdadmCluster.resource, observed.etcd_object, owner, labels)

    async def _delete(self, observed: Observed) -> Outcome:
        for description, objects in stages(observed):
            if objects:
                for blocking in objects:
                    await self._scheme.writer.delete(blocking.resource, blocking.object, found_by_owner)
                return await self._still_deleting(observed, f"waiting for {len(objects)} {description} to be deleted")
        infrastructure = observed.infrastructure_object
        resource = self._scheme.inventory.resource(infrastructure.kind) if infrastructure is not None else None
        if infrastructure is not None and resource is not None:
            await self._scheme.writer.delete(resource, infrastructure, found_by_owner)
            waiting = f"waiting for {resource.kind} {infrastructure.name} to be deleted"
            return await self._still_deleting(observed, waiting)
        await self._scheme.writer.remove_finalizer(RESOURCE, observed.object, names.CLUSTER_FINALIZER)
        return Done()

    async def _still_deleting(self, observed: Observed, waiting: str) -> Outcome:
        await self._scheme.writer.status(RESOURCE, observed.object, status(observed, self._scheme.clock.now(), waiting))
        return Wait("Deleting", waiting)
