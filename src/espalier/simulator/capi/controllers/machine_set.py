"""The MachineSet controller: creates and deletes machines until there are `replicas` of one template."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet, MachineSetStatus
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.machines import removal
from espalier.clusterapi.machines.remediation import awaits_remediation
from espalier.clusterapi.objects import cluster_key, controller_of, is_paused, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.concurrency import together
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.simulator.capi.inventory import Scheme, owned_by
from espalier.simulator.capi.machine_parts import (
    adopt,
    create_missing_parts,
    in_place_fields,
    is_current,
    machine_body,
    orphans,
)
from espalier.simulator.capi.states.rollup import Rollup, deleting_condition


@dataclass(frozen=True)
class Observed:
    """A MachineSet, its deployment and machines, and the templates of new machines."""

    object: Object
    set: MachineSet
    machines: tuple[tuple[Object, Machine], ...]
    deployment: MachineDeployment | None
    infrastructure_template: Object | None
    config_template: Object | None
    orphans: tuple[Object, ...]
    """The machines to adopt."""
    now: datetime

    @property
    def staying(self) -> list[tuple[Object, Machine]]:
        """Machines that are not being deleted."""
        return [pair for pair in self.machines if pair[1].metadata.deletion_timestamp is None]

    @cached_property
    def is_current(self) -> bool:
        """True if its machines are up to date: the set has the template of its deployment, or no deployment."""
        return self.deployment is None or is_current(self.set, self.deployment, self.now)


class MachineSets:
    """Reconciles MachineSets."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.sets.get(key)
        if object_ is None or is_paused(object_):
            return None
        cluster = inventory.clusters.get(cluster_key(object_))
        if cluster is None or is_paused(cluster) or cluster.decode(Cluster).spec.paused:
            return None
        typed = object_.decode(MachineSet)
        owner = controller_of(object_.metadata)
        deployment = inventory.deployments.get(Key(key.namespace, owner.name)) if owner else None
        template = typed.spec.template.spec
        config = template.bootstrap.config_ref
        machines = owned_by(inventory.machines, object_.metadata.uid)
        return Observed(
            object=object_,
            set=typed,
            machines=tuple((machine, machine.decode(Machine)) for machine in machines),
            deployment=deployment.decode(MachineDeployment) if deployment else None,
            infrastructure_template=inventory.infrastructure_object(
                template.infrastructure_ref.kind, Key(key.namespace, template.infrastructure_ref.name)
            ),
            config_template=inventory.config_templates.get(Key(key.namespace, config.name)) if config else None,
            orphans=orphans(
                self._scheme, cluster.key, lambda machine: typed.spec.selector.selects(machine.metadata.labels)
            ),
            now=self._scheme.clock.now(),
        )

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one MachineSet."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        if observed.set.metadata.deletion_timestamp is not None:
            return await self._delete(observed)
        writer = self._scheme.writer
        current = await writer.add_finalizer(MachineSet.resource, observed.object, names.SET_FINALIZER)
        if observed.orphans:
            return await adopt(self._scheme, observed.orphans, owner_reference(MachineSet.resource, observed.object))
        await self._scale(observed)
        await together(self._update_in_place(observed, *owned) for owned in observed.staying)
        await writer.status(MachineSet.resource, current, self._status(observed, None))
        return Done()

    async def _scale(self, observed: Observed) -> None:
        replicas = 1 if observed.set.spec.replicas is None else observed.set.spec.replicas
        staying = observed.staying
        for machine, typed in staying:
            if awaits_remediation(typed):
                await self._scheme.writer.delete(Machine.resource, machine, found_by_owner)
        surplus = sorted((typed for _, typed in staying), key=removal.machine_set_order)[
            : max(0, len(staying) - replicas)
        ]
        surplus_names = {machine.metadata.name for machine in surplus}
        for machine, _ in staying:
            if machine.name in surplus_names:
                await self._scheme.writer.delete(Machine.resource, machine, found_by_owner)
        await together(self._create(observed) for _ in range(replicas - len(staying)))

    async def _create(self, observed: Observed) -> None:
        key = Key(observed.object.namespace, names.suffixed(observed.object.name, self._scheme.rng))
        spec = observed.set.spec.template.spec
        template = in_place_fields(observed.set.spec.template)
        labels = {
            **template["metadata"]["labels"],
            names.CLUSTER: spec.cluster_name,
            names.SET_NAME_LABEL: observed.object.name,
        }
        owner = owner_reference(MachineSet.resource, observed.object)
        body = machine_body(key, owner, spec, labels, template["metadata"]["annotations"])
        created = await self._scheme.writer.create(Machine.resource, body)
        if created is not None:
            await self._create_missing_parts(observed, created, created.decode(Machine))

    async def _create_missing_parts(self, observed: Observed, machine: Object, typed: Machine) -> None:
        config: Tree | None = None
        if observed.config_template is not None:
            template = observed.config_template.tree["spec"]["template"]
            config = {**(template.get("metadata") or {}), "spec": template.get("spec") or {}}
            reference = Key(observed.object.namespace, observed.config_template.name)
            config["annotations"] = {
                **config.get("annotations", {}),
                names.CLONED_FROM_NAME: reference.name,
                names.CLONED_FROM_KIND: f"{observed.config_template.kind}.bootstrap.cluster.x-k8s.io",
            }
        await create_missing_parts(
            self._scheme, machine, typed, infrastructure_template=observed.infrastructure_template, config=config
        )

    async def _update_in_place(self, observed: Observed, machine: Object, typed: Machine) -> None:
        """Create the missing parts of a machine, update the fields that need no rollout, and set condition UpToDate."""
        await self._create_missing_parts(observed, machine, typed)
        machine = await self._scheme.writer.merge(
            Machine.resource, machine, in_place_fields(observed.set.spec.template)
        )
        up_to_date = (
            condition("UpToDate", True, "UpToDate")
            if observed.is_current
            else condition("UpToDate", False, "NotUpToDate", f"* {observed.object.name} is not the newest MachineSet")
        )
        conditions = stated(
            typed.status.conditions,
            [up_to_date],
            now=self._scheme.clock.now(),
            generation=typed.metadata.generation,
        )
        await self._scheme.writer.status(
            Machine.resource, machine, msgspec.structs.replace(typed.status, conditions=conditions)
        )

    async def _delete(self, observed: Observed) -> Outcome:
        writer = self._scheme.writer
        deletions = (writer.delete(Machine.resource, machine, found_by_owner) for machine, _ in observed.machines)
        await together(deletions)
        if observed.machines:
            waiting = f"{len(observed.machines)} machines are being deleted"
            await self._scheme.writer.status(MachineSet.resource, observed.object, self._status(observed, waiting))
            return Wait("Deleting", waiting)
        await self._scheme.writer.remove_finalizer(MachineSet.resource, observed.object, names.SET_FINALIZER)
        return Done()

    def _status(self, observed: Observed, waiting: str | None) -> MachineSetStatus:
        machines = [typed for _, typed in observed.machines]
        outdated = () if observed.is_current else [machine.metadata.name for machine in machines]
        rollup = Rollup.of(machines, outdated)
        desired = 0 if waiting is not None else 1 if observed.set.spec.replicas is None else observed.set.spec.replicas
        generation = observed.set.metadata.generation
        selector = ",".join(
            f"{name}={value}" for name, value in sorted(observed.set.spec.selector.match_labels.items())
        )
        return MachineSetStatus(
            conditions=stated(
                observed.set.status.conditions,
                [*rollup.conditions(desired), deleting_condition(waiting)],
                now=self._scheme.clock.now(),
                generation=generation,
            ),
            selector=selector,
            replicas=rollup.replicas,
            ready_replicas=rollup.ready,
            available_replicas=rollup.available,
            up_to_date_replicas=rollup.up_to_date,
            versions=list(rollup.versions),
            observed_generation=generation,
        )
