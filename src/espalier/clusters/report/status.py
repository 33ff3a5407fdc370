"""The status of a Cluster: conditions and fields. Pure: from a scope and the outcome of the reconcile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.conditions import condition as _condition
from espalier.api.eksa.cluster import ClusterStatus, EksdReleaseRef, Phase
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.text import redaction
from espalier.clusters.design import names
from espalier.clusters.observe.scope import Scope
from espalier.clusters.report import certificates, overdue, progress, readiness, synced
from espalier.clusters.report.validity import known_problem, missing_objects, problem, record_problem, standing_problem
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.leadership.write_limits import TooManyWrites

ORDER = (
    names.CONTROL_PLANE_INITIALIZED,
    names.CONTROL_PLANE_READY,
    names.DEFAULT_CNI_CONFIGURED,
    names.WORKERS_READY,
)
"""The conditions that Ready summarizes, in the order in which they become True."""


_SHOWN = (
    *ORDER,
    names.READY,
    names.SYNCED,
    names.SPEC_VALID,
    names.KUBECONFIG_COPIED,
    names.CERTIFICATES_VALID,
    *progress.CONDITIONS,
)


def status_of(
    scope: Scope,
    outcome: Outcome,
    now: datetime,
    synced_condition: Condition | None = None,
    kubeconfig_condition: Condition | None = None,
) -> ClusterStatus:
    """The status alone; arguments are those of `reported_after`."""
    return reported_after(scope, outcome, now, synced_condition, kubeconfig_condition).status


@dataclass(frozen=True)
class Reported:
    """The status after a reconcile, and the seconds until it changes by itself; None if it does not."""

    status: ClusterStatus
    again: float | None


def reported_after(
    scope: Scope,
    outcome: Outcome,
    now: datetime,
    synced_condition: Condition | None = None,
    kubeconfig_condition: Condition | None = None,
) -> Reported:
    """The status after a reconcile. Equal scopes and outcomes give equal statuses at the same time.

    `synced_condition` is given if the reconcile compared live and rendered objects, `kubeconfig_condition` if there is
    no copy of the kubeconfig.
    """
    parts = _parts(scope)
    due = [overdue.complete(scope, parts, now)] if not scope.is_deleted else []
    ready = _ready(scope, parts, outcome)  # with the message of a part, which is complete by now
    if scope.is_deleted or all(ready.message != part.message for part in parts):
        due.append(overdue.complete(scope, [ready], now))
    if synced_condition is None:
        synced_condition = synced.unseen(scope)
        if synced_condition is not None and synced_condition.reason == Reason.NOT_YET_COMPARED:
            due.append(overdue.complete(scope, [synced_condition], now))
    # A requested change may end what failed before: nobody should give up until it is judged.
    failure = _failure(scope, ready, outcome) if scope.settling is None else None
    invalid = _spec_problem(scope) if not scope.is_undecided else None
    others = (
        synced_condition,
        kubeconfig_condition,
        certificates.condition(scope, now) if not scope.is_deleted else None,
        progress.condition_of(scope, ready, failure),
        _spec_condition(scope, invalid),
    )
    is_done = isinstance(outcome, Done) and not scope.is_paused and not scope.is_deleted
    is_record = readiness.is_management_cluster_record(scope) and ready.status == "True"  # there is nothing to do
    old = scope.status
    new = ClusterStatus(
        conditions=_with_times(scope, [*parts, ready, *filter(None, others)], now),
        phase=_phase(scope, failure is not None and ready.status != "True", is_settled=is_done or scope.is_settled),
        spec_valid=old.spec_valid if _is_unjudged(scope) or scope.is_undecided else invalid is None,
        ready=ready.status == "True",
        control_plane_ready=condition_list.is_true(parts, names.CONTROL_PLANE_READY),
        failure_reason=failure.reason if failure else None,
        failure_message=failure.message if failure else None,
        observed_generation=scope.generation if is_done or is_record else old.observed_generation,
        children_observed_generation=scope.children_generation if is_done else old.children_observed_generation,
        reconciled_generation=old.reconciled_generation,
        children_reconciled_generation=old.children_reconciled_generation,
        eksd_release_ref=_distro(scope) or old.eksd_release_ref,
        cluster_certificate_info=old.cluster_certificate_info,
    )
    return Reported(new, min((seconds for seconds in due if seconds is not None), default=None))


def _parts(scope: Scope) -> list[Condition]:
    """The conditions that Ready summarizes."""
    parts = readiness.conditions(scope) if scope.settling is None else _parts_of_what_exists(scope, scope.settling)
    if not scope.is_deleted:
        return parts
    # Advice for a cluster that is kept does not help one being deleted.
    return [
        part if part.status == "True" and not _is_being_deleted(scope, part) else _deleting(part.type) for part in parts
    ]


def _spec_condition(scope: Scope, invalid: Wait | None) -> Condition | None:
    """Condition SpecValid, which exists while it is False; the present one until the spec is judged."""
    if scope.is_undecided:
        present = condition_list.get(scope.status.conditions, names.SPEC_VALID)
        return msgspec.structs.replace(present) if present is not None else None
    return _false(names.SPEC_VALID, invalid) if invalid is not None else None


def reported(object_: Object) -> ClusterStatus:
    """The last reported status of a Cluster whose spec can't be decoded."""
    try:
        return msgspec.convert(object_.tree.get("status") or {}, ClusterStatus)
    except msgspec.ValidationError:
        return ClusterStatus()


def unreadable(object_: Object, fault: Fault, now: datetime) -> ClusterStatus:
    """The status of a Cluster whose spec can't be decoded. Conditions about its machines are removed."""
    old = reported(object_)
    ready = _condition(names.READY, "False", fault.reason, fault.message)
    ready.observed_generation = object_.metadata.generation
    stalled = _condition(names.STALLED, "True", fault.reason, fault.message)
    stalled.observed_generation = object_.metadata.generation
    before = [condition for condition in old.conditions if condition.type in (names.READY, names.STALLED)]
    return msgspec.structs.replace(
        old,
        conditions=condition_list.set(condition_list.set(before, ready, now), stalled, now),
        phase="Deleting" if object_.metadata.deletion_timestamp else "Failed",
        spec_valid=False,
        ready=False,
        failure_reason=fault.reason,
        failure_message=fault.message,
    )


def _parts_of_what_exists(scope: Scope, wait: Wait) -> list[Condition]:
    """The conditions under Ready before a requested change has settled: of the objects that exist, as while a cluster
    is paused. Nothing is said to be replaced that nobody has begun to replace."""
    parts = readiness.conditions(msgspec.structs.replace(scope, is_left_alone=True))
    return [_false(part.type, wait) if part.reason == Reason.PAUSED else part for part in parts]


def _is_being_deleted(scope: Scope, part: Condition) -> bool:
    """True if a part is being deleted: the readiness of its remaining machines is meaningless."""
    cluster = scope.capi_objects.cluster_object
    begun = cluster is None or cluster.metadata.deletion_timestamp is not None
    return begun and part.type in (names.CONTROL_PLANE_READY, names.WORKERS_READY)


def _deleting(type_: str) -> Condition:
    return _condition(type_, "False", Reason.DELETING, "the cluster is being deleted")


def first_obstacle(parts: Sequence[Condition]) -> Condition | None:
    """The first condition under Ready that is not True. A CNI that is not managed does not count."""
    by_type = {part.type: part for part in parts}
    for type_ in ORDER:
        part = by_type.get(type_)
        if (
            part is not None
            and part.status != "True"
            and part.reason != Reason.SKIP_UPGRADES_FOR_DEFAULT_CNI_CONFIGURED
        ):
            return part
    return None


_BESIDE_EKS_ANYWHERE = (Reason.NOT_ADOPTED, Reason.EKS_ANYWHERE_RUNS)
"""Reasons for which nothing is written of a cluster that may be as its spec asks for."""


def _ready(scope: Scope, parts: Sequence[Condition], outcome: Outcome) -> Condition:
    """Ready: as specified, and usable. The spec may be newer than the one of the other conditions."""
    if scope.is_deleted:
        if not isinstance(outcome, Wait | Fault):
            return _deleting(names.READY)
        reason = outcome.reason if outcome.reason in names.FAILURES else Reason.DELETING
        return _condition(names.READY, "False", reason, outcome.message)
    obstacle = first_obstacle(parts)
    is_false_record = scope.is_self_managed and not scope.is_management
    is_held = isinstance(outcome, Wait) and outcome.reason in _BESIDE_EKS_ANYWHERE
    is_current = not is_held and (
        scope.is_settled or (scope.is_paused and not is_false_record and not scope.is_undecided)
    )
    if isinstance(outcome, Wait | Fault) and not is_current and (obstacle is None or _is_worth_reporting(outcome)):
        return _condition(names.READY, "False", outcome.reason, outcome.message)
    if obstacle is not None:
        return _condition(names.READY, obstacle.status, obstacle.reason, obstacle.message)
    return _condition(names.READY, "True", Satisfied.CLUSTER_READY, _usable(scope))


def _failure(scope: Scope, ready: Condition, outcome: Outcome) -> Wait | None:
    """The failure that somebody must resolve: from the outcome of the reconcile, else from the condition that is not
    True.
    """
    if isinstance(outcome, Wait | Fault) and outcome.reason in names.FAILURES:
        return Wait(outcome.reason, outcome.message)
    if ready.status != "True" and ready.reason in names.FAILURES and not scope.is_paused and not scope.is_deleted:
        return Wait(ready.reason, ready.message)
    return None


def _is_worth_reporting(outcome: Wait | Fault) -> bool:
    """True if an outcome is more precise than the conditions. Of faults, only those that retries do not end."""
    if isinstance(outcome, Wait):
        return outcome.reason not in readiness.PROGRESS and outcome.reason != Reason.SETTLING
    reasons = (Reason.WORKLOAD_CLUSTER_UNREACHABLE, Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, TooManyWrites.__name__)
    return outcome.reason in (*names.FAILURES, *reasons)


def _usable(scope: Scope) -> str:
    control_plane = scope.capi_objects.control_plane
    if control_plane is None:
        return readiness.SERVES_THIS_API
    workers = sum(deployment.status.ready_replicas or 0 for deployment in scope.capi_objects.typed_deployments.values())
    nodes = (control_plane.status.ready_replicas or 0) + workers
    version = control_plane.spec.version
    behind = {
        deployment.spec.template.spec.version or "" for deployment in scope.capi_objects.typed_deployments.values()
    } - {
        version,
        "",
    }
    workers_too = f", workers {' and '.join(sorted(behind))}" if behind else ""
    return f"{nodes} nodes are ready, Kubernetes {version}{workers_too}"


def _phase(scope: Scope, failed: bool, *, is_settled: bool) -> Phase:
    if scope.is_deleted:
        return "Deleting"
    capi_objects = scope.capi_objects
    if capi_objects.cluster is None and readiness.is_management_cluster_record(scope):
        return "Running"
    if failed and not (capi_objects.cluster is None and scope.missing):
        return "Failed"
    if capi_objects.cluster is None:
        return "Pending"
    if not scope.was_reconciled and not is_settled:
        return "Creating"
    return "Running" if is_settled or scope.is_paused else "Upgrading"


def _spec_problem(scope: Scope) -> Wait | None:
    """The reason why the spec is invalid, if it is checked at all.

    A fully reconciled cluster continues even if others change; this is reported beside Ready.
    """
    if _is_unjudged(scope):
        return None
    if scope.is_management and scope.is_paused:
        return record_problem(scope)
    if scope.missing:
        return missing_objects(scope.missing)
    return standing_problem(scope) if scope.is_settled else problem(scope)


def _is_unjudged(scope: Scope) -> bool:
    """True for paused Clusters, except the record of a management cluster, which concerns others; and while objects
    may still come."""
    return scope.is_deleted or (scope.is_paused and not scope.is_self_managed) or _is_awaiting(scope)


def _is_awaiting(scope: Scope) -> bool:
    """True while objects may still come that decide whether the spec is valid: step `find_children` waits for them."""
    return scope.grace > 0 and not scope.is_self_managed and known_problem(scope) is None


def _distro(scope: Scope) -> EksdReleaseRef | None:
    if scope.components is None or scope.is_self_managed:
        return None
    name = scope.components.bundle.eks_d.name
    return EksdReleaseRef("distro.eks.amazonaws.com/v1alpha1", "Release", name, SYSTEM_NAMESPACE)


def _with_times(scope: Scope, parts: Sequence[Condition], now: datetime) -> list[Condition]:
    known = {part.type for part in parts}
    conditions = [old for old in scope.status.conditions if old.type in known]
    for part in parts:
        if part.type != names.SPEC_VALID or not scope.is_undecided:  # else it is that of an earlier generation
            part.observed_generation = scope.generation
        part.message = redaction.concealed(part.message, scope.secrets)
        conditions = condition_list.set(conditions, part, now)
    return sorted(conditions, key=lambda part: _SHOWN.index(part.type))


def _false(type_: str, because: Wait) -> Condition:
    return _condition(type_, "False", because.reason, because.message)
