"""The observed state of a control plane, and the machine to create or delete next, by Cluster API's rules. Pure."""

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
from espalier.clusterapi.changes import machine_change
from espalier.clusterapi.machines import removal
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.clusterapi.machines.remediation import (
    REMEDIATION_FOR,
    Remediation,
    awaits_remediation,
    from_annotation,
    last_remediation,
)
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait


@dataclass(frozen=True)
class OwnedMachine(MachineObjects):
    """A machine of a control plane, with its bootstrap configuration and infrastructure machine."""

    @property
    def healthy(self) -> bool:
        """True if the machine's control plane components run. As in Cluster API, that needs no pod network."""
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
    """The reason why the cluster's API server can't run; empty if it can."""
    missing_certificates: tuple[str, ...] = ()
    """The certificates that an initialized control plane lacks, by the suffixes of their Secrets."""
    unlabelled_secrets: tuple[str, ...] = ()
    """Names of the Secrets with certificates that lack label `cluster.x-k8s.io/cluster-name`."""
    old: frozenset[str] = frozenset()
    """Names of the machines that `spec.rollout.after` replaces."""

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
        if self.old:
            after = ("spec.rollout.after",)
            fields |= {name: (*reasons, *after) for name, reasons in fields.items() if name in self.old}
        return {name: reasons for name, reasons in fields.items() if reasons}


@dataclass(frozen=True)
class Scaling:
    """The next scaling operation: scale down by deleting a machine, or scale up by creating one."""

    remove: OwnedMachine | None
    """The machine to delete; None to create one."""
    remediates: Remediation | None = None
    """The remediation record, when the machine is deleted because it is unhealthy."""


def next_scaling(observed: Observed, now: datetime) -> Scaling | Wait | None:
    """The scaling operation that remediation, a rollout or `replicas` requires; None if none is due.

    One at a time, and only while the other machines are healthy: until then a `Wait`.
    """
    machines = observed.machines
    staying = [owned for owned in machines if not owned.is_deleted]
    outdated = [owned for owned in staying if owned.object.name in observed.outdated]
    unhealthy = [owned for owned in staying if awaits_remediation(owned.machine)]
    if unhealthy and len(staying) > 1:
        # The only machine of a control plane is never remediated: a new one could not join.
        remediated = _machine_to_delete(unhealthy)
        remediation = _remediation(observed, remediated, now)
        if isinstance(remediation, Wait):
            return remediation
        scaling = Scaling(remediated, remediation)
    elif outdated:
        may_surge = len(machines) < observed.replicas + observed.max_surge
        scaling = Scaling(None) if may_surge else Scaling(_machine_to_delete(outdated))
    elif len(staying) < observed.replicas:
        scaling = Scaling(None)
    elif len(staying) > observed.replicas:
        scaling = Scaling(_machine_to_delete(staying))
    else:
        return None
    if not machines:
        return scaling
    if deleting := [owned.object.name for owned in machines if owned.is_deleted]:
        return Wait("MachineDeleting", f"waiting for the deletion of machine {deleting[0]}")
    # A machine may join before there is a pod network; no ready machine is deleted before the others are ready.
    others = [owned for owned in machines if owned is not scaling.remove]
    needs_ready = scaling.remove is not None and scaling.remove.ready
    waiting = [owned.object.name for owned in others if not (owned.ready if needs_ready else owned.healthy)]
    if waiting:
        return Wait("MachineNotReady", f"waiting for machine {waiting[0]} to become ready")
    return scaling


def pending_remediation(observed: Observed) -> Remediation | None:
    """The last remediation, until a machine that replaces the remediated one exists; else None."""
    recorded = last_remediation(observed.control_plane.status.last_remediation)
    if recorded is None or any(owned.object.name == recorded.machine for owned in observed.machines):
        return None
    claimed = [from_annotation(owned.machine.metadata.annotations.get(REMEDIATION_FOR)) for owned in observed.machines]
    return None if any(claim is not None and claim.machine == recorded.machine for claim in claimed) else recorded


def _remediation(observed: Observed, owned: OwnedMachine, now: datetime) -> Remediation | Wait:
    """The record of the remediation of an unhealthy machine, or a `Wait` while retries are deferred or exhausted."""
    limits = observed.control_plane.spec.remediation or ControlPlaneRemediation()
    recorded = last_remediation(observed.control_plane.status.last_remediation)
    if recorded is not None and recorded.machine == owned.object.name:
        return recorded  # the machine is being deleted
    remediation = Remediation(machine=owned.object.name, time=condition_list.timestamp(now))
    previous = from_annotation(owned.machine.metadata.annotations.get(REMEDIATION_FOR))
    remediated_at = condition_list.parse_timestamp(previous.at) if previous is not None else None
    if previous is None or remediated_at is None:
        return remediation
    elapsed = (now - remediated_at).total_seconds()
    if elapsed > (
        _MIN_HEALTHY_SECONDS if limits.min_healthy_period_seconds is None else limits.min_healthy_period_seconds
    ):
        return remediation
    if elapsed < (retry_period := limits.retry_period_seconds or 0):
        return Wait(
            "RemediationDeferred", f"machine {owned.object.name} will be replaced later", after=retry_period - elapsed
        )
    if limits.max_retry is not None and previous.retry_count >= limits.max_retry:
        return Wait("RemediationFailed", f"machine {owned.object.name} is not replaced: {limits.max_retry} failed")
    return msgspec.structs.replace(remediation, retry_count=previous.retry_count + 1)


_MIN_HEALTHY_SECONDS = 3600
"""The default minHealthyPeriodSeconds: after it, a replacement no longer counts as a retry of the same remediation."""


def _machine_to_delete(machines: list[OwnedMachine]) -> OwnedMachine:
    """The machine to delete: annotated ones first, then unhealthy ones, then the oldest."""
    return min(machines, key=lambda owned: removal.control_plane_order(owned.machine))
