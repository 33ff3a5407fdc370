"""A simulator of any infrastructure provider, based on Cluster API's contract only.

An infrastructure cluster gets the address where its API server will listen. A machine boots for a while once its
bootstrap data exist, and then follows them: the first starts the API server, each registers its node.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster, Endpoint
from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import Machine, MachineAddress
from espalier.api.core import NODE, Secret
from espalier.api.meta import Condition
from espalier.api.resource import Key, Resource
from espalier.apiserver.http import AddressTaken
from espalier.apiserver.sqlite import Unusable
from espalier.clusterapi import contract, external_etcd, names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.infrastructure import (
    Infrastructure,
    InfrastructureCluster,
    InfrastructureClusterStatus,
    InfrastructureMachine,
    InfrastructureMachineStatus,
    Initialization,
)
from espalier.clusterapi.kubernetes_versions import newest
from espalier.clusterapi.network import machine_addresses, network_of
from espalier.clusterapi.objects import cluster_key, controller_of, is_paused, owning_cluster
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.simulator import bootstrap_data
from espalier.simulator.bootstrap_data import Kubeadm
from espalier.simulator.capi.certificates import authority_of, find_secret, secret_name
from espalier.simulator.capi.inventory import Scheme, in_cluster
from espalier.simulator.capi.reaching import CLOSED
from espalier.simulator.host_pool import HostPool
from espalier.simulator.workload_cluster import WorkloadCluster
from espalier.simulator.workloads import Workloads

CERTIFICATE_DAYS = 365
"""The validity of a control plane machine's certificates, as in kubeadm."""


def finalizer_of(resource: Resource) -> str:
    """The finalizer of an infrastructure kind, named by the providers' convention."""
    return f"{resource.kind.lower()}.{resource.group}"


def address_of(uid: str) -> str:
    """An address for a machine: from a private range, stable for each machine."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"172.{16 + digest[0] % 16}.{digest[1]}.{1 + digest[2] % 254}"


class InfrastructureClusters:
    """Reconciles the cluster kind of one provider."""

    def __init__(self, scheme: Scheme, workloads: Workloads, kinds: Infrastructure) -> None:
        self._scheme = scheme
        self._workloads = workloads
        self._kinds = kinds

    async def reconcile(self, key: Key) -> Outcome:
        """Give one cluster its address, keep its API server running, and remove both on deletion.

        The API server's data are on the machines, and outlive infrastructure that somebody deletes.
        """
        found = self._scheme.inventory.infrastructure_object(self._kinds.cluster.kind, key)
        if found is None or is_paused(found):
            return Done()
        resource = self._kinds.cluster
        writer = self._scheme.writer
        owner = self._owner(found)
        if found.metadata.deletion_timestamp is not None:
            if owner is not None and owner.metadata.deletion_timestamp is None:
                await self._workloads.stop(owner.key)
            else:
                await self._workloads.remove(cluster_key(found))
            await writer.remove_finalizer(resource, found, finalizer_of(resource))
            return Done()
        if owner is None:
            return Wait("WaitingForOwner", "waiting for the Cluster to own this infrastructure")
        typed = found.decode(InfrastructureCluster)
        found = await writer.add_finalizer(resource, found, finalizer_of(resource))
        endpoint = typed.spec.control_plane_endpoint
        if endpoint is None or not endpoint.host:
            asked = owner.decode(Cluster).spec.control_plane_endpoint
            is_new = asked is None or not asked.host
            if is_new and self._workloads.reach(owner.key) is None:  # a former cluster's data
                await self._workloads.remove(owner.key)
            endpoint = asked if asked is not None and asked.host else self._workloads.reserve(owner.key)
            address = {"controlPlaneEndpoint": msgspec.to_builtins(endpoint)}
            found = await writer.merge(resource, found, {"spec": address})
        problem = await self._keep_open(owner, endpoint)
        await self._report(found, typed, problem)
        return problem or Done()

    def _owner(self, found: Object) -> Object | None:
        owner = owning_cluster(found.metadata)
        return self._scheme.inventory.clusters.get(Key(found.namespace, owner.name)) if owner else None

    async def _keep_open(self, owner: Object, endpoint: Endpoint) -> Wait | None:
        """Run the API server of a cluster whose control plane has booted. Returns the obstacle, if there is one."""
        running = _booted_versions(self._scheme, self._kinds, owner.key)
        if not running:
            self._workloads.keep(endpoint)
            return None
        try:
            workload = await open_workload(self._scheme, self._workloads, self._kinds, owner.key, newest(running))
        except _OBSTACLES as error:
            return _blocked(error)
        workload.version = newest(running)
        return None

    async def _report(self, found: Object, typed: InfrastructureCluster, problem: Wait | None) -> None:
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
        await self._scheme.writer.status(self._kinds.cluster, found, status.of(self._kinds.contract))


Boots = Callable[[Machine], bool]
"""True if the machine boots successfully."""


def always(_machine: Machine) -> bool:
    """True for every machine."""
    return True


class InfrastructureMachines:
    """Reconciles the machine kind of one provider. Machines boot for `boot_seconds`, and not while `boots` returns
    False.
    """

    def __init__(
        self,
        scheme: Scheme,
        workloads: Workloads,
        kinds: Infrastructure,
        *,
        boot_seconds: float,
        boots: Boots = always,
    ) -> None:
        self._scheme = scheme
        self._workloads = workloads
        self._kinds = kinds
        self._boot_seconds = boot_seconds
        self._boots = boots
        self._hosts = HostPool(scheme, kinds)
        self._powered_on: dict[Key, tuple[str, float]] = {}
        """The power-on time by uid of each booting machine: machines reboot when this process restarts."""

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one machine: bootstrap data, boot, node."""
        found = self._scheme.inventory.infrastructure_object(self._kinds.machine.kind, key)
        if found is None or found.metadata.deletion_timestamp is not None:
            self._powered_on.pop(key, None)
            if found is None:
                await self._forget(key)
                await self._hosts.release(key)
            return Done()
        if is_paused(found):
            return Done()
        typed = found.decode(InfrastructureMachine)
        if typed.status.provisioned:
            if not typed.status.addresses:  # removed by hand: members of an etcd are known by them
                await self._report_running(found, typed)
            return Done()
        outcome = await self._boot(found, typed)
        if isinstance(outcome, Wait):
            await self._report(found, typed, ready=condition("Ready", False, outcome.reason, outcome.message))
        return outcome

    async def _forget(self, gone: Key) -> None:
        """Delete the node of deleted infrastructure, as cloud controller managers do.

        The Machine controller deletes the node too, unless somebody removed the Machine's finalizer before.
        """
        for workload in self._workloads.running(gone.namespace):
            node = workload.node(self._kinds.provider_id.format(cluster=workload.key.name, name=gone.name))
            if node is not None:
                with suppress(NotFound):
                    await workload.client.delete(NODE, node.name, uid=node.metadata.uid)

    async def _boot(self, found: Object, typed: InfrastructureMachine) -> Outcome:
        inventory = self._scheme.inventory
        owner = controller_of(found.metadata)
        owner_object = inventory.machines.get(Key(found.namespace, owner.name)) if owner else None
        if owner_object is None:
            return Wait("WaitingForOwner", "waiting for the Machine to own this infrastructure")
        machine = owner_object.decode(Machine)
        data_name = machine.spec.bootstrap.data_secret_name
        secret = inventory.secrets.get(Key(found.namespace, data_name)) if data_name else None
        if secret is None:
            return Wait("WaitingForBootstrapData", "waiting for the bootstrap data of the machine")
        if (waits := await self._hosts.take(found)) is not None:
            return waits
        remaining = self._still_boots(found)
        if remaining > 0:
            return Wait("Booting", "the machine is booting", after=remaining)
        if not self._boots(machine):
            return Wait("Booting", "the machine does not boot", after=1.0)
        if external_etcd.MACHINE_LABEL in machine.metadata.labels:
            return await self._provision(found, typed, Key(found.namespace, machine.spec.cluster_name))
        data = secret.decode(Secret).data.get("value", b"")
        kubeadm = bootstrap_data.read(data, version=machine.spec.version, node_name=machine.metadata.name)
        cluster = Key(found.namespace, machine.spec.cluster_name)
        try:
            workload = await self._reach(cluster, kubeadm)
        except _OBSTACLES as error:
            return _blocked(error)
        if workload is None:
            # A lost control plane needs somebody to act: no retry each second.
            after = 30.0 if (lost := self._lost(cluster)) else 1.0
            return Wait("ControlPlaneUnreachable", lost or "waiting for the API server of the cluster", after=after)
        return await self._join(found, typed, machine, kubeadm, workload)

    def _still_boots(self, found: Object) -> float:
        """Seconds until the machine has booted; the first call powers it on."""
        now = self._scheme.clock.monotonic()
        uid, since = self._powered_on.get(found.key, ("", now))
        if uid != found.metadata.uid:
            since = now
            self._powered_on[found.key] = (found.metadata.uid, now)
        return since + self._boot_seconds - now

    async def _reach(self, cluster: Key, kubeadm: Kubeadm) -> WorkloadCluster | None:
        """The API server of the cluster; control plane machines start it.

        The first machine starts with an empty store. One that joins after all others are gone uses the existing store.
        """
        workload = self._workloads.reach(cluster)
        joins = kubeadm.control_plane and self._workloads.holds(cluster)
        if kubeadm.init or (workload is None and joins):
            workload = await open_workload(
                self._scheme, self._workloads, self._kinds, cluster, kubeadm.version, may_be_new=kubeadm.init
            )
        if kubeadm.init and workload is not None:
            await workload.install(kubeadm)
        return workload

    def _lost(self, cluster: Key) -> str:
        """The message when the API server can't run any more because its data are lost."""
        if self._workloads.holds(cluster) or _booted_versions(self._scheme, self._kinds, cluster):
            return ""
        return f"the data of the API server of cluster {cluster.name} is lost: delete the cluster and create it again"

    async def _join(
        self,
        found: Object,
        typed: InfrastructureMachine,
        machine: Machine,
        kubeadm: Kubeadm,
        workload: WorkloadCluster,
    ) -> Outcome:
        provider_id = self._kinds.provider_id.format(cluster=workload.key.name, name=found.name)
        address = address_of(typed.metadata.uid)
        await workload.register(kubeadm, provider_id=provider_id, address=address)
        self._powered_on.pop(found.key, None)
        if kubeadm.control_plane:
            await self._report_expiry(machine)
        found = await self._scheme.writer.merge(self._kinds.machine, found, {"spec": {"providerID": provider_id}})
        await self._report_running(found, typed)
        return Done()

    async def _provision(self, found: Object, typed: InfrastructureMachine, cluster: Key) -> Outcome:
        """Provision a machine that does not become a node: it runs, and has an address."""
        self._powered_on.pop(found.key, None)
        provider_id = self._kinds.provider_id.format(cluster=cluster.name, name=found.name)
        found = await self._scheme.writer.merge(self._kinds.machine, found, {"spec": {"providerID": provider_id}})
        await self._report_running(found, typed)
        return Done()

    async def _report_expiry(self, machine: Machine) -> None:
        """Annotate when the machine's certificates expire: Cluster API would connect to find out, which is impossible
        here.
        """
        reference = machine.spec.bootstrap.config_ref
        configs = self._scheme.inventory.configs
        config = configs.get(Key(machine.metadata.namespace, reference.name)) if reference else None
        if config is not None and names.CERTIFICATES_EXPIRY not in config.metadata.annotations:
            expiry = self._scheme.clock.now() + timedelta(days=CERTIFICATE_DAYS)
            annotations = {names.CERTIFICATES_EXPIRY: condition_list.timestamp(expiry)}
            await self._scheme.writer.merge(KubeadmConfig.resource, config, {"metadata": {"annotations": annotations}})

    async def _report_running(self, found: Object, typed: InfrastructureMachine) -> None:
        owner = controller_of(found.metadata)
        addresses = machine_addresses(owner.name if owner else found.name, address_of(typed.metadata.uid))
        ready = condition("Ready", True, "Ready")
        await self._report(found, typed, ready=ready, addresses=msgspec.convert(addresses, list[MachineAddress]))

    async def _report(
        self, found: Object, typed: InfrastructureMachine, *, ready: Condition, addresses: Sequence[MachineAddress] = ()
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
        await self._scheme.writer.status(self._kinds.machine, found, status.of(self._kinds.contract))


_OBSTACLES = (OSError, ValueError, Unusable)
"""Errors for which an API server can't run until somebody acts."""


def _blocked(error: Exception) -> Wait:
    why = f"the API server does not run: {error}"
    if isinstance(error, AddressTaken):
        return Wait(CLOSED, f"{why}; it starts automatically when the address is free", after=_TRY_AGAIN)
    if isinstance(error, Unusable):
        why += (
            "; restore the file from a backup, or repair it, and it starts automatically within seconds; or delete "
            "the cluster and create it again"
        )
    return Wait(contract.CONTROL_PLANE_BROKEN, why, after=_TRY_AGAIN)


_TRY_AGAIN = 5.0


def _booted_versions(scheme: Scheme, kinds: Infrastructure, cluster: Key) -> list[str]:
    """Kubernetes versions of the control plane machines that have booted."""
    booted = {
        machine.name
        for machine in in_cluster(scheme.inventory.infrastructure[kinds.machine.kind], cluster)
        if names.CONTROL_PLANE in machine.metadata.labels and machine.decode(InfrastructureMachine).status.provisioned
    }
    machines = (machine.decode(Machine) for machine in in_cluster(scheme.inventory.machines, cluster))
    return [machine.spec.version for machine in machines if machine.spec.infrastructure_ref.name in booted]


async def open_workload(
    scheme: Scheme,
    workloads: Workloads,
    kinds: Infrastructure,
    cluster: Key,
    version: str,
    *,
    may_be_new: bool = False,
) -> WorkloadCluster:
    """The API server of a cluster, started if it does not run yet; nodes of deleted machines are removed.

    Raises `AddressTaken` when another process listens at its address, `ValueError` when it has no address or CA,
    `Unusable` and `OSError` when its data are unreadable or missing: an empty store (`may_be_new`) is only allowed
    before the control plane is initialized.
    """
    running = workloads.reach(cluster)
    if running is not None:
        return running
    found = scheme.inventory.clusters.get(cluster)
    if found is None:
        raise ValueError(f"Cluster {cluster} does not exist")
    typed = found.decode(Cluster)
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
    provider = kinds.provider_id.partition("{")[0]
    machines = scheme.inventory.infrastructure[kinds.machine.kind].list(cluster.namespace)
    present = {kinds.provider_id.format(cluster=cluster.name, name=machine.name) for machine in machines}
    await workload.forget(lambda provider_id: provider_id in present or not provider_id.startswith(provider))
    return workload
