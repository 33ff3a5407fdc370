"""Steps that write the control plane and the worker node groups, and wait for their machines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineHealthCheck
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.machines import remediation
from espalier.clusters.act.cni_steps import AGAIN
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.step import Decision, Write, decisions_of, render_input_of
from espalier.clusters.design import names
from espalier.clusters.observe.machines import in_place_progress
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import plan
from espalier.clusters.report import readiness
from espalier.clusters.report.status import first_obstacle
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait


def make_control_plane(scope: Scope) -> Decision:
    """Write the objects of the control plane; one that upgrades in place is created completely before it is changed."""
    decisions = decisions_of(scope)
    wanted = decisions.control_plane
    due = (
        [object_ for object_ in wanted if not isinstance(object_, KubeadmControlPlane)]
        if decisions.postponed
        else wanted
    )
    return _write(scope, due, wanted, Event.CONTROL_PLANE_APPLIED)


def begin_workers(scope: Scope) -> Decision:
    """Create the worker node groups of a new cluster together with its control plane: machines join when the API server
    answers.

    Groups are only created here, and only while the whole control plane has its version: no node may be newer than its
    API server. Changes of groups come later.
    """
    capi_objects, decisions = scope.capi_objects, decisions_of(scope)
    cluster, control_plane = capi_objects.cluster, capi_objects.control_plane
    if cluster is None or contract.is_control_plane_initialized(cluster):
        return Continue()
    if control_plane is None or control_plane.spec.version != decisions.render_input.of_control_plane.version:
        return Continue()
    if not contract.is_up_to_date(control_plane):
        return Continue()
    new = [
        object_ for object_ in decisions.worker_groups if object_.metadata.name not in capi_objects.of(object_.resource)
    ]
    return _write(scope, new, new, Event.WORKERS_APPLIED)


def await_control_plane(scope: Scope) -> Decision:
    """Wait until the whole control plane has the desired version: nothing else changes before."""
    capi_objects = scope.capi_objects
    control_plane = capi_objects.control_plane
    upgrade = in_place_progress.progress(control_plane, capi_objects.upgrades) if control_plane else None
    if upgrade is not None:
        return upgrade
    if capi_objects.is_available:
        return Continue()
    etcd = capi_objects.etcd
    if control_plane is not None and etcd is not None and not external_etcd.has_endpoints(control_plane, etcd):
        return Wait(Reason.EXTERNAL_ETCD_NOT_AVAILABLE, readiness.ENDPOINTS_PENDING)
    if control_plane is None or not contract.is_observed(control_plane):
        return Wait(Reason.OUTDATED_INFORMATION, "waiting for Cluster API to observe the control plane")
    available = condition_list.get(control_plane.status.conditions, "Available")
    if available is None or available.status != "True":
        detail = f": {available.message}" if available and available.message else ""
        message = f"waiting for the control plane to be available{detail}"
        return Wait(Reason.CONTROL_PLANE_NOT_READY, message, after=_again(scope))
    at = control_plane.status.version or "no version"
    message = f"waiting for the control plane to reach version {control_plane.spec.version}; it is at {at}"
    return Wait(Reason.ROLLING_UPGRADE_IN_PROGRESS, message, after=_again(scope))


def await_creation(scope: Scope) -> Decision:
    """Wait while changes of the control plane wait for its creation; the steps that follow write them."""
    postponed = decisions_of(scope).postponed
    return Wait(Reason.IN_PLACE_UPGRADE_IN_PROGRESS, postponed) if postponed else Continue()


def make_workers(scope: Scope) -> Decision:
    """Write the objects of all worker node groups."""
    wanted = decisions_of(scope).worker_groups
    return _write(scope, wanted, wanted, Event.WORKERS_APPLIED)


def remove_workers(scope: Scope) -> Decision:
    """Delete worker node groups that are not in the spec."""
    render_input, capi_objects = render_input_of(scope), scope.capi_objects
    gone = plan.superfluous_workers(render_input, capi_objects)
    leaving = plan.superfluous_workers(render_input, capi_objects, at_once=True)
    return Write(gone, Event.WORKERS_REMOVED, later=Write(leaving, Event.WORKERS_REMOVED))


def await_readiness(scope: Scope) -> Decision:
    """Wait until every part of the cluster is as specified and ready."""
    obstacle = first_obstacle(readiness.conditions(scope))
    if obstacle is not None:
        return Wait(obstacle.reason, obstacle.message, after=_again(scope))
    going = plan.going_workers(render_input_of(scope), scope.capi_objects)
    if going:
        return Wait(Reason.SCALING_DOWN, f"waiting for MachineDeployment {', '.join(going)} to be deleted")
    return Continue()


def remove_unused_templates(scope: Scope) -> Decision:
    """Delete templates that nothing refers to."""
    return Write(plan.unused_templates(scope.capi_objects), Event.TEMPLATES_REMOVED)


def remove_superfluous_extras(scope: Scope) -> Decision:
    """Delete extra objects of the provider that nothing uses any more."""
    return Write(plan.superfluous_extras(render_input_of(scope), scope.capi_objects), Event.EXTRA_OBJECTS_REMOVED)


def make_health_checks(scope: Scope) -> Decision:
    """Create all MachineHealthChecks. Most exist already, from when the first node was ready."""
    decisions = decisions_of(scope)
    wanted = [*decisions.control_plane, *decisions.worker_groups]
    checks = [object_ for object_ in wanted if object_.resource == MachineHealthCheck.resource]
    return Write(decisions.changes(checks), Event.HEALTH_CHECKS_APPLIED)


async def limit_remediation(ctx: ClusterContext) -> Outcome:
    """Pause the control plane's MachineHealthCheck when no replacement becomes healthy.

    Cluster API limits remediation only if the control plane configures it, which EKS Anywhere's do not. Settled
    clusters are included: pausing the check changes no cluster, it ends a change that nobody asked for.
    """
    capi_objects = ctx.scope.capi_objects
    check = capi_objects.of(MachineHealthCheck.resource).get(names.control_plane_health_check(ctx.scope.key.name))
    control_plane = capi_objects.control_plane
    if check is None or control_plane is None or check.metadata.deletion_timestamp is not None:
        return Continue()
    annotations = check.metadata.annotations
    status, wanted = control_plane.status, contract.desired_replicas(control_plane)
    are_all_ready = contract.is_observed(control_plane) and status.ready_replicas == status.replicas == wanted
    last = remediation.last_remediation(status.last_remediation)
    if are_all_ready and metadata_keys.REMEDIATION_STOPPED_ANNOTATION in annotations:
        gone = dict.fromkeys((metadata_keys.REMEDIATION_STOPPED_ANNOTATION, contract.PAUSED_ANNOTATION))
        await ctx.annotate(MachineHealthCheck.resource, check, gone)
        ctx.event("Normal", Event.REMEDIATION_RESUMED, f"MachineHealthCheck {check.key} is no longer paused")
        ctx.refresh()
    elif not are_all_ready and last is not None and last.retry_count >= RETRIES:
        which = f"{last.machine}@{last.at}"
        if (
            annotations.get(metadata_keys.REMEDIATION_STOPPED_ANNOTATION) != which
            and contract.PAUSED_ANNOTATION not in annotations
        ):
            paused = {metadata_keys.REMEDIATION_STOPPED_ANNOTATION: which, contract.PAUSED_ANNOTATION: "true"}
            await ctx.annotate(MachineHealthCheck.resource, check, paused)
            message = f"paused MachineHealthCheck {check.key}: no replacement of an unhealthy machine became healthy"
            ctx.event("Warning", Reason.REMEDIATION_STOPPED, message)
            ctx.refresh()
    return Continue()


RETRIES = 2
"""The number of consecutive replacements of an unhealthy machine after which somebody has to act."""


def _write(scope: Scope, due: Sequence[KubeObject], wanted: Sequence[KubeObject], reason: str) -> Write:
    """Write what is `due` of the wanted objects, unless Cluster API would replace machines instead of upgrading them in
    place; the others later.
    """
    decisions = decisions_of(scope)

    def written(objects: Sequence[KubeObject], *, now: Iterable[KubeObject]) -> Write:
        return Write(decisions.changes(now), reason, until=decisions.obstacle(objects))

    return written(due, now=_without_early_health_checks(scope, due))._replace(later=written(wanted, now=wanted))


def _without_early_health_checks(scope: Scope, wanted: Iterable[KubeObject]) -> list[KubeObject]:
    """The objects without MachineHealthChecks that are not due yet: while no node can be ready, they would replace all
    machines.

    An existing one stays and is kept up to date.
    """
    capi_objects = scope.capi_objects
    live = capi_objects.of(MachineHealthCheck.resource)
    has_cni = capi_objects.installed_cni == scope.wanted_cni or bool(capi_objects.installed_cni)
    ready = capi_objects.control_plane.status.ready_replicas if capi_objects.control_plane else 0
    if has_cni and ready:
        return list(wanted)
    return [
        object_
        for object_ in wanted
        if object_.resource != MachineHealthCheck.resource or object_.metadata.name in live
    ]


def _again(scope: Scope) -> float | None:
    """Seconds until the CNI is compared again while waiting for nodes: the CNI is not watched."""
    return AGAIN if scope.capi_objects.installed_cni and scope.compares_cni else None
