"""The conditions that Ready summarizes: the state of control plane, CNI and workers, with numbers of machines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.conditions import condition as _condition
from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT
from espalier.api.meta import Condition
from espalier.api.text import listing
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.changes.classification import MachineEffect
from espalier.clusterapi.changes.machine_change import ChangeKind, machine_change, of_machine_template
from espalier.clusterapi.labels import mislabelled
from espalier.clusterapi.machines import rollouts
from espalier.clusters.design import names
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.drift.drift_policy import Policy, policy
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.render_input import group_count
from espalier.clusters.observe.machines import in_place_progress
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import decisions, deleted, in_place
from espalier.clusters.plan.decisions import Decisions
from espalier.clusters.report import validity
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait

_MADE_BY_CLUSTER_API = frozenset(
    {
        Reason.CONTROL_PLANE_INITIALIZATION_IN_PROGRESS,
        Reason.CONTROL_PLANE_NOT_INITIALIZED,
        Reason.OUTDATED_INFORMATION,
        Reason.ROLLING_UPGRADE_IN_PROGRESS,
        Reason.SCALING_UP,
        Reason.SCALING_DOWN,
        Reason.NODES_NOT_READY,
        Reason.EXTERNAL_ETCD_NOT_AVAILABLE,
    }
)
"""Reasons that end when Cluster API has reconciled."""

PROGRESS = _MADE_BY_CLUSTER_API | {
    Reason.CONTROL_PLANE_COMPONENTS_UNHEALTHY,
    Reason.CONTROL_PLANE_NOT_READY,
    Reason.AUTOSCALER_CONSTRAINT_NOT_MET,
    Reason.IN_PLACE_UPGRADE_IN_PROGRESS,
    Reason.IN_PLACE_UPGRADE_FAILED,
}
"""Reasons of waiting for which a condition's message is more precise than the step's."""

SERVES_THIS_API = "this cluster serves the API; its machines are not managed by this manager"


def machines_are_elsewhere(status: ClusterStatus) -> bool:
    """True for the record of a management cluster whose machines are not managed here."""
    control_plane = condition_list.get(status.conditions, names.CONTROL_PLANE_READY)
    return control_plane is not None and control_plane.reason == Satisfied.SERVES_THIS_API


OBJECTS_MISSING = (
    "the cluster was created before, and its Cluster API objects are missing: restore them, or remove annotation "
    f"{metadata_keys.GATE_ANNOTATION} to create the cluster again"
)

CNI_IS_BEING_INSTALLED = "the CNI is being installed in the workload cluster"

ENDPOINTS_PENDING = "waiting for Cluster API to set the endpoints of etcd in the control plane"

_MOST_NAMED = 10
"""The paused or changed objects that a message names; it counts the others."""

_CONTROL_PLANE = "control plane"
"""The subject of messages."""

_NOT_REPORTED = "Cluster API has not observed the last change yet"


class Counts(NamedTuple):
    """Numbers of machines: `expected` in the Cluster's spec, `desired` in the Cluster API object's spec; the others
    exist.
    """

    expected: int
    desired: int
    replicas: int
    up_to_date: int
    ready: int

    @property
    def outdated(self) -> int:
        """The number of machines to replace."""
        return max(0, self.replicas - self.up_to_date)


def conditions(scope: Scope) -> list[Condition]:
    """ControlPlaneInitialized, ControlPlaneReady, DefaultCNIConfigured and WorkersReady."""
    if scope.capi_objects.cluster is None and is_management_cluster_record(scope):
        return _of_this_api(scope)
    initialized = _control_plane_initialized(scope)
    control_plane = _control_plane_ready(scope, initialized)
    parts = [initialized, control_plane, _cni_configured(scope), _workers_ready(scope, initialized)]
    held = [part for part in parts if part.status != "True" and part.reason in _MADE_BY_CLUSTER_API]
    if held and (why := _held(scope)) is not None:
        for part in held:
            part.reason, part.message = why.reason, f"{why.message}; {part.message}"
    return parts


def _held(scope: Scope) -> Wait | None:
    """An edit by somebody for which controllers of Cluster API leave objects alone, or do not find them."""
    capi_objects = scope.capi_objects
    if paused := paused_objects(scope):
        return Wait(Reason.CLUSTER_API_PAUSED, paused)
    owners = (
        *capi_objects.of(KubeadmControlPlane.resource).values(),
        *capi_objects.of(MachineDeployment.resource).values(),
    )
    followed = (*owners, *capi_objects.sets, *capi_objects.machines, *capi_objects.other_machines)
    changed = [text for object_ in followed for text in mislabelled(object_)]
    return Wait(Reason.LABELS_CHANGED, listing.first(changed, _MOST_NAMED, separator="; ")) if changed else None


def objects_missing(scope: Scope) -> Wait:
    """Reason and message for a cluster whose Cluster API objects are missing, or belong to another by their labels."""
    if scope.is_name_taken:
        return validity.name_taken(scope)
    return Wait(Reason.CLUSTER_API_OBJECTS_MISSING, OBJECTS_MISSING)


class Pause(NamedTuple):
    """An object of Cluster API that somebody paused."""

    kind: str
    name: str
    message: str
    """The object, and how to unpause it."""


def paused_objects(scope: Scope) -> str:
    """Cluster API objects that somebody paused, and how to unpause them; empty if there are none."""
    return listing.first([pause.message for pause in pauses(scope)], _MOST_NAMED, separator="; ")


def pauses(scope: Scope) -> Iterator[Pause]:
    """The pauses of somebody."""
    there = scope.capi_objects
    written = (
        object_
        for resource, objects in there.objects.items()
        if not object_names.is_template(resource) and resource != MachineHealthCheck.resource
        for object_ in objects.values()
    )
    for object_ in (*written, *there.sets, *there.machines, *there.other_machines):
        annotations = object_.metadata.annotations
        is_held = any(annotations.get(name) == "true" for name in (IN_PLACE_CONTROL_PLANE, IN_PLACE_DEPLOYMENT))
        is_held |= annotations.get(contract.PAUSED_ANNOTATION) == external_etcd.PAUSED_FOR_ETCD
        if contract.PAUSED_ANNOTATION in annotations and not is_held:
            how = f"remove annotation {contract.PAUSED_ANNOTATION}{_resume(scope, object_)}"
            yield Pause(object_.kind, object_.name, f"{object_.kind} {object_.key} is paused: {how}")
    cluster = there.cluster
    if cluster is not None and cluster.spec.paused:
        name = f"{cluster.metadata.namespace}/{cluster.metadata.name}"
        message = f"Cluster.cluster.x-k8s.io {name} is paused: set spec.paused to false"
        yield Pause("Cluster", cluster.metadata.name, message)
    for object_ in there.of(MachineDeployment.resource).values():
        deployment = there.typed_deployments.get(object_.name)
        if deployment is not None and deployment.spec.paused:
            how = f"set spec.paused to false{_resume(scope, object_)}"
            yield Pause(object_.kind, object_.name, f"MachineDeployment {object_.key} is paused: {how}")


def _resume(scope: Scope, object_: Object) -> str:
    """The command that ends the pause of an object, if it has one."""
    key = scope.key
    if object_.kind == KubeadmControlPlane.resource.kind:
        what = "--control-plane"
    elif object_.kind == MachineDeployment.resource.kind:
        what = names.deployment_of_group(object_.metadata, key.name).removeprefix(f"{key.name}-")
    else:
        return ""
    return f", or `espalier rollout resume {key.name} {what} -n {key.namespace}`"


def is_management_cluster_record(scope: Scope) -> bool:
    """True if the Cluster is the record of the management cluster itself, without machines known here."""
    return scope.is_management and scope.is_paused


def _of_this_api(scope: Scope) -> list[Condition]:
    """The conditions of the cluster that serves this API: its API server is up, and its nodes are unknown here."""
    types = (names.CONTROL_PLANE_INITIALIZED, names.CONTROL_PLANE_READY)
    conditions = [_condition(type_, "True", Satisfied.SERVES_THIS_API, SERVES_THIS_API) for type_ in types]
    if scope.spec.worker_node_group_configurations:
        conditions.append(
            _condition(
                names.WORKERS_READY, "Unknown", Reason.NOT_MANAGED_HERE, "this manager does not manage its workers"
            )
        )
    else:
        conditions.append(
            _condition(names.WORKERS_READY, "True", Satisfied.NO_WORKERS, "no worker node groups in the spec")
        )
    return conditions


def _control_plane_initialized(scope: Scope) -> Condition:
    type_ = names.CONTROL_PLANE_INITIALIZED
    cluster = scope.capi_objects.cluster
    if scope.is_restored_without_objects:
        return _false(type_, objects_missing(scope))
    if cluster is None:
        return _condition(
            type_,
            "False",
            Reason.CONTROL_PLANE_INITIALIZATION_IN_PROGRESS,
            "the control plane has not been created yet",
        )
    if contract.is_control_plane_initialized(cluster):
        return _condition(type_, "True", Satisfied.CONTROL_PLANE_INITIALIZED, "the API server has responded")
    if not contract.is_infrastructure_provisioned(cluster):
        failure = contract.failure(scope.capi_objects.infrastructure) if scope.capi_objects.infrastructure else ""
        message = ": ".join(filter(None, ("waiting for the infrastructure cluster to be provisioned", failure)))
        return _condition(type_, "False", Reason.CONTROL_PLANE_INITIALIZATION_IN_PROGRESS, message)
    etcd = scope.capi_objects.etcd
    if etcd is not None and not etcd.status.ready:
        return _condition(type_, "False", Reason.CONTROL_PLANE_INITIALIZATION_IN_PROGRESS, etcd_progress(etcd))
    message = "the first control plane machine is not available yet"
    return _condition(
        type_,
        "False",
        Reason.CONTROL_PLANE_INITIALIZATION_IN_PROGRESS,
        "; ".join(filter(None, (message, _postponed(scope)))),
    )


def etcd_progress(etcd: EtcdadmCluster) -> str:
    """The progress of external etcd."""
    wanted = 1 if etcd.spec.replicas is None else etcd.spec.replicas
    ready = len([endpoint for endpoint in etcd.status.endpoints.split(",") if endpoint])
    if external_etcd.UPGRADING in etcd.metadata.annotations:
        return f"waiting for external etcd: its members are being replaced ({ready} ready)"
    return f"waiting for external etcd: {ready} of {wanted} members are ready"


def control_plane_counts(scope: Scope, control_plane: KubeadmControlPlane) -> Counts:
    """Machines of the control plane."""
    asked = scope.spec.control_plane_configuration
    status = control_plane.status
    return Counts(
        asked.count if asked else contract.desired_replicas(control_plane),
        contract.desired_replicas(control_plane),
        status.replicas or 0,
        contract.up_to_date_replicas(control_plane),
        status.ready_replicas or 0,
    )


def _control_plane_ready(scope: Scope, initialized: Condition) -> Condition:
    type_ = names.CONTROL_PLANE_READY
    control_plane = scope.capi_objects.control_plane
    if initialized.status != "True":
        return _condition(type_, "False", initialized.reason, initialized.message)
    if lost := deleted.lost_control_plane(scope.capi_objects):
        return _condition(type_, "False", Reason.CONTROL_PLANE_LOST, lost)
    absent = deleted.absent(scope.capi_objects)
    if absent or control_plane is None:
        return _false(type_, _absent(scope, absent))
    if broken := deleted.broken(scope.capi_objects):
        return _condition(type_, "False", Reason.CONTROL_PLANE_BROKEN, broken)
    if missing := deleted.missing_certificates(scope.capi_objects):
        return _condition(type_, "False", Reason.CLUSTER_CERTIFICATES_MISSING, missing)
    if unprovisioned := deleted.unprovisioned(scope.capi_objects):
        return _condition(type_, "False", Reason.CONTROL_PLANE_NOT_READY, unprovisioned)
    etcd = scope.capi_objects.etcd
    if etcd is not None and not external_etcd.is_ready(etcd):
        return _condition(type_, "False", Reason.EXTERNAL_ETCD_NOT_AVAILABLE, etcd_progress(etcd))
    if etcd is not None and not external_etcd.has_endpoints(control_plane, etcd):
        return _condition(type_, "False", Reason.EXTERNAL_ETCD_NOT_AVAILABLE, ENDPOINTS_PENDING)
    if postponed := _postponed(scope):
        return _condition(type_, "False", Reason.IN_PLACE_UPGRADE_IN_PROGRESS, postponed)
    upgrade = in_place_progress.progress(control_plane, scope.capi_objects.upgrades)
    if upgrade is not None:
        return _false(type_, upgrade)
    if refused := _refused(_changes(scope), KubeadmControlPlane.resource.kind):
        return _false(type_, refused)
    wanted = scope.components.version if scope.components and not scope.is_settled else control_plane.spec.version
    if wanted != control_plane.spec.version and (refused := in_place.refused(_changes(scope))):
        return _false(type_, refused)
    if not contract.is_observed(control_plane) or (wanted != control_plane.spec.version and not scope.is_paused):
        return _condition(type_, "False", Reason.OUTDATED_INFORMATION, f"control plane: {_NOT_REPORTED}")
    counts = control_plane_counts(scope, control_plane)
    trouble = _trouble(scope, counts, _CONTROL_PLANE)
    check = stopped_check(scope)
    if trouble is not None and check is not None:
        return _condition(type_, "False", Reason.REMEDIATION_STOPPED, _stopped(check, trouble.message))
    if trouble is not None:
        return _false(type_, trouble)
    available = condition_list.get(control_plane.status.conditions, "Available")
    if available is None or available.status != "True":
        message = available.message if available and available.message else "the control plane is not available yet"
        return _condition(type_, "False", Reason.CONTROL_PLANE_COMPONENTS_UNHEALTHY, message)
    message = (
        f"{counts.ready} of {counts.expected} control plane nodes are ready, Kubernetes {control_plane.spec.version}"
    )
    return _condition(type_, "True", Satisfied.CONTROL_PLANE_READY, message)


def _absent(scope: Scope, absent: str) -> Wait:
    """The condition for a missing object: it is recreated with the same control plane endpoint, at once or on
    request.
    """
    if scope.is_paused:
        return Wait(Reason.CLUSTER_API_OBJECT_DELETED, f"{absent}; nothing is recreated while the cluster is paused")
    if not scope.is_settled or policy(scope.cluster.metadata.annotations) not in (None, Policy.REPORT):
        message = f"{absent}; it is being recreated with the control plane endpoint of the cluster"
        return Wait(Reason.CONTROL_PLANE_NOT_READY, message)
    how = f"set annotation {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT} to recreate it"
    return Wait(Reason.CLUSTER_API_OBJECT_DELETED, f"{absent}; {how} with the control plane endpoint of the cluster")


def _postponed(scope: Scope) -> str:
    """The change of the control plane that waits for the end of its creation."""
    planned = _pending_decisions(scope)
    return planned.postponed if planned is not None else ""


def _changes(scope: Scope) -> Sequence[in_place.OwnerChange]:
    """The pending changes in place; none of them is made while any is refused."""
    planned = _pending_decisions(scope)
    return planned.owner_changes if planned is not None else ()


def _pending_decisions(scope: Scope) -> Decisions | None:
    """The decisions of the plan; None while nothing of it is done."""
    return decisions.of(scope) if not (scope.is_paused or scope.is_settled) else None


def _refused(changes: Iterable[in_place.OwnerChange], kind: str) -> Wait | None:
    """The refused in-place changes of owners of a kind."""
    return in_place.refused(change for change in changes if change.wanted.kind == kind)


def stopped_check(scope: Scope) -> Object | None:
    """The MachineHealthCheck of the control plane, if it was paused because no replacement became healthy."""
    health_check = scope.capi_objects.of(MachineHealthCheck.resource).get(
        names.control_plane_health_check(scope.key.name)
    )
    annotations = health_check.metadata.annotations if health_check is not None else {}
    is_stopped = (
        contract.PAUSED_ANNOTATION in annotations and metadata_keys.REMEDIATION_STOPPED_ANNOTATION in annotations
    )
    return health_check if is_stopped else None


def _stopped(check: Object, trouble: str) -> str:
    return (
        f"{trouble}; several machines were replaced and none became healthy, so "
        f"MachineHealthCheck {check.key} is paused until all are healthy: fix what keeps their nodes from being ready, "
        f"or remove annotation {contract.PAUSED_ANNOTATION} from it to replace machines again"
    )


def _cni_configured(scope: Scope) -> Condition:
    type_ = names.DEFAULT_CNI_CONFIGURED
    installed = scope.capi_objects.installed_cni
    if not installed:
        if not scope.capi_objects.is_available:
            message = "waiting for the control plane to be available"
            return _condition(type_, "False", Reason.CONTROL_PLANE_NOT_READY, message)
        return _condition(type_, "False", Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, CNI_IS_BEING_INSTALLED)
    if scope.leaves_cni_alone:
        message = "the CNI was installed and is no longer managed (skipUpgrade)"
        return _condition(type_, "False", Reason.SKIP_UPGRADES_FOR_DEFAULT_CNI_CONFIGURED, message)
    if scope.lost_cni:
        return _false(type_, _lost_cni(scope, scope.lost_cni))
    before = condition_list.get(scope.status.conditions, type_)
    is_compared = scope.isolation is Isolation.LAYERS or not scope.is_settled
    if scope.lost_cni is None and is_compared and before is not None and before.reason == Reason.DEFAULT_CNI_MISSING:
        return _condition(type_, before.status, before.reason, before.message)  # until the next comparison
    if not scope.is_settled and not scope.is_paused and scope.wanted_cni not in ("", installed):
        return _condition(
            type_, "False", Reason.DEFAULT_CNI_UPGRADE_IN_PROGRESS, "the CNI is being changed in the workload cluster"
        )
    return _condition(type_, "True", Satisfied.DEFAULT_CNI_CONFIGURED, f"{installed.rpartition('-')[0]} is installed")


def _lost_cni(scope: Scope, lost: Sequence[str]) -> Wait:
    """Reason and message for a missing CNI: a user has to act unless it is restored automatically."""
    message = f"new nodes can't become ready: {', '.join(lost)} is missing"
    if not scope.is_settled:
        return Wait(Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, f"{message}; it is being reinstalled")
    if policy(scope.cluster.metadata.annotations) not in (None, Policy.REPORT):
        return Wait(
            Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS,
            f"{message}; it is being restored, as annotation {metadata_keys.DRIFT_ANNOTATION} asks",
        )
    how = f"set annotation {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT} to reinstall it"
    return Wait(Reason.DEFAULT_CNI_MISSING, f"{message}; {how}, or change the Cluster: any change restores it")


def _worker_counts(scope: Scope, outdated: int) -> Counts:
    """Counts of the workers of all groups; those of removed groups count as surplus."""
    deployments = scope.capi_objects.typed_deployments
    expected = sum(group_count(group) for group in scope.spec.worker_node_group_configurations)
    statuses = [deployment.status for deployment in deployments.values()]
    replicas = sum(status.replicas or 0 for status in statuses)
    ready = sum(status.ready_replicas or 0 for status in statuses)
    desired = sum(map(contract.desired_replicas, deployments.values()))
    surplus = sum(_chosen_by_autoscaler(deployment) for deployment in deployments.values())
    unready = sum(min(_chosen_by_autoscaler(deployment), _unready(deployment)) for deployment in deployments.values())
    return Counts(expected + surplus - unready, desired, replicas - unready, replicas - unready - outdated, ready)


def _chosen_by_autoscaler(deployment: MachineDeployment) -> int:
    """The number of machines that a group's autoscaler added to its minimum: all of them are expected."""
    limits = contract.autoscaler_limits(deployment)
    return max(0, min(deployment.status.replicas or 0, limits[1]) - limits[0]) if limits is not None else 0


def _unready(deployment: MachineDeployment) -> int:
    return max(0, (deployment.status.replicas or 0) - (deployment.status.ready_replicas or 0))


def _outside_limits(deployments: Mapping[str, MachineDeployment]) -> str:
    """Groups whose number of machines is outside of their autoscaler's limits, until it changes that."""
    groups = []
    for name, deployment in sorted(deployments.items()):
        limits, number = contract.autoscaler_limits(deployment), contract.desired_replicas(deployment)
        if limits is not None and not limits[0] <= number <= limits[1]:
            groups.append(f"{name} has {number} machines, but {limits[0]} to {limits[1]} are allowed")
    return "; ".join(groups)


def _pending(scope: Scope) -> frozenset[str]:
    """MachineDeployments whose next template replaces all their machines, and is not written yet."""
    live = scope.capi_objects.typed_deployments
    planned = _pending_decisions(scope) if live and not scope.unresolved else None
    if planned is None:
        return frozenset()
    wanted = (object_ for object_ in planned.worker_groups if isinstance(object_, MachineDeployment))
    return frozenset(
        name
        for deployment in wanted
        if (name := deployment.metadata.name) in live and _machines(deployment) != _machines(live[name])
    )


def _machines(deployment: MachineDeployment) -> tuple[str | None, ...]:
    spec = deployment.spec.template.spec
    bootstrap = spec.bootstrap.config_ref
    return spec.version, spec.infrastructure_ref.name, bootstrap.name if bootstrap is not None else None


def _outdated(scope: Scope) -> dict[str, int]:
    """The number of machines to replace, by group: all of a group whose template waits to be written."""
    pending, numbers = _pending(scope), {}
    for name, deployment in scope.capi_objects.typed_deployments.items():
        replicas = deployment.status.replicas or 0
        counted = max(0, replicas - contract.up_to_date_replicas(deployment))
        to_replace = rollouts.outdated_machines(deployment, scope.capi_objects.sets_of(name))
        numbers[name] = replicas if name in pending else min(replicas, max(counted, to_replace))
    return numbers


def _later(scope: Scope, outdated: Mapping[str, int]) -> tuple[int, int]:
    """The numbers of machines that will be upgraded in place as soon as their group may be written, and of outdated
    ones in other groups.

    The strategy does not decide that: with a fallback, machines may be replaced. All machines of a group are upgraded,
    even if their version stays.
    """
    held = {
        change.wanted.metadata.name for change in _changes(scope) if change.classified.effect is MachineEffect.IN_PLACE
    }
    deployments = scope.capi_objects.typed_deployments
    others = sum(number for name, number in outdated.items() if name not in held)
    return sum(deployments[name].status.replicas or 0 for name in held & deployments.keys()), others


def _workers_ready(scope: Scope, initialized: Condition) -> Condition:
    type_ = names.WORKERS_READY
    if initialized.status != "True":
        return _condition(
            type_, "False", Reason.CONTROL_PLANE_NOT_INITIALIZED, "workers join when the control plane is available"
        )
    deployments = scope.capi_objects.typed_deployments
    upgrades = [
        in_place_progress.progress(deployment, scope.capi_objects.upgrades) for deployment in deployments.values()
    ]
    upgrades.append(_refused(_changes(scope), MachineDeployment.resource.kind))
    # A stopped upgrade matters more than progress.
    progress = sorted((wait for wait in upgrades if wait is not None), key=_priority)
    if progress:
        return _condition(type_, "False", progress[-1].reason, "; ".join(wait.message for wait in progress))
    if not all(contract.is_observed(each) or _is_only_paused(scope, each) for each in deployments.values()):
        return _condition(type_, "False", Reason.OUTDATED_INFORMATION, f"workers: {_NOT_REPORTED}")
    if outside := _outside_limits(deployments):
        message = f"{outside}: waiting for the cluster autoscaler"
        return _condition(type_, "False", Reason.AUTOSCALER_CONSTRAINT_NOT_MET, message)
    outdated = _outdated(scope)
    counts = _worker_counts(scope, sum(outdated.values()))
    later, replaced = _later(scope, outdated)
    if later:
        if refused := in_place.refused(_changes(scope)):
            return _false(type_, refused)
        others = f", and {replaced} replaced" if replaced else ""
        message = f"{later} worker machines are upgraded in place after the control plane{others}"
        return _condition(type_, "False", Reason.IN_PLACE_UPGRADE_IN_PROGRESS, message)
    trouble = _trouble(scope, counts, "worker")
    if trouble is not None:
        return _false(type_, trouble)
    sets = scope.capi_objects.sets_of
    if not all(rollouts.has_current_set(deployment, sets(name)) for name, deployment in deployments.items()):
        return _condition(
            type_, "False", Reason.OUTDATED_INFORMATION, f"workers: {_NOT_REPORTED}"
        )  # counts of the previous template
    return _condition(
        type_, "True", Satisfied.WORKERS_READY, f"{counts.ready} of {counts.expected} worker nodes are ready"
    )


def _is_only_paused(scope: Scope, deployment: MachineDeployment) -> bool:
    """True if the spec of a paused group asks for nothing but what its machines are: Cluster API does not report that
    it has observed the pause itself."""
    if not deployment.spec.paused:
        return False
    wanted = of_machine_template(deployment.spec.template)
    sets = [each for each in scope.capi_objects.sets_of(deployment.metadata.name) if contract.desired_replicas(each)]
    is_current = all(
        machine_change(of_machine_template(each.spec.template), wanted).kind is ChangeKind.NOTHING for each in sets
    )
    return is_current and sum(map(contract.desired_replicas, sets)) == contract.desired_replicas(deployment)


def _priority(wait: Wait) -> tuple[bool, str, str]:
    return (wait.reason != Reason.IN_PLACE_UPGRADE_IN_PROGRESS, wait.reason, wait.message)


def _trouble(scope: Scope, counts: Counts, what: str) -> Wait | None:
    """The first obstacle to all machines being created, up to date and ready."""
    if counts.outdated:
        message = f"{what} machines are being replaced: {counts.up_to_date} of {counts.expected} are up to date"
        # Includes machines that never come up.
        coming = f"; {counts.ready} of {counts.replicas} nodes are ready" if counts.ready < counts.replicas else ""
        return Wait(Reason.ROLLING_UPGRADE_IN_PROGRESS, f"{message}, {counts.outdated} to replace{coming}")
    if counts.replicas == counts.desired != counts.expected and (resting := _not_scaling(scope)) is not None:
        there = f"there are {counts.replicas} {what} machines, {counts.expected} in the spec"
        if counts.replicas < counts.expected:
            there = f"{counts.replicas} of {counts.expected} {what} machines exist"
        return Wait(resting.reason, f"{there}; {resting.message}")
    if counts.replicas < counts.expected:
        return Wait(Reason.SCALING_UP, f"scaling up {what} machines: {counts.replicas} of {counts.expected} exist")
    if counts.replicas > counts.expected:
        return Wait(
            Reason.SCALING_DOWN, f"scaling down {what} machines: {counts.replicas} exist, {counts.expected} stay"
        )
    if counts.ready < counts.expected:
        message = f"{counts.ready} of {counts.expected} {what} nodes are ready"
        return Wait(Reason.NODES_NOT_READY, f"{message}; {_way_out(scope, what)}" if scope.is_settled else message)
    return None


def _way_out(scope: Scope, what: str) -> str:
    """The remedy for nodes that were ready, and are no longer."""
    how = f"if this persists, `espalier describe cluster {scope.key.name} -n {scope.key.namespace}` says which and why"
    replaced = "deleting a Machine replaces it and its infrastructure"
    return how if what == _CONTROL_PLANE else f"{how}; {replaced}"


def _not_scaling(scope: Scope) -> Wait | None:
    """Why a different number of replicas in the Cluster API object is not corrected; None if it is about to be."""
    if scope.is_paused and scope.is_management:
        return Wait(Reason.PAUSED, "`espalier upgrade cluster` scales a management cluster")
    if scope.is_paused:
        return Wait(Reason.PAUSED, "nothing is scaled while the cluster is paused")
    if not scope.is_settled or policy(scope.cluster.metadata.annotations) not in (None, Policy.REPORT):
        return None
    how = f"set annotation {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT} to correct it"
    return Wait(Reason.REPLICAS_CHANGED, f"replicas were changed in a Cluster API object: {how}, or change the Cluster")


def _false(type_: str, because: Wait) -> Condition:
    return _condition(type_, "False", because.reason, because.message)
