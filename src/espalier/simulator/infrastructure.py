"""A simulator of any infrastructure provider, based on Cluster API's contract only.

An infrastructure cluster gets the address where its API server will listen. A machine boots for a while once its
bootstrap data exist, and then follows them: the first starts the API server, each registers its node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from espalier.api.capi.cluster import Cluster, Endpoint
from espalier.api.capi.machine import Machine, MachineAddress
from espalier.api.core import NODE, Secret
from espalier.api.meta import Condition
from espalier.api.resource import Key, Resource
from espalier.apiserver.http import AddressTaken
from espalier.apiserver.storage.sqlite import Unusable
from espalier.clusterapi import contract, external_etcd, names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.infrastructures.infrastructure import (
    Infrastructure,
    InfrastructureCluster,
    InfrastructureClusterStatus,
    InfrastructureMachine,
    InfrastructureMachineStatus,
    Initialization,
)
from espalier.clusterapi.kubernetes_versions import newest
from espalier.clusterapi.machines.network import machine_addresses, network_of
from espalier.clusterapi.objects import cluster_key, controller_of, is_cluster_paused, is_paused, owning_cluster
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.reconciler import is_moved_away
from espalier.simulator import bootstrap_data
from espalier.simulator.bootstrap_data import Kubeadm
from espalier.simulator.capi.certificates import authority_of, find_secret, secret_name
from espalier.simulator.capi.inventory import Scheme, in_cluster
from espalier.simulator.capi.reaching import CLOSED
from espalier.simulator.host_pool import HostPool
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads


def finalizer_of(resource: Resource) -> str:
    """The finalizer of an infrastructure kind, named by the providers' convention."""
    return f"{resource.kind.lower()}.{resource.group}"


def address_of(uid: str) -> str:
    """The IP address of a machine: a hash of its uid, within 172.16.0.0/12."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"172.{16 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"


class InfrastructureClusters:
    """Reconciles the cluster kind of one provider."""

    def __init__(self, scheme: Scheme, workloads: Workloads, kinds: Infrastructure) -> None:
        self._scheme = scheme
        self._workloads = workloads
        self._kinds = kinds

    async def reconcile(self, key: Key) -> Outcome:
        """Set the endpoint of one cluster, keep its API server running, and remove both on deletion.

        While the Cluster stays, the API server's data are kept: they are on the machines.
        """
        object_ = self._scheme.inventory.infrastructure_object(self._kinds.cluster.kind, key)
        if object_ is None or is_paused(object_) or is_moved_away(object_):
            return Done()
        resource = self._kinds.cluster
        writer = self._scheme.writer
        owner = self._owner(object_)
        if owner is not None and is_cluster_paused(owner):
            return await self._keep_running(object_, owner)
        if object_.metadata.deletion_timestamp is not None:
            if owner is not None and owner.metadata.deletion_timestamp is None:
                await self._workloads.stop(owner.key)
            else:
                await self._workloads.remove(cluster_key(object_))
            await writer.remove_finalizer(resource, object_, finalizer_of(resource))
            return Done()
        if owner is None:
            return Wait("WaitingForOwner", "waiting for the Cluster to own this infrastructure")
        typed = object_.decode(InfrastructureCluster)
        object_ = await writer.add_finalizer(resource, object_, finalizer_of(resource))
        endpoint = typed.spec.control_plane_endpoint
        if endpoint is None or not endpoint.host:
            configured = owner.decode(Cluster).spec.control_plane_endpoint
            is_new = configured is None or not configured.host
            if is_new and self._workloads.reach(owner.key) is None:  # data of an earlier cluster with this name
                await self._workloads.remove(owner.key)
            endpoint = configured if configured is not None and configured.host else self._workloads.reserve(owner.key)
            address = {"controlPlaneEndpoint": msgspec.to_builtins(endpoint)}
            object_ = await writer.merge(resource, object_, {"spec": address})
        problem = await self._run_api_server(owner, endpoint)
        await self._report(object_, typed, problem)
        return problem or Done()

    async def _keep_running(self, object_: Object, owner: Object) -> Outcome:
        """For a paused cluster: its API server runs on the machines, whether or not anybody reconciles them."""
        endpoint = object_.decode(InfrastructureCluster).spec.control_plane_endpoint
        if object_.metadata.deletion_timestamp is not None or endpoint is None or not endpoint.host:
            return Done()
        return await self._run_api_server(owner, endpoint) or Done()

    def _owner(self, object_: Object) -> Object | None:
        owner = owning_cluster(object_.metadata)
        return self._scheme.inventory.clusters.get(Key(object_.namespace, owner.name)) if owner else None

    async def _run_api_server(self, owner: Object, endpoint: Endpoint) -> Wait | None:
        """Run the API server of a cluster once a control plane machine has booted. Return a `Wait` if it can't run."""
        running = _booted_versions(self._scheme, self._kinds, owner.key)
        if not running:
            self._workloads.mark_port_used(endpoint)
            return None
        try:
            workload = await run_workload_cluster(
                self._scheme, self._workloads, self._kinds, owner.key, newest(running)
            )
        except _OBSTACLE_ERRORS as error:
            return _obstacle(error)
        workload.version = newest(running)
        return None

    async def _report(self, object_: Object, typed: InfrastructureCluster, problem: Wait | None) -> None:
        ready = (
            condition("Ready", False, problem.reason, problem.message) if problem else condition("Ready", True, "Ready")
        )
        generation = typed.metadata.generation
        conditions = stated(typed.status.conditions, [ready], now=self._scheme.clock.now(), generation=generation)
        status = InfrastructureClusterStatus(
            initialization=Initialization(provisioned=True),
            failure_domains=typed.spec.failure_domains,
            conditions=conditions,
        )
        await self._scheme.writer.status(self._kinds.cluster, object_, status.of(self._kinds.contract))


Boots = Callable[[Machine], bool]
"""Decides whether a machine boots: not while it returns False."""


def always_boots(_machine: Machine) -> bool:
    """True for every machine."""
    return True


class InfrastructureMachines:
    """Reconciles the machine kind of one provider.

    Machines boot for `boot_seconds`, and not while `boots` returns False.
    """

    def __init__(
        self,
        scheme: Scheme,
        workloads: Workloads,
        kinds: Infrastructure,
        *,
        boot_seconds: float,
        boots: Boots = always_boots,
    ) -> None:
        self._scheme = scheme
        self._workloads = workloads
        self._kinds = kinds
        self._boot_seconds = boot_seconds
        self._boots = boots
        self._hosts = HostPool(scheme, kinds)
        self._powered_on: dict[Key, tuple[str, float]] = {}
        """The uid and monotonic power-on time of each booting machine: in memory only, a restart boots them again."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one machine: bootstrap data, boot, node; on deletion the node goes.

        Only a deletion that waits for this controller's finalizer ends a machine. An object that is gone may have been
        moved to another management cluster: its machine goes on running.
        """
        object_ = self._scheme.inventory.infrastructure_object(self._kinds.machine.kind, key)
        if object_ is None:
            self._powered_on.pop(key, None)
            return Done()
        cluster = self._scheme.inventory.clusters.get(cluster_key(object_))
        if is_paused(object_) or is_moved_away(object_) or (cluster is not None and is_cluster_paused(cluster)):
            return Done()
        if object_.metadata.deletion_timestamp is not None:
            await self._delete(object_)
            return Done()
        if cluster is None:  # nobody knows whether it is paused
            return Done()
        resource = self._kinds.machine
        object_ = await self._scheme.writer.add_finalizer(resource, object_, finalizer_of(resource))
        typed = object_.decode(InfrastructureMachine)
        if typed.status.provisioned:
            if not typed.status.addresses:  # removed by hand; etcd members need them
                await self._report_running(object_, typed)
            return Done()
        outcome = await self._boot(object_, typed)
        if isinstance(outcome, Wait):
            await self._report(object_, typed, ready=condition("Ready", False, outcome.reason, outcome.message))
        return outcome

    async def _delete(self, object_: Object) -> None:
        resource = self._kinds.machine
        if finalizer_of(resource) not in object_.metadata.finalizers:
            return
        self._powered_on.pop(object_.key, None)
        await self._delete_node(object_.key)
        await self._hosts.release(object_.key)
        await self._scheme.writer.remove_finalizer(resource, object_, finalizer_of(resource))

    async def _delete_node(self, machine: Key) -> None:
        """Delete the node of a deleted infrastructure machine, as cloud controller managers do.

        The Machine controller deletes the node too, unless somebody removed the Machine's finalizer before.
        """
        for workload in self._workloads.running(machine.namespace):
            node = workload.node(self._kinds.provider_id.format(cluster=workload.key.name, name=machine.name))
            if node is not None:
                with suppress(NotFound):
                    await workload.client.delete(NODE, node.name, uid=node.metadata.uid)

    async def _boot(self, object_: Object, typed: InfrastructureMachine) -> Outcome:
        inventory = self._scheme.inventory
        owner = controller_of(object_.metadata)
        owner_object = inventory.machines.get(Key(object_.namespace, owner.name)) if owner else None
        if owner_object is None:
            return Wait("WaitingForOwner", "waiting for the Machine to own this infrastructure")
        machine = owner_object.decode(Machine)
        data_name = machine.spec.bootstrap.data_secret_name
        secret = inventory.secrets.get(Key(object_.namespace, data_name)) if data_name else None
        if secret is None:
            return Wait("WaitingForBootstrapData", "waiting for the bootstrap data of the machine")
        if (wait := await self._hosts.take(object_)) is not None:
            return wait
        remaining = self._boot_remaining(object_)
        if remaining > 0:
            return Wait("Booting", "the machine is booting", after=remaining)
        if not self._boots(machine):
            return Wait("Booting", "the machine does not boot", after=1.0)
        if external_etcd.MACHINE_LABEL in machine.metadata.labels:
            return await self._provision(object_, typed, Key(object_.namespace, machine.spec.cluster_name))
        data = secret.decode(Secret).data.get("value", b"")
        kubeadm = bootstrap_data.read(data, version=machine.spec.version, node_name=machine.metadata.name)
        cluster = Key(object_.namespace, machine.spec.cluster_name)
        try:
            workload = await self._api_server(cluster, kubeadm)
        except _OBSTACLE_ERRORS as error:
            return _obstacle(error)
        if workload is None:
            # A lost control plane needs somebody to act: no retry each second.
            after = 30.0 if (message := self._lost_data_message(cluster)) else 1.0
            return Wait("ControlPlaneUnreachable", message or "waiting for the API server of the cluster", after=after)
        return await self._join_cluster(object_, typed, machine, kubeadm, workload)

    def _boot_remaining(self, object_: Object) -> float:
        """Seconds until the machine has booted; the first call powers it on."""
        now = self._scheme.clock.monotonic()
        uid, since = self._powered_on.get(object_.key, ("", now))
        if uid != object_.metadata.uid:
            since = now
            self._powered_on[object_.key] = (object_.metadata.uid, now)
        return since + self._boot_seconds - now

    async def _api_server(self, cluster: Key, kubeadm: Kubeadm) -> WorkloadCluster | None:
        """The API server of the cluster; control plane machines start it.

        The first machine starts with an empty store. One that joins after all others are gone uses the existing store.
        """
        workload = self._workloads.reach(cluster)
        joins = kubeadm.control_plane and self._workloads.has_data(cluster)
        if kubeadm.init or (workload is None and joins):
            workload = await run_workload_cluster(
                self._scheme, self._workloads, self._kinds, cluster, kubeadm.version, may_be_new=kubeadm.init
            )
        if kubeadm.init and workload is not None:
            await workload.install(kubeadm)
        return workload

    def _lost_data_message(self, cluster: Key) -> str:
        """A message if the API server can't run any more because its data are lost; empty otherwise."""
        if self._workloads.has_data(cluster) or _booted_versions(self._scheme, self._kinds, cluster):
            return ""
        return f"the data of the API server of cluster {cluster.name} is lost: delete the cluster and create it again"

    async def _join_cluster(
        self,
        object_: Object,
        typed: InfrastructureMachine,
        machine: Machine,
        kubeadm: Kubeadm,
        workload: WorkloadCluster,
    ) -> Outcome:
        provider_id = self._kinds.provider_id.format(cluster=workload.key.name, name=object_.name)
        address = address_of(typed.metadata.uid)
        await workload.register(kubeadm, provider_id=provider_id, address=address)
        self._powered_on.pop(object_.key, None)
        object_ = await self._scheme.writer.merge(self._kinds.machine, object_, {"spec": {"providerID": provider_id}})
        await self._report_running(object_, typed)
        return Done()

    async def _provision(self, object_: Object, typed: InfrastructureMachine, cluster: Key) -> Outcome:
        """Provision a machine that does not become a node, as a member of an external etcd."""
        self._powered_on.pop(object_.key, None)
        provider_id = self._kinds.provider_id.format(cluster=cluster.name, name=object_.name)
        object_ = await self._scheme.writer.merge(self._kinds.machine, object_, {"spec": {"providerID": provider_id}})
        await self._report_running(object_, typed)
        return Done()

    async def _report_running(self, object_: Object, typed: InfrastructureMachine) -> None:
        owner = controller_of(object_.metadata)
        addresses = machine_addresses(owner.name if owner else object_.name, address_of(typed.metadata.uid))
        ready = condition("Ready", True, "Ready")
        await self._report(object_, typed, ready=ready, addresses=msgspec.convert(addresses, list[MachineAddress]))

    async def _report(
        self,
        object_: Object,
        typed: InfrastructureMachine,
        *,
        ready: Condition,
        addresses: Sequence[MachineAddress] = (),
    ) -> None:
        conditions = stated(
            typed.status.conditions,
            [ready],
            now=self._scheme.clock.now(),
            generation=typed.metadata.generation,
        )
        status = InfrastructureMachineStatus(
            initialization=Initialization(provisioned=ready.status == "True"),
            addresses=list(addresses),
            failure_domain=typed.spec.failure_domain,
            conditions=conditions,
        )
        await self._scheme.writer.status(self._kinds.machine, object_, status.of(self._kinds.contract))


_OBSTACLE_ERRORS = (OSError, ValueError, Unusable)
"""Errors for which an API server can't run until somebody acts."""


def _obstacle(error: Exception) -> Wait:
    message = f"the API server does not run: {error}"
    if isinstance(error, AddressTaken):
        return Wait(CLOSED, f"{message}; it starts automatically when the address is free", after=_RETRY_SECONDS)
    if isinstance(error, Unusable):
        message += (
            "; restore the file from a backup, or repair it, and it starts automatically within seconds; or delete "
            "the cluster and create it again"
        )
    return Wait(contract.CONTROL_PLANE_BROKEN, message, after=_RETRY_SECONDS)


_RETRY_SECONDS = 5.0


def _booted_versions(scheme: Scheme, kinds: Infrastructure, cluster: Key) -> list[str]:
    """Kubernetes versions of the control plane machines that have booted."""
    booted = {
        machine.name
        for machine in in_cluster(scheme.inventory.infrastructure[kinds.machine.kind], cluster)
        if names.CONTROL_PLANE in machine.metadata.labels and machine.decode(InfrastructureMachine).status.provisioned
    }
    machines = (machine.decode(Machine) for machine in in_cluster(scheme.inventory.machines, cluster))
    return [machine.spec.version for machine in machines if machine.spec.infrastructure_ref.name in booted]


async def run_workload_cluster(
    scheme: Scheme,
    workloads: Workloads,
    kinds: Infrastructure,
    cluster: Key,
    version: str,
    *,
    may_be_new: bool = False,
) -> WorkloadCluster:
    """The API server of a cluster, started if it does not run yet; nodes of deleted machines are removed then, unless
    the cluster is paused.

    Raises `AddressTaken` when another process listens at its address, `ValueError` when it has no address or CA,
    `Unusable` and `OSError` when its data are unreadable or missing: an empty store (`may_be_new`) is only allowed
    before the control plane is initialized.
    """
    running = workloads.reach(cluster)
    if running is not None:
        return running
    object_ = scheme.inventory.clusters.get(cluster)
    if object_ is None:
        raise ValueError(f"Cluster {cluster} does not exist")
    typed = object_.decode(Cluster)
    authority = await find_secret(scheme, cluster, "ca")
    if authority is None:
        name = Key(cluster.namespace, secret_name(cluster.name, "ca"))
        raise ValueError(
            f"Secret {name} with its CA is missing; restore it from a backup, and it starts "
            "automatically within a minute; or delete the cluster and create it again"
        )
    if typed.spec.control_plane_endpoint is None:
        raise ValueError(f"cluster {cluster} has no address")
    workload = await workloads.open(
        cluster,
        typed.spec.control_plane_endpoint,
        authority=authority_of(authority.decode(Secret), scheme.keys),
        version=version,
        network=network_of(typed),
        is_new=may_be_new and not contract.is_control_plane_initialized(typed),
    )
    if is_cluster_paused(object_):  # the objects of its machines may be at another management cluster
        return workload
    provider = kinds.provider_id.partition("{")[0]
    machines = scheme.inventory.infrastructure[kinds.machine.kind].list(cluster.namespace)
    present = {kinds.provider_id.format(cluster=cluster.name, name=machine.name) for machine in machines}
    await workload.delete_orphaned_nodes(
        lambda provider_id: provider_id in present or not provider_id.startswith(provider)
    )
    return workload
