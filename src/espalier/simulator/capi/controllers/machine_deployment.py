"""The MachineDeployment controller: a MachineSet per template, and a rolling update from one to the next."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.capi.machine import Machine, MachineDeployment, MachineDeploymentStatus, MachineSet
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import stated
from espalier.clusterapi.contract import desired_replicas, within_autoscaler_limits
from espalier.clusterapi.machines.intstr import share
from espalier.clusterapi.machines.rollouts import seconds_until
from espalier.clusterapi.objects import is_paused, new_object, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.simulator.capi.inventory import Scheme, owned_by
from espalier.simulator.capi.machine_parts import in_place_fields, is_current, template_hash
from espalier.simulator.capi.states.rollup import Rollup, available_condition, deleting_condition


@dataclass(frozen=True)
class OwnedSet:
    """A MachineSet of a deployment, with its machines."""

    object: Object
    set: MachineSet
    machines: tuple[Machine, ...]

    @property
    def replicas(self) -> int:
        """The desired number of machines."""
        return 1 if self.set.spec.replicas is None else self.set.spec.replicas

    @property
    def available(self) -> int:
        """The number of available machines, at most `replicas`: those that the set is about to delete do not count."""
        available = sum(
            condition_list.is_true(machine.status.conditions, "Available")
            and machine.metadata.deletion_timestamp is None
            for machine in self.machines
        )
        return min(self.replicas, available)


@dataclass(frozen=True)
class Observed:
    """A MachineDeployment, its Cluster and its MachineSets, oldest revision first."""

    object: Object
    deployment: MachineDeployment
    cluster: Object
    sets: tuple[OwnedSet, ...]
    now: datetime

    @property
    def replicas(self) -> int:
        """The desired number of machines."""
        return desired_replicas(self.deployment)

    @cached_property
    def newest(self) -> OwnedSet | None:
        """The set with the deployment's template; None until it exists.

        Of several, as in Cluster API, it is the one with most replicas, and of equal ones the oldest.
        """
        current = (owned for owned in self.sets if is_current(owned.set, self.deployment, self.now))
        return max(current, key=lambda owned: owned.replicas, default=None)

    @property
    def limits(self) -> tuple[int, int]:
        """maxSurge and maxUnavailable, as numbers of machines: by default 1 and 0."""
        rollout = self.deployment.spec.rollout
        rolling = rollout.strategy.rolling_update if rollout and rollout.strategy else None
        surge = share(rolling.max_surge if rolling else None, self.replicas, default=1, round_up=True)
        unavailable = share(rolling.max_unavailable if rolling else None, self.replicas, default=0)
        return (surge, unavailable) if surge or unavailable else (1, 0)


def scale(
    replicas: int, limits: tuple[int, int], newest: OwnedSet, old: Sequence[OwnedSet]
) -> Iterator[tuple[OwnedSet, int]]:
    """Replicas of each set: the newest scales up within maxSurge, old ones scale down within maxUnavailable.

    `limits` are maxSurge and maxUnavailable. Existing machines count against maxSurge even above their set's replicas.
    """
    max_surge, max_unavailable = limits
    existing = sum(max(owned.replicas, len(owned.machines)) for owned in (*old, newest))
    room = max(0, replicas + max_surge - existing)
    yield newest, min(replicas, newest.replicas + room) if newest.replicas < replicas else replicas
    removable = max(0, sum(owned.available for owned in (*old, newest)) - (replicas - max_unavailable))
    for owned in old:
        unavailable = owned.replicas - owned.available
        removed = min(owned.replicas, unavailable + removable)
        removable -= max(0, removed - unavailable)
        yield owned, owned.replicas - removed


class MachineDeployments:
    """Reconciles MachineDeployments."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.deployments.get(key)
        if object_ is None or is_paused(object_):
            return None
        typed = object_.decode(MachineDeployment)
        cluster = inventory.clusters.get(Key(key.namespace, typed.spec.cluster_name))
        if cluster is None or is_paused(cluster) or typed.spec.paused or cluster.decode(Cluster).spec.paused:
            return None
        sets = sorted(
            owned_by(inventory.sets, object_.metadata.uid),
            key=lambda owned: (int(owned.metadata.annotations.get(names.REVISION, "0")), owned.name),
        )
        return Observed(object_, typed, cluster, tuple(self._owned(owned) for owned in sets), self._scheme.clock.now())

    def _owned(self, object_: Object) -> OwnedSet:
        machines = owned_by(self._scheme.inventory.machines, object_.metadata.uid)
        return OwnedSet(object_, object_.decode(MachineSet), tuple(machine.decode(Machine) for machine in machines))

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one MachineDeployment."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        if observed.deployment.metadata.deletion_timestamp is not None:
            return await self._delete(observed)
        writer = self._scheme.writer
        resource = MachineDeployment.resource
        current = await writer.add_finalizer(resource, observed.object, names.DEPLOYMENT_FINALIZER)
        owner = owner_reference(Cluster.resource, observed.cluster, controller=False)
        labels = {names.CLUSTER: observed.deployment.spec.cluster_name}
        current = await writer.add_owner(resource, current, owner, labels)
        await self._adopt_templates(observed)
        if observed.deployment.spec.replicas is None:
            # As Cluster API's webhook: keep the replicas of the sets, within the limits of an autoscaler.
            present = sum(owned.replicas for owned in observed.sets) if observed.sets else 1
            await writer.merge(
                resource, current, {"spec": {"replicas": within_autoscaler_limits(observed.deployment, present)}}
            )
            return Wait("ReplicasChosen", "waiting for the cache to show the replicas")
        newest = observed.newest
        if newest is None:
            await writer.create(MachineSet.resource, self._new_set(observed))
        else:
            await self._roll(observed, newest)
        await writer.status(resource, current, self._status(observed, None))
        rollout = observed.deployment.spec.rollout
        return Done(after=seconds_until(rollout.after if rollout else None, observed.now))

    async def _adopt_templates(self, observed: Observed) -> None:
        """Set the cluster as owner of the templates of bootstrap configurations and infrastructure machines."""
        spec = observed.deployment.spec.template.spec
        owner = owner_reference(Cluster.resource, observed.cluster, controller=False)
        labels: Tree = {}
        namespace = observed.object.namespace
        config = spec.bootstrap.config_ref
        template = self._scheme.inventory.config_templates.get(Key(namespace, config.name)) if config else None
        if template is not None:
            await self._scheme.writer.add_owner(KubeadmConfigTemplate.resource, template, owner, labels)
        reference = spec.infrastructure_ref
        infrastructure = self._scheme.inventory.infrastructure_object(reference.kind, Key(namespace, reference.name))
        resource = self._scheme.inventory.resource(reference.kind)
        if infrastructure is not None and resource is not None:
            await self._scheme.writer.add_owner(resource, infrastructure, owner, labels)

    def _new_set(self, observed: Observed) -> Tree:
        deployment = observed.deployment
        name = names.suffixed(observed.object.name, self._scheme.rng)
        hash_ = f"{template_hash(deployment.spec.template)}-{name.rpartition('-')[2]}"
        labels = {
            **deployment.spec.template.metadata.labels,
            names.CLUSTER: deployment.spec.cluster_name,
            names.DEPLOYMENT: observed.object.name,
            names.TEMPLATE_HASH: hash_,
        }
        revisions = (int(owned.object.metadata.annotations.get(names.REVISION, "0")) for owned in observed.sets)
        metadata: Tree = {
            "name": name,
            "namespace": observed.object.namespace,
            "labels": labels,
            "annotations": {names.REVISION: str(max(revisions, default=0) + 1)},
            "finalizers": [names.SET_FINALIZER],
            "ownerReferences": [msgspec.to_builtins(owner_reference(MachineDeployment.resource, observed.object))],
        }
        match = {**deployment.spec.selector.match_labels, names.TEMPLATE_HASH: hash_}
        template = msgspec.to_builtins(deployment.spec.template)
        template["metadata"] = {**in_place_fields(deployment.spec.template)["metadata"], "labels": labels}
        spec: Tree = {
            "clusterName": deployment.spec.cluster_name,
            "replicas": 0 if observed.sets else observed.replicas,
            "selector": {"matchLabels": match},
            "template": template,
        }
        if deployment.spec.deletion:
            spec["deletion"] = msgspec.to_builtins(deployment.spec.deletion)
        return new_object(MachineSet.resource, metadata, spec=spec)

    async def _roll(self, observed: Observed, newest: OwnedSet) -> None:
        old = [owned for owned in observed.sets if owned is not newest]
        replicas_by_set = {
            owned.object.name: replicas for owned, replicas in scale(observed.replicas, observed.limits, newest, old)
        }
        for owned in observed.sets:
            if owned is not newest and not owned.replicas and not owned.machines:
                await self._scheme.writer.delete(MachineSet.resource, owned.object, found_by_owner)
                continue
            template = in_place_fields(observed.deployment.spec.template)
            change = {"spec": {"replicas": replicas_by_set[owned.object.name], "template": template}}
            await self._scheme.writer.merge(MachineSet.resource, owned.object, change)

    async def _delete(self, observed: Observed) -> Outcome:
        for owned in observed.sets:
            await self._scheme.writer.delete(MachineSet.resource, owned.object, found_by_owner)
        resource = MachineDeployment.resource
        if observed.sets:
            machines = sum(len(owned.machines) for owned in observed.sets)
            waiting = f"{len(observed.sets)} machine sets with {machines} machines are being deleted"
            await self._scheme.writer.status(resource, observed.object, self._status(observed, waiting))
            return Wait("Deleting", waiting)
        await self._scheme.writer.remove_finalizer(resource, observed.object, names.DEPLOYMENT_FINALIZER)
        return Done()

    def _status(self, observed: Observed, waiting: str | None) -> MachineDeploymentStatus:
        newest = observed.newest
        machines = [machine for owned in observed.sets for machine in owned.machines]
        outdated = [m.metadata.name for owned in observed.sets if owned is not newest for m in owned.machines]
        rollup = Rollup.of(machines, outdated)
        statuses = [owned.set.status for owned in observed.sets]
        desired = 0 if waiting is not None else observed.replicas
        generation = observed.deployment.metadata.generation
        _, max_unavailable = observed.limits
        phase = "Running"
        if rollup.replicas < desired:
            phase = "ScalingUp"
        elif rollup.replicas > desired or outdated:
            phase = "ScalingDown"
        match = observed.deployment.spec.selector.match_labels
        return MachineDeploymentStatus(
            conditions=stated(
                observed.deployment.status.conditions,
                [
                    available_condition("Available", rollup.available, desired - max_unavailable, desired),
                    *rollup.conditions(desired),
                    deleting_condition(waiting),
                ],
                now=self._scheme.clock.now(),
                generation=generation,
            ),
            selector=",".join(f"{name}={value}" for name, value in sorted(match.items())),
            # As in Cluster API: from the sets' last statuses, so it may be about the previous template.
            replicas=sum(counts.replicas or 0 for counts in statuses),
            ready_replicas=sum(counts.ready_replicas or 0 for counts in statuses),
            available_replicas=sum(counts.available_replicas or 0 for counts in statuses),
            up_to_date_replicas=sum(counts.up_to_date_replicas or 0 for counts in statuses),
            versions=list(rollup.versions),
            observed_generation=generation,
            phase=phase,
        )
