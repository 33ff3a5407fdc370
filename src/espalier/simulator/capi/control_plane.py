"""An observed control plane with its machines, and the one change that is due (Cluster API's rules)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import Cluster, Endpoint
from espalier.api.capi.kubeadm import (
    ControlPlaneRemediation,
    KubeadmControlPlane,
)
from espalier.api.resource import Key
from espalier.clusterapi import machine_change, removal
from espalier.clusterapi.machine_objects import MachineObjects
from espalier.clusterapi.remediation import (
    REMEDIATION_FOR,
    Remediation,
    awaits_remediation,
    from_annotation,
    last_remediation,
)
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait


@dataclass(frozen=True)
class OwnedMachine(MachineObjects):
    """A control plane machine, and whether its control plane components run."""

    @property
    def healthy(self) -> bool:
        """True if its control plane components run. As in Cluster API, that needs no pod network."""
        return self.machine.status.node_ref is not None and not self.is_deleted

    @property
    def ready(self) -> bool:
        """True if its node is ready too."""
        return self.healthy and condition_list.is_true(self.machine.status.conditions, "Ready")


@dataclass(frozen=True)
class Observed:
    """A control plane, its cluster and its machines, oldest first."""

    object: Object
    control_plane: KubeadmControlPlane
    cluster_object: Object
    cluster: Cluster
    machines: tuple[OwnedMachine, ...]
    secrets: dict[str, Object]
    infrastructure_template: Object | None
    other_machines: int
    orphans: tuple[Object, ...] = ()
    """The control plane machines to adopt."""
    obstacle: str = ""
    """Why its API server can't run."""
    lost_certificates: tuple[str, ...] = ()
    """The missing certificates of an initialized control plane, by the suffixes of their Secrets."""
    unlabelled: tuple[str, ...] = ()
    """Names of Secrets with certificates that lack the label of their cluster."""

    @property
    def key(self) -> Key:
        """The key of the cluster."""
        return self.cluster_object.key

    @property
    def replicas(self) -> int:
        """The desired number of machines."""
        return 1 if self.control_plane.spec.replicas is None else self.control_plane.spec.replicas

    @property
    def max_surge(self) -> int:
        """The surge during a rollout: 1 or 0."""
        rollout = self.control_plane.spec.rollout
        rolling = rollout.strategy.rolling_update if rollout and rollout.strategy else None
        value = rolling.max_surge if rolling else None
        return 1 if value is None else int(value)

    @property
    def endpoint(self) -> Endpoint | None:
        """The address of the API server; None while the infrastructure does not report it."""
        endpoint = self.cluster.spec.control_plane_endpoint
        return endpoint if endpoint is not None and endpoint.host else None

    @property
    def initialized(self) -> bool:
        """True if the control plane was ever initialized: some machine became a node."""
        return self.control_plane.status.initialization.control_plane_initialized or any(
            owned.machine.status.node_ref is not None for owned in self.machines
        )

    @cached_property
    def outdated(self) -> dict[str, tuple[str, ...]]:
        """Names of outdated machines, with the fields that differ."""
        desired = machine_change.of_control_plane(self.control_plane)
        fields = {owned.object.name: machine_change.reasons_to_replace(owned.parts, desired) for owned in self.machines}
        return {name: reasons for name, reasons in fields.items() if reasons}


@dataclass(frozen=True)
class Move:
    """The one change that is due: create a machine (None), or delete this machine."""

    remove: OwnedMachine | None
    remediates: Remediation | None = None
    """The remediation record, when the machine is deleted because it is unhealthy."""


def next_move(observed: Observed, now: datetime) -> Move | Wait | None:
    """The change that replicas and outdated machines require; one at a time, on a healthy control plane only."""
    machines = observed.machines
    staying = [owned for owned in machines if not owned.is_deleted]
    outdated = [owned for owned in staying if owned.object.name in observed.outdated]
    sick = [owned for owned in staying if awaits_remediation(owned.machine)]
    if sick and len(staying) > 1:
        # The only machine of a control plane is never remediated: a new one could not join.
        doomed = _chosen(sick)
        remembered = _remediation(observed, doomed, now)
        if isinstance(remembered, Wait):
            return remembered
        move = Move(doomed, remembered)
    elif outdated:
        grow = len(machines) < observed.replicas + observed.max_surge
        move = Move(None) if grow else Move(_chosen(outdated))
    elif len(staying) < observed.replicas:
        move = Move(None)
    elif len(staying) > observed.replicas:
        move = Move(_chosen(staying))
    else:
        return None
    if not machines:
        return move
    if deleting := [owned.object.name for owned in machines if owned.is_deleted]:
        return Wait("MachineDeleting", f"waiting for the deletion of machine {deleting[0]}")
    # A machine may join before there is a pod network; no ready machine is deleted before the others are ready.
    others = [owned for owned in machines if owned is not move.remove]
    needs_ready = move.remove is not None and move.remove.ready
    waiting = [owned.object.name for owned in others if not (owned.ready if needs_ready else owned.healthy)]
    if waiting:
        return Wait("MachineNotReady", f"waiting for machine {waiting[0]} to become ready")
    return move


def unclaimed(observed: Observed) -> Remediation | None:
    """The remediation that the next new machine completes."""
    known = last_remediation(observed.control_plane.status.last_remediation)
    if known is None or any(owned.object.name == known.machine for owned in observed.machines):
        return None
    claimed = [from_annotation(owned.machine.metadata.annotations.get(REMEDIATION_FOR)) for owned in observed.machines]
    return None if any(one is not None and one.machine == known.machine for one in claimed) else known


def _remediation(observed: Observed, doomed: OwnedMachine, now: datetime) -> Remediation | Wait:
    """The remediation record of a machine; or why it is not replaced: too many replacements failed."""
    limits = observed.control_plane.spec.remediation or ControlPlaneRemediation()
    known = last_remediation(observed.control_plane.status.last_remediation)
    if known is not None and known.machine == doomed.object.name:
        return known  # it is being deleted
    found = Remediation(machine=doomed.object.name, time=condition_list.timestamp(now))
    before = from_annotation(doomed.machine.metadata.annotations.get(REMEDIATION_FOR))
    if before is None or not before.at:
        return found
    passed = (now - datetime.fromisoformat(before.at)).total_seconds()
    if passed > (_HEALTHY_FOR if limits.min_healthy_period_seconds is None else limits.min_healthy_period_seconds):
        return found
    if passed < (left := limits.retry_period_seconds or 0):
        return Wait("RemediationDeferred", f"machine {doomed.object.name} will be replaced later", after=left - passed)
    if limits.max_retry is not None and before.retry_count >= limits.max_retry:
        return Wait("RemediationFailed", f"machine {doomed.object.name} is not replaced: {limits.max_retry} failed")
    return msgspec.structs.replace(found, retry_count=before.retry_count + 1)


_HEALTHY_FOR = 3600
"""Seconds of health after which a replacement no longer counts as a retry of the same remediation."""


def _chosen(machines: list[OwnedMachine]) -> OwnedMachine:
    """The machine to delete: annotated ones first, then unhealthy ones, then the oldest."""
    return min(machines, key=lambda owned: removal.control_plane_order(owned.machine))
