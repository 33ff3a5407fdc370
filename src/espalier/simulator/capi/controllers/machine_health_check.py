"""The MachineHealthCheck controller: marks unhealthy machines, so that their owners replace them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster
from espalier.api.capi.machine import Machine, MachineHealthCheck, MachineHealthCheckStatus
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.contract import SKIP_REMEDIATION_ANNOTATION
from espalier.clusterapi.objects import is_paused, owner_reference
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.simulator.capi.inventory import Scheme, in_cluster
from espalier.simulator.capi.states.health import CheckedNode, MachineHealth, check_machine, is_remediable, remediations

RESOURCE = MachineHealthCheck.resource


@dataclass(frozen=True)
class Target:
    """A machine that the health check selects, with its health."""

    object: Object
    machine: Machine
    health: MachineHealth


@dataclass(frozen=True)
class Observed:
    """A health check with its machines."""

    object: Object
    check: MachineHealthCheck
    cluster: Object
    targets: tuple[Target, ...]

    @property
    def unhealthy(self) -> int:
        """The number of unhealthy machines."""
        return sum(bool(target.health.problem) for target in self.targets)

    @property
    def remediable(self) -> bool:
        """True if the unhealthy machines may be remediated."""
        remediation = self.check.spec.remediation
        return is_remediable(remediation.trigger_if if remediation else None, len(self.targets), self.unhealthy)


class MachineHealthChecks:
    """Reconciles MachineHealthChecks."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme

    def _observe(self, key: Key) -> Observed | None:
        inventory = self._scheme.inventory
        object_ = inventory.health_checks.get(key)
        if object_ is None or is_paused(object_) or object_.metadata.deletion_timestamp is not None:
            return None
        check = object_.decode(MachineHealthCheck)
        cluster = inventory.clusters.get(Key(key.namespace, check.spec.cluster_name))
        if cluster is None or is_paused(cluster) or cluster.decode(Cluster).spec.paused:
            return None
        if cluster.metadata.deletion_timestamp is not None:
            return None
        workload = self._scheme.workload_clusters.reach(cluster.key)
        now = self._scheme.clock.now()
        targets = []
        for machine in in_cluster(inventory.machines, cluster.key):
            typed = machine.decode(Machine)
            if typed.metadata.deletion_timestamp is not None or not check.spec.selector.selects(typed.metadata.labels):
                continue
            if SKIP_REMEDIATION_ANNOTATION in typed.metadata.annotations or is_paused(machine):
                continue
            node = workload.node(typed.spec.provider_id) if workload and typed.spec.provider_id else None
            is_unreachable = workload is None and typed.status.node_ref is not None
            health = check_machine(typed, node.decode(CheckedNode) if node else None, check.spec.checks, now)
            targets.append(Target(machine, typed, MachineHealth() if is_unreachable else health))
        return Observed(object_, check, cluster, tuple(targets))

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one MachineHealthCheck."""
        observed = self._observe(key)
        if observed is None:
            return Done()
        writer = self._scheme.writer
        owner = owner_reference(Cluster.resource, observed.cluster, controller=False)
        current = await writer.add_owner(RESOURCE, observed.object, owner, {names.CLUSTER: observed.cluster.name})
        for target in observed.targets:
            await self._write_conditions(target, observed.remediable)
        await writer.status(RESOURCE, current, self._status(observed))
        checks = (target.health.next_check for target in observed.targets)
        next_check = min((seconds for seconds in checks if seconds is not None), default=None)
        return Done() if next_check is None else Wait("Watching", "machines may become unhealthy", after=next_check)

    async def _write_conditions(self, target: Target, remediable: bool) -> None:
        """Write HealthCheckSucceeded to a machine that is or was unhealthy; OwnerRemediated if it may be remediated."""
        present = target.machine.status.conditions
        problem = target.health.problem
        if not problem and condition_list.get(present, "HealthCheckSucceeded") is None:
            return
        changes: list[Condition] = [
            condition("HealthCheckSucceeded", not problem, "UnhealthyNode" if problem else "Healthy", problem)
        ]
        if problem and remediable:
            changes.append(condition("OwnerRemediated", False, "WaitingForRemediation"))
        generation = target.machine.metadata.generation
        conditions = stated(present, changes, now=self._scheme.clock.now(), generation=generation)
        if not problem:
            conditions = [entry for entry in conditions if entry.type != "OwnerRemediated"]
        status = msgspec.structs.replace(target.machine.status, conditions=conditions)
        await self._scheme.writer.status(Machine.resource, target.object, status)

    def _status(self, observed: Observed) -> MachineHealthCheckStatus:
        expected = len(observed.targets)
        remediation = observed.check.spec.remediation
        allowed = condition(
            "RemediationAllowed",
            observed.remediable,
            "RemediationAllowed" if observed.remediable else "TooManyUnhealthy",
            "" if observed.remediable else f"{observed.unhealthy} of {expected} machines are unhealthy",
        )
        generation = observed.check.metadata.generation
        return MachineHealthCheckStatus(
            conditions=stated(
                observed.check.status.conditions,
                [allowed, condition("Paused", False, "NotPaused")],
                now=self._scheme.clock.now(),
                generation=generation,
            ),
            expected_machines=expected,
            current_healthy=expected - observed.unhealthy,
            remediations_allowed=remediations(
                remediation.trigger_if if remediation else None, expected, observed.unhealthy
            ),
            targets=[target.object.name for target in observed.targets],
            observed_generation=generation,
        )
