"""The observed state of a Machine, and the status computed from it. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.capi.machine import (
    Machine,
    MachineDeletionStatus,
    MachineInitialization,
    MachineStatus,
    NodeReference,
)
from espalier.api.meta import Condition, Tree
from espalier.clusterapi import contract, names
from espalier.clusterapi.conditions import condition, stated, summary
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureMachine
from espalier.kube.objects import Object
from espalier.simulator.capi.reaching import Reachable


@dataclass(frozen=True)
class Observed:
    """A machine, its cluster, its existing parts and its node."""

    object: Object
    machine: Machine
    cluster: Object | None
    config_object: Object | None
    config: KubeadmConfig | None
    infrastructure_object: Object | None
    infrastructure: InfrastructureMachine | None
    workload: Reachable | None
    node: Object | None


class _NodeCondition(msgspec.Struct):
    type: str
    status: str
    message: str = ""


class _NodeStatus(msgspec.Struct, rename="camel"):
    conditions: list[_NodeCondition] = []
    node_info: Tree = {}


class _Node(msgspec.Struct, rename="camel"):
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


def spec_changes(observed: Observed) -> Tree:
    """A merge patch of the machine's spec: bootstrap data Secret, provider ID and failure domain of its parts."""
    spec: Tree = {}
    config = observed.config
    if observed.machine.spec.bootstrap.data_secret_name is None and config and config.status.data_secret_name:
        spec["bootstrap"] = {"dataSecretName": config.status.data_secret_name}
    infrastructure = observed.infrastructure
    if infrastructure is not None and infrastructure.status.provisioned:
        if infrastructure.spec.provider_id and not observed.machine.spec.provider_id:
            spec["providerID"] = infrastructure.spec.provider_id
        failure_domain = infrastructure.status.failure_domain or infrastructure.spec.failure_domain
        if failure_domain and not observed.machine.spec.failure_domain:
            spec["failureDomain"] = failure_domain
    return spec


def status(
    observed: Observed, now: datetime, *, deleting: str = "", stage: str = "Deleting", drain_began: str = ""
) -> MachineStatus:
    """The machine's status; `deleting` is the message of condition Deleting while it is being deleted, `stage` its
    reason, and `drain_began` the time at which the drain of its node began.
    """
    machine = observed.machine
    bootstrapped = machine.status.initialization.bootstrap_data_secret_created or bool(
        machine.spec.bootstrap.data_secret_name or (observed.config and observed.config.status.data_secret_name)
    )
    infrastructure = observed.infrastructure
    provisioned = machine.status.initialization.infrastructure_provisioned or bool(
        infrastructure and infrastructure.status.provisioned
    )
    node_ref = machine.status.node_ref
    node_info = machine.status.node_info
    if observed.node is not None:
        node_ref = NodeReference(name=observed.node.name)
        node_info = observed.node.decode(_Node).status.node_info
    conditions = stated(
        machine.status.conditions,
        _conditions(observed, bootstrapped, provisioned, (stage, deleting), now),
        now=now,
        generation=machine.metadata.generation,
    )
    return MachineStatus(
        conditions=conditions,
        initialization=MachineInitialization(
            infrastructure_provisioned=provisioned, bootstrap_data_secret_created=bootstrapped
        ),
        node_ref=node_ref,
        node_info=node_info,
        addresses=infrastructure.status.addresses if infrastructure else machine.status.addresses,
        failure_domain=machine.spec.failure_domain,
        certificates_expiry_date=_certificates_expiry(observed),
        phase=_phase(observed, bootstrapped, provisioned, node_ref is not None),
        deletion=MachineDeletionStatus(drain_began) if drain_began else machine.status.deletion,
        observed_generation=machine.metadata.generation,
    )


def _certificates_expiry(observed: Observed) -> str | None:
    """As Cluster API: from the machine's annotation, or that of its KubeadmConfig."""
    for metadata in (observed.machine.metadata, observed.config_object.metadata if observed.config_object else None):
        expiry = metadata.annotations.get(names.CERTIFICATES_EXPIRY) if metadata is not None else None
        if expiry and condition_list.parse_timestamp(expiry) is not None:
            return expiry
    return None


def _deletion_in_short(stage: str, message: str) -> str:
    """A machine's deletion in the summary of its conditions: as in Cluster API, not every pod of a drain."""
    if stage == contract.DRAINING:
        return f"Machine deletion in progress, stage: {stage}"
    return message or "the machine is being deleted"


def _phase(observed: Observed, bootstrapped: bool, provisioned: bool, has_node: bool) -> str:
    if observed.machine.metadata.deletion_timestamp is not None:
        return "Deleting"
    if has_node:
        return "Running"
    if provisioned:
        return "Provisioned"
    return "Provisioning" if bootstrapped else "Pending"


def _conditions(
    observed: Observed, bootstrapped: bool, provisioned: bool, deleting: tuple[str, str], now: datetime
) -> Iterator[Condition]:
    config = condition_list.get(observed.config.status.conditions, "Ready") if observed.config else None
    bootstrap = condition(
        "BootstrapConfigReady",
        bootstrapped,
        "Ready" if bootstrapped else "NotReady",
        "" if bootstrapped else (config and config.message) or "the bootstrap data are not generated yet",
    )
    is_deleted = provisioned and observed.infrastructure is None
    infrastructure = condition(
        "InfrastructureReady",
        provisioned and not is_deleted,
        contract.DELETED if is_deleted else "Ready" if provisioned else "NotReady",
        _infrastructure_message(observed, is_deleted=is_deleted) if is_deleted or not provisioned else "",
    )
    node_healthy, node_ready = _node_conditions(observed)
    is_deleting = observed.machine.metadata.deletion_timestamp is not None
    deletion = condition("Deleting", True, *deleting) if is_deleting else condition("Deleting", False, "NotDeleting")
    ready = (
        condition("Ready", False, "NotReady", f"* Deleting: {_deletion_in_short(*deleting)}")
        if is_deleting
        else summary("Ready", [bootstrap, infrastructure, node_healthy], reason="Ready", otherwise="NotReady")
    )
    yield from (bootstrap, infrastructure, node_healthy, node_ready, deletion, ready)
    yield condition("Paused", False, "NotPaused")
    yield condition("Updating", False, "NotUpdating")
    yield _available(observed.machine, ready, now)


def _infrastructure_message(observed: Observed, *, is_deleted: bool) -> str:
    if is_deleted:
        return f"{observed.machine.spec.infrastructure_ref.kind} has been deleted while the Machine still exists"
    if observed.infrastructure is None:
        return f"{observed.machine.spec.infrastructure_ref.kind} does not exist"
    ready = condition_list.get(observed.infrastructure.status.conditions, "Ready")
    return (ready and ready.message) or "the infrastructure is not provisioned yet"


def _node_conditions(observed: Observed) -> tuple[Condition, Condition]:
    previous = [condition_list.get(observed.machine.status.conditions, type_) for type_ in ("NodeHealthy", "NodeReady")]
    if observed.workload is None and previous[0] is not None and previous[1] is not None:
        return previous[0], previous[1]  # the API server is unreachable: the last observed conditions stay
    if observed.node is None:
        if observed.machine.status.node_ref is not None:
            reason, message = "NodeDeleted", "the node of this machine was deleted"
            return condition("NodeHealthy", False, reason, message), condition("NodeReady", False, reason, message)
        reason, message = "InspectionFailed", "waiting for the machine to register its node"
        return condition("NodeHealthy", None, reason, message), condition("NodeReady", None, reason, message)
    reported = observed.node.decode(_Node).status.conditions
    reported_ready = condition_list.get(reported, "Ready")
    ready = reported_ready is not None and reported_ready.status == "True"
    message = "" if ready else f"* Node.Ready: {reported_ready.message if reported_ready else 'not reported yet'}"
    return (
        condition("NodeHealthy", ready, "NodeHealthy" if ready else "NodeNotHealthy", message),
        condition("NodeReady", ready, "NodeReady" if ready else "NodeNotReady", message),
    )


def seconds_until_available(machine: Machine, ready: Condition, now: datetime) -> float:
    """Seconds until a ready machine is available (`minReadySeconds`); 0 when it is."""
    minimum = machine.spec.min_ready_seconds or 0
    if not minimum:
        return 0.0
    previous = condition_list.get(machine.status.conditions, "Ready")
    since = previous.last_transition_time if previous and previous.status == ready.status else ""
    start = datetime.strptime(since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC) if since else now
    return max(0.0, (start + timedelta(seconds=minimum) - now).total_seconds())


NODE_DELETION_SECONDS = 10
"""The default nodeDeletionTimeoutSeconds."""


def node_deletion_remaining(machine: Machine, now: datetime) -> float:
    """Seconds until a deleted machine no longer waits for the deletion of its node; infinite without a timeout."""
    configured = machine.spec.deletion.node_deletion_timeout_seconds if machine.spec.deletion else None
    timeout = NODE_DELETION_SECONDS if configured is None else configured
    since = machine.metadata.deletion_timestamp
    if not timeout or not since:
        return math.inf
    start = datetime.strptime(since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    return max(0.0, (start + timedelta(seconds=timeout) - now).total_seconds())


def _available(machine: Machine, ready: Condition, now: datetime) -> Condition:
    if ready.status != "True":
        return condition("Available", False, "NotReady")
    if seconds_until_available(machine, ready, now) > 0:
        return condition("Available", False, "WaitingForMinReadySeconds")
    return condition("Available", True, "Available")
