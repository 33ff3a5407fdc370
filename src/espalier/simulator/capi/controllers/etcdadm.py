"""The etcdadm controllers: members of an external etcd, created and replaced one at a time.

No etcd runs: a booted machine counts as a member.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster, ContractReference
from espalier.api.capi.etcdadm import EtcdadmCluster, EtcdadmClusterStatus, EtcdadmConfig, EtcdadmConfigStatus
from espalier.api.capi.machine import Bootstrap, Machine, MachineSpec
from espalier.api.core import SECRET
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.clusterapi import external_etcd, names
from espalier.clusterapi.changes.machine_change import CLONED_FROM_NAME
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.contract import reference
from espalier.clusterapi.infrastructures.infrastructure import GROUP as INFRASTRUCTURE
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureMachine
from espalier.clusterapi.objects import is_paused, new_object, owner_reference, owning_cluster
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.simulator.capi.inventory import Scheme, owned_by
from espalier.simulator.capi.machine_parts import create_missing_parts, machine_body

RESOURCE = EtcdadmCluster.resource
FINALIZER = "etcdcluster.cluster.x-k8s.io"
_PORT = 2379
_UP_TO_DATE = "EtcdMachinesSpecUpToDate"


@dataclass(frozen=True)
class Member:
    """A machine of an external etcd, with its bootstrap configuration and infrastructure machine."""

    object: Object
    machine: Machine
    config: EtcdadmConfig | None
    infrastructure: Object | None

    @property
    def address(self) -> str:
        """The machine's internal IP address; empty until it has booted."""
        status = self.infrastructure.decode(InfrastructureMachine).status if self.infrastructure else None
        if status is None or not status.provisioned:
            return ""
        return next((address.address for address in status.addresses if address.type == "InternalIP"), "")

    @property
    def is_deleted(self) -> bool:
        """True if the machine's deletion was requested."""
        return self.machine.metadata.deletion_timestamp is not None

    def is_up_to_date(self, etcd: EtcdadmCluster) -> bool:
        """True if the machine matches the templates in the spec."""
        cloned = self.infrastructure.metadata.annotations.get(CLONED_FROM_NAME) if self.infrastructure else None
        same = cloned in (None, etcd.spec.infrastructure_template.name)
        return same and (self.config is None or self.config.spec == etcd.spec.etcdadm_config_spec)


@dataclass(frozen=True)
class Observed:
    """An EtcdadmCluster, its Cluster and its members, oldest first."""

    object: Object
    etcd: EtcdadmCluster
    cluster: Object
    template: Object | None
    members: tuple[Member, ...]

    @property
    def replicas(self) -> int:
        """The desired number of members."""
        return 1 if self.etcd.spec.replicas is None else self.etcd.spec.replicas

    @property
    def outdated(self) -> list[Member]:
        """The members that differ from the templates, without those being deleted."""
        return [member for member in self.members if not member.is_deleted and not member.is_up_to_date(self.etcd)]

    @property
    def endpoints(self) -> list[str]:
        """The client URLs of the booted members, sorted, without those being deleted."""
        addresses = (member.address for member in self.members if not member.is_deleted)
        return sorted(f"https://{address}:{_PORT}" for address in addresses if address)

    @property
    def is_complete(self) -> bool:
        """True if all desired members exist and are up to date, and no others exist."""
        return len(self.members) == self.replicas == len(self.endpoints) and not self.outdated

    @property
    def was_outdated(self) -> bool:
        """True if members have ever been outdated. Before, an upgrading annotation announces a rollout to come."""
        return condition_list.get(self.etcd.status.conditions, _UP_TO_DATE) is not None


class EtcdadmClusters:
    """Reconciles EtcdadmClusters."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.etcds.get(key)
        owner = owning_cluster(object_.metadata) if object_ is not None else None
        cluster = inventory.clusters.get(Key(key.namespace, owner.name)) if owner else None
        if object_ is None or cluster is None or is_paused(object_) or is_paused(cluster):
            return None
        etcd = object_.decode(EtcdadmCluster)
        template = etcd.spec.infrastructure_template
        machines = owned_by(inventory.machines, object_.metadata.uid)
        machines.sort(key=lambda machine: (machine.metadata.creation_timestamp or "", machine.name))
        return Observed(
            object_,
            etcd,
            cluster,
            inventory.infrastructure_object(template.kind, Key(key.namespace, template.name)),
            tuple(self._member(machine) for machine in machines),
        )

    def _member(self, object_: Object) -> Member:
        inventory, machine = self._scheme.inventory, object_.decode(Machine)
        config = inventory.etcd_configs.get(object_.key)
        kind = machine.spec.infrastructure_ref.kind
        infrastructure = inventory.infrastructure_object(kind, object_.key)
        return Member(object_, machine, config.decode(EtcdadmConfig) if config else None, infrastructure)

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one EtcdadmCluster."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        writer = self._scheme.writer
        if observed.etcd.metadata.deletion_timestamp is not None:
            for member in observed.members:
                await writer.delete(Machine.resource, member.object, found_by_owner)
            if observed.members:
                return Wait("Deleting", f"{len(observed.members)} machines are being deleted")
            await writer.remove_finalizer(RESOURCE, observed.object, FINALIZER)
            return Done()
        current = await writer.add_finalizer(RESOURCE, observed.object, FINALIZER)
        await self._adopt(observed)
        for member in observed.members:
            await self._create_missing_parts(observed, member)
        await self._scale(observed)
        is_rolled_out = observed.is_complete and observed.was_outdated
        if is_rolled_out and external_etcd.UPGRADING in current.metadata.annotations:
            change = {"metadata": {"annotations": {external_etcd.UPGRADING: None}}}
            current = await writer.merge(RESOURCE, current, change)
        await writer.status(RESOURCE, current, self._status(observed))
        return Done()

    async def _adopt(self, observed: Observed) -> None:
        """Set the cluster as owner of the template."""
        template = observed.template
        resource = self._scheme.inventory.resource(template.kind) if template is not None else None
        if template is not None and resource is not None:
            owner = owner_reference(Cluster.resource, observed.cluster, controller=False)
            await self._scheme.writer.add_owner(resource, template, owner)

    async def _scale(self, observed: Observed) -> None:
        """Create or delete one member, unless an earlier change is still in progress."""
        staying = [member for member in observed.members if not member.is_deleted]
        if len(staying) != len(observed.endpoints) or len(staying) != len(observed.members):
            return  # a member boots or is being deleted
        provisioned = observed.cluster.decode(Cluster).status.initialization.infrastructure_provisioned
        surplus = len(staying) - observed.replicas
        if surplus > 0:
            removed = (observed.outdated or staying)[0]
            await self._scheme.writer.delete(Machine.resource, removed.object, found_by_owner)
        elif (surplus < 0 or observed.outdated) and provisioned and observed.template is not None:
            await self._create(observed)

    async def _create(self, observed: Observed) -> None:
        key = Key(observed.object.namespace, names.suffixed(observed.object.name, self._scheme.rng))
        template = observed.etcd.spec.infrastructure_template
        spec = MachineSpec(
            cluster_name=observed.cluster.name,
            bootstrap=Bootstrap(config_ref=reference(EtcdadmConfig.resource, key.name)),
            infrastructure_ref=ContractReference(api_group=INFRASTRUCTURE, kind=template.kind, name=template.name),
        )
        labels = {names.CLUSTER: observed.cluster.name, external_etcd.MACHINE_LABEL: observed.object.name}
        body = machine_body(key, owner_reference(RESOURCE, observed.object), spec, labels, {})
        created = await self._scheme.writer.create(Machine.resource, body)
        if created is not None:
            await self._create_missing_parts(observed, Member(created, created.decode(Machine), None, None))

    async def _create_missing_parts(self, observed: Observed, member: Member) -> None:
        """Create the missing parts of a machine: infrastructure machine, EtcdadmConfig and bootstrap data."""
        if member.is_deleted:
            return
        writer, object_ = self._scheme.writer, member.object
        await create_missing_parts(
            self._scheme, object_, member.machine, infrastructure_template=observed.template, config=None
        )
        owner = msgspec.to_builtins(owner_reference(Machine.resource, object_))
        metadata: Tree = {
            "name": object_.name,
            "namespace": object_.namespace,
            "labels": {names.CLUSTER: observed.cluster.name},
            "ownerReferences": [owner],
        }
        if member.config is None:
            spec = msgspec.to_builtins(observed.etcd.spec.etcdadm_config_spec)
            await writer.create(EtcdadmConfig.resource, new_object(EtcdadmConfig.resource, metadata, spec=spec))
            return
        if member.machine.spec.bootstrap.data_secret_name is None:
            data = {"value": base64.b64encode(b"#cloud-config\n").decode()}
            await writer.create(SECRET, new_object(SECRET, metadata, type=names.CLUSTER_SECRET, data=data))
            status = EtcdadmConfigStatus(data_secret_name=object_.name, ready=True)
            config = self._scheme.inventory.etcd_configs.get(object_.key)
            if config is not None:
                await writer.status(EtcdadmConfig.resource, config, status)
            await writer.merge(Machine.resource, object_, {"spec": {"bootstrap": {"dataSecretName": object_.name}}})

    def _up_to_date(self, observed: Observed) -> Iterator[Condition]:
        if observed.outdated or observed.was_outdated:
            is_up_to_date = not observed.outdated
            yield condition(_UP_TO_DATE, is_up_to_date, "UpToDate" if is_up_to_date else "RollingUpdateInProgress")

    def _status(self, observed: Observed) -> EtcdadmClusterStatus:
        ready = observed.is_complete
        generation = observed.etcd.metadata.generation
        initialized = bool(observed.endpoints) or observed.etcd.status.initialized
        conditions = stated(
            observed.etcd.status.conditions,
            [
                condition("Initialized", initialized, "Initialized" if initialized else "NotInitialized"),
                condition("EtcdMachinesReady", ready, "Ready" if ready else "NotReady"),
                *self._up_to_date(observed),
            ],
            now=self._scheme.clock.now(),
            generation=generation,
        )
        return EtcdadmClusterStatus(
            conditions=conditions,
            creation_complete=ready or observed.etcd.status.creation_complete,
            endpoints=",".join(observed.endpoints),
            initialized=initialized,
            observed_generation=generation,
            ready=ready,
            replicas=len(observed.members),
            selector=f"{external_etcd.MACHINE_LABEL}={observed.object.name}",
        )
