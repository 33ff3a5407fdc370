"""The Machine controller: connects bootstrap data, infrastructure and node, and deletes them."""

from __future__ import annotations

from dataclasses import replace

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.contract import DRAINING
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureMachine
from espalier.clusterapi.objects import controller_of, is_paused, owner_reference
from espalier.kube.client import PatchType
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.merge_patch import difference
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.simulator.capi import draining
from espalier.simulator.capi.inventory import Scheme, in_cluster
from espalier.simulator.capi.states.machine_status import (
    Observed,
    node_deletion_remaining,
    seconds_until_available,
    spec_changes,
    status,
)


def _is_cluster_deleted(observed: Observed) -> bool:
    """True if the cluster is deleted or being deleted: its nodes are then not deleted one by one."""
    return observed.cluster is None or observed.cluster.metadata.deletion_timestamp is not None


class Machines:
    """Reconciles Machines."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.machines.get(key)
        if object_ is None:
            return None
        machine = object_.decode(Machine)
        config = None
        if reference := machine.spec.bootstrap.config_ref:
            config = inventory.configs.get(Key(key.namespace, reference.name))
        infrastructure = inventory.infrastructure_object(
            machine.spec.infrastructure_ref.kind, Key(key.namespace, machine.spec.infrastructure_ref.name)
        )
        cluster = Key(key.namespace, machine.spec.cluster_name)
        workload = self._scheme.workload_clusters.reach(cluster)
        typed = infrastructure.decode(InfrastructureMachine) if infrastructure else None
        return Observed(
            object=object_,
            machine=machine,
            cluster=inventory.clusters.get(cluster),
            config_object=config,
            config=config.decode(KubeadmConfig) if config else None,
            infrastructure_object=infrastructure,
            infrastructure=typed,
            workload=workload,
            node=workload.node(machine.spec.provider_id) if workload and machine.spec.provider_id else None,
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one Machine."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        if observed.cluster is None or is_paused(observed.object) or is_paused(observed.cluster):
            return Done()
        if observed.cluster.decode(Cluster).spec.paused:
            return Done()
        if observed.machine.metadata.deletion_timestamp is not None:
            return await self._delete(observed)
        writer = self._scheme.writer
        current = await writer.add_finalizer(Machine.resource, observed.object, names.MACHINE_FINALIZER)
        await self._adopt(observed)
        if spec := spec_changes(observed):
            await writer.merge(Machine.resource, current, {"spec": spec})
            return Wait("SpecChanged", "waiting for the cache to show the changed machine")
        await self._annotate_node(observed)
        now = self._scheme.clock.now()
        machine_status = status(observed, now)
        await writer.status(Machine.resource, current, machine_status)
        ready = condition_list.get(machine_status.conditions, "Ready")
        if ready is None or ready.status != "True":
            return Wait("NotReady", ready.message if ready else "")
        remaining = seconds_until_available(observed.machine, ready, now)
        return (
            Wait("WaitingForMinReadySeconds", "ready, but not for long enough", after=remaining)
            if remaining
            else Done()
        )

    async def _adopt(self, observed: Observed) -> None:
        """Set the machine as owner of its bootstrap and infrastructure objects, whoever created them."""
        owner = owner_reference(Machine.resource, observed.object)
        labels = {names.CLUSTER: observed.machine.spec.cluster_name}
        if observed.config_object is not None:
            await self._scheme.writer.add_owner(KubeadmConfig.resource, observed.config_object, owner, labels)
        resource = self._scheme.inventory.resource(observed.machine.spec.infrastructure_ref.kind)
        if observed.infrastructure_object is not None and resource is not None:
            await self._scheme.writer.add_owner(resource, observed.infrastructure_object, owner, labels)

    async def _annotate_node(self, observed: Observed) -> None:
        """Annotate the node with its machine, the machine's owner and the cluster."""
        if observed.node is None or observed.workload is None:
            return
        owner = controller_of(observed.machine.metadata)
        annotations = {
            names.NODE_CLUSTER: observed.machine.spec.cluster_name,
            names.NODE_CLUSTER_NAMESPACE: observed.object.namespace,
            names.NODE_MACHINE: observed.object.name,
            **({names.NODE_OWNER_KIND: owner.kind, names.NODE_OWNER_NAME: owner.name} if owner else {}),
        }
        if patch := difference(observed.node.metadata.annotations, annotations):
            await observed.workload.client.patch(
                NODE, observed.node.name, patch={"metadata": {"annotations": patch}}, type=PatchType.MERGE
            )

    async def _delete(self, observed: Observed) -> Outcome:
        """Drain the node, then delete in order: infrastructure machine, bootstrap configuration, node, finalizer."""
        writer = self._scheme.writer
        if (waits := await self._drain(observed)) is not None:
            return waits
        waiting = ""
        resource = self._scheme.inventory.resource(observed.machine.spec.infrastructure_ref.kind)
        if observed.infrastructure_object is not None and resource is not None:
            await writer.delete(resource, observed.infrastructure_object, found_by_owner)
            waiting = f"{resource.kind} {observed.infrastructure_object.name} is being deleted"
        elif observed.config_object is not None:
            await writer.delete(KubeadmConfig.resource, observed.config_object, found_by_owner)
            waiting = f"KubeadmConfig {observed.config_object.name} is being deleted"
        if waiting:
            await writer.status(
                Machine.resource, observed.object, status(observed, self._scheme.clock.now(), deleting=waiting)
            )
            return Wait("Deleting", waiting)
        if obstacle := await self._delete_node(observed):
            now = self._scheme.clock.now()
            remaining = node_deletion_remaining(observed.machine, now)
            if remaining > 0:
                await writer.status(Machine.resource, observed.object, status(observed, now, deleting=obstacle))
                return Wait("NodeNotDeleted", obstacle, after=min(5.0, remaining))
        await writer.remove_finalizer(Machine.resource, observed.object, names.MACHINE_FINALIZER)
        return Done()

    async def _drain(self, observed: Observed) -> Wait | None:
        """Evict the pods of the node; None once none is left, or if the node is not to be drained."""
        now, infrastructure = self._scheme.clock.now(), observed.infrastructure_object
        has_begun = infrastructure is None or infrastructure.metadata.deletion_timestamp is not None
        if has_begun or _is_cluster_deleted(observed) or not draining.is_allowed(observed.machine, now):
            return None
        began = draining.started(observed.machine) or condition_list.timestamp(now)
        left = await self._evict(observed, began)
        if left is None:
            return None
        reported = status(observed, now, deleting=left.message, stage=DRAINING, drain_began=began)
        await self._scheme.writer.status(Machine.resource, observed.object, reported)
        until = draining.remaining(observed.machine, now)
        return left if until is None else replace(left, after=min(left.after or until, until))

    async def _evict(self, observed: Observed, began: str) -> Wait | None:
        """One attempt at a drain that began at this time; None once no pod is left."""
        if observed.workload is None:
            reference = observed.machine.status.node_ref
            if reference is None or not self._has_control_plane(observed):
                return None
            waiting = f"waiting for the cluster's API server to drain node {reference.name}"
            return Wait(DRAINING, waiting, draining.LATER)
        node = observed.node
        pods = draining.to_evict(observed.workload.pods(node.name)) if node is not None else []
        if node is None or not pods:
            return None
        try:
            left = await draining.drain(observed.workload.client, node, pods)
        except KubeError as error:
            return Wait(DRAINING, f"node {node.name} can't be drained: {error}", draining.LATER)
        return None if left.is_complete else Wait(DRAINING, left.message(began), left.again)

    async def _delete_node(self, observed: Observed) -> str:
        """Delete the machine's node. Return what prevents it for now; empty if nothing does."""
        if _is_cluster_deleted(observed):
            return ""
        obstacle = ""
        if observed.workload is None and (reference := observed.machine.status.node_ref) is not None:
            obstacle = f"waiting for the cluster's API server to delete node {reference.name}"
        elif observed.workload is not None and (node := observed.node) is not None:
            try:
                await observed.workload.client.delete(NODE, node.name, uid=node.metadata.uid)
            except NotFound:
                return ""
            except KubeError as error:
                obstacle = f"node {node.name} can't be deleted: {error}"
        return obstacle if obstacle and self._has_control_plane(observed) else ""

    def _has_control_plane(self, observed: Observed) -> bool:
        """True if the cluster has a control plane machine that is not being deleted: its API server may come back."""
        cluster = Key(observed.object.namespace, observed.machine.spec.cluster_name)
        return any(
            names.CONTROL_PLANE in machine.metadata.labels and machine.metadata.deletion_timestamp is None
            for machine in in_cluster(self._scheme.inventory.machines, cluster)
        )
