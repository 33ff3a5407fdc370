"""The steps of a reconcile, in order. Each completes its part, and reports what it waits for.

A decision that depends only on the scope is a pure function: `Step` acts on it, and previews call it too. Plain
coroutines among the steps only act: their results are not known in advance.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import core
from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineHealthCheck
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.group import CLUSTER_FINALIZER
from espalier.api.kinds import KubeObject
from espalier.api.meta import ObjectMeta
from espalier.clusterapi import contract, external_etcd, remediation
from espalier.clusters import copying, deleted, generated, in_place, names, plan, readiness
from espalier.clusters.cni_steps import AGAIN, compare_cni, install_cni, restore_cni
from espalier.clusters.context import Context
from espalier.clusters.drift_correction import oversee
from espalier.clusters.plan import Change, Removal
from espalier.clusters.provider import extra_kinds
from espalier.clusters.references import GateKey
from espalier.clusters.render import authenticator
from espalier.clusters.render_input import Design
from espalier.clusters.rules import messages
from espalier.clusters.rules.sharing import linked
from espalier.clusters.scope import Scope, read
from espalier.clusters.status import first_obstacle
from espalier.clusters.validity import missing_objects, problem, unresolved_values
from espalier.clusters.workload_steps import (
    begin_workload_objects,
    compare_workload_objects,
    install_workload_objects,
)
from espalier.kube.pki import Authority
from espalier.runtime import owners
from espalier.runtime.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.writer import Precondition

CLUSTER = eksa.Cluster.resource


class Write(NamedTuple):
    """Cluster API objects to write and to delete, in order; an event with this reason is recorded for each."""

    what: Sequence[Change | Removal]
    reason: str


Decision: TypeAlias = Outcome | Write


async def write(ctx: Context, decision: Decision) -> Outcome:
    """Act on a decision: write and delete, then continue with the next step."""
    if not isinstance(decision, Write):
        return decision
    await ctx.write(decision.what, decision.reason)
    return Continue()


class Step:
    """A decision over the scope and its action, named in logs after the decision."""

    def __init__(
        self,
        decide: Callable[[Scope], Decision],
        act: Callable[[Context, Decision], Awaitable[Outcome]] = write,
        *,
        awaits: bool = False,
    ) -> None:
        self.decide = decide
        self.awaits = awaits
        """True if the step waits for other controllers to report on the written objects."""
        self.__name__ = decide.__name__
        self._act = act

    async def __call__(self, ctx: Context) -> Outcome:
        """Decide and act."""
        return await self._act(ctx, self.decide(ctx.scope))


async def add_finalizer(ctx: Context) -> Outcome:
    """Add the finalizer, which keeps the Cluster until all its objects are gone."""
    scope, writer = ctx.scope, ctx.tools.writer
    if CLUSTER_FINALIZER not in scope.cluster.metadata.finalizers:
        held = await writer.add_finalizer(CLUSTER, scope.object, CLUSTER_FINALIZER)
        ctx.scope = msgspec.structs.replace(scope, object=held, cluster=read(held))
    return Continue()


def choose_release(scope: Scope) -> Decision:
    """Choose the management cluster's release for a new Cluster without one; never for a Cluster with machines."""
    spec, management = scope.spec, scope.management
    if spec.eksa_version is not None or spec.bundles_ref is not None or scope.is_self_managed:
        return Continue()
    if scope.capi_objects.control_plane is not None:
        return Continue()  # `check` reports what is missing
    if management is None:
        return check(scope)
    if management.spec.eksa_version is None:
        message = f'management cluster "{management.metadata.name}" has no eksaVersion to take; set spec.eksaVersion'
        return Wait(names.EKSA_VERSION_INVALID, message)
    return Wait(_RELEASE_CHOSEN, f"took release {management.spec.eksa_version} from the management cluster")


_RELEASE_CHOSEN = "ReleaseChosen"


async def take_release(ctx: Context, decision: Decision) -> Outcome:
    """Write the chosen release into the spec."""
    management = ctx.scope.management
    if not isinstance(decision, Wait) or decision.reason != _RELEASE_CHOSEN or management is None:
        return await write(ctx, decision)
    # With the resourceVersion that was read: somebody may have set a release since then.
    chosen = {"spec": {"eksaVersion": management.spec.eksa_version}}
    await ctx.tools.writer.merge(CLUSTER, ctx.scope.object, chosen)
    ctx.event("Normal", "ReleaseChosen", decision.message)
    return decision


def find_children(scope: Scope) -> Decision:
    """Wait until all linked objects exist, and the provider has resolved their values."""
    return missing_objects(scope.awaited) or unresolved_values(scope) or Continue()


async def own_children(ctx: Context) -> Outcome:
    """Own linked objects, so that they are deleted with the Clusters that use them; not those of the management
    cluster.

    Their owner is unknown as long as the record of the management cluster is.
    """
    writer, management = ctx.tools.writer, ctx.scope.management
    if management is None:
        return Continue()
    owner = owners.owner_reference(ctx.scope.object, controller=False, block_owner_deletion=False)
    lent = linked(management)
    for resource, child in ctx.scope.children:
        if (child.kind, child.key) in lent:
            await writer.remove_owner(resource, child, owner.uid)
        else:
            await writer.add_owner(resource, child, owner)
    return Continue()


async def leave_children(ctx: Context) -> Outcome:
    """Disown linked objects that another Cluster names too, so that they are not deleted with this one."""
    for resource, child in ctx.tools.observer.lent_by(ctx.scope.object):
        await ctx.tools.writer.remove_owner(resource, child, ctx.scope.object.metadata.uid)
    return Continue()


async def make_gate_key(ctx: Context) -> Outcome:
    """Create the key for digests of credentials, if there are any.

    A lost key is created anew: objects that carry credentials are then compared once more, without a change.
    """
    if not ctx.scope.credentials or ctx.scope.gate_key:
        return Continue()
    key = secrets.token_bytes(32)
    metadata = ObjectMeta(name=names.GATE_KEY.name, namespace=names.GATE_KEY.namespace)
    body = core.Secret(metadata=metadata, data={names.GATE_KEY_FIELD: key})
    if await ctx.tools.writer.create(core.SECRET, body) is None:  # another reconcile or a user created it first
        message = (
            f"waiting for Secret {names.GATE_KEY} to show in the cache; if it lacks {names.GATE_KEY_FIELD}, delete it"
        )
        return Wait("WaitingForGateKey", message, after=1.0)
    ctx.scope = msgspec.structs.replace(ctx.scope, gate_key=GateKey(key))
    return Continue()


async def make_authenticator_keys(ctx: Context) -> Outcome:
    """The keys of the webhook of AWS IAM Authenticator are made once: machines of the control plane hold them."""
    design, objects = ctx.scope.design, ctx.scope.capi_objects
    if design is None or not authenticator.is_asked_for(design) or ctx.scope.is_settled:
        return Continue()
    body = authenticator.secret(design)
    found = objects.of(core.SECRET).get(body.metadata.name)
    if found is not None and authenticator.has_content(found.tree):
        return Continue()
    now = ctx.tools.clock.now()
    pair = Authority.create(authenticator.NAME, now=now).issue_server(
        authenticator.NAME, names=["localhost", "127.0.0.1"], now=now, days=AUTHENTICATOR_DAYS
    )
    await ctx.open_gate()
    filled, writer = authenticator.filled(body, pair.certificate, pair.key), ctx.tools.writer
    if found is None:  # not applied: what is rendered of it has no content, and would take it away again
        await writer.create(core.SECRET, filled)
    else:
        await writer.merge(core.SECRET, found, {"data": msgspec.to_builtins(filled)["data"]}, Precondition.UID)
    ctx.refresh()
    return Continue()


AUTHENTICATOR_DAYS = 3650
"""How long they are valid, as an authority's: only new machines would get others."""


def carry_credentials(scope: Scope) -> Decision:
    """Write only the objects that carry credentials, if only credentials changed.

    Other rendered differences wait: a new password must not replace machines.
    """
    if not scope.takes_credentials or scope.is_restored_without_objects:
        return Continue()
    found = problem(scope)
    if found:
        return found
    return Write(
        plan.changes(plan.carriers(_design(scope), scope.capi_objects), scope.capi_objects), "CredentialsApplied"
    )


async def limit_remediation(ctx: Context) -> Outcome:
    """Pause the control plane's MachineHealthCheck when no replacement becomes healthy.

    Cluster API limits remediation only if the control plane configures it, which EKS Anywhere's do not. Settled
    clusters are included: pausing the check changes no cluster, it ends a change that nobody asked for.
    """
    capi_objects = ctx.scope.capi_objects
    check = capi_objects.of(MachineHealthCheck.resource).get(names.control_plane_health_check(ctx.scope.key.name))
    control_plane = capi_objects.control_plane
    if check is None or control_plane is None or check.metadata.deletion_timestamp is not None:
        return Continue()
    said = check.metadata.annotations
    status, wanted = control_plane.status, contract.desired_replicas(control_plane)
    are_all_ready = contract.is_observed(control_plane) and status.ready_replicas == status.replicas == wanted
    last = remediation.last(status.last_remediation)
    if are_all_ready and names.REMEDIATION_STOPPED_ANNOTATION in said:
        gone = dict.fromkeys((names.REMEDIATION_STOPPED_ANNOTATION, contract.PAUSED_ANNOTATION))
        await ctx.annotate(MachineHealthCheck.resource, check, gone)
        ctx.event("Normal", "RemediationResumed", f"MachineHealthCheck {check.key} is no longer paused")
        ctx.refresh()
    elif not are_all_ready and last is not None and last.retry_count >= RETRIES:
        which = f"{last.machine}@{last.at}"
        if said.get(names.REMEDIATION_STOPPED_ANNOTATION) != which and contract.PAUSED_ANNOTATION not in said:
            paused = {names.REMEDIATION_STOPPED_ANNOTATION: which, contract.PAUSED_ANNOTATION: "true"}
            await ctx.annotate(MachineHealthCheck.resource, check, paused)
            message = f"paused MachineHealthCheck {check.key}: no replacement of an unhealthy machine became healthy"
            ctx.event("Warning", readiness.REMEDIATION_STOPPED, message)
            ctx.refresh()
    return Continue()


RETRIES = 2
"""The number of consecutive replacements of an unhealthy machine after which a person has to look."""


def leave_settled(scope: Scope) -> Decision:
    """The gate: stop here for a fully reconciled cluster until its desired state changes."""
    if scope.is_restored_without_objects:
        return readiness.objects_missing(scope)
    return Done() if scope.is_settled else Continue()


async def look_after_settled(ctx: Context, decision: Decision) -> Outcome:
    """For settled clusters: keep the copy of the kubeconfig, and handle drift."""
    if not isinstance(decision, Done):
        return await write(ctx, decision)
    await copying.keep(ctx)
    await ctx.close_gate()  # writes only to adopt a cluster, or after changed credentials
    return await oversee(ctx)


def check(scope: Scope) -> Decision:
    """Check that the spec can be rendered, and that the control plane is not lost."""
    found = problem(scope)
    if found:
        return found
    lost = deleted.lost_control_plane(scope.capi_objects)
    return Wait(names.CONTROL_PLANE_LOST, lost) if lost else Continue()


async def copy_kubeconfig(ctx: Context) -> Outcome:
    """Copy the kubeconfig to the Cluster's namespace, or report in a condition why not."""
    await copying.keep(ctx)
    return Continue()


async def read_left_over_secrets(ctx: Context) -> Outcome:
    """Before a cluster is created: read Secrets whose keys Cluster API would use for it.

    Includes Secrets without labels, which are not watched.
    """
    if ctx.scope.capi_objects.cluster_object is None:
        client = ctx.tools.writer.client
        wanted = generated.secrets(ctx.scope.key.name)
        listed = await asyncio.gather(
            *(client.list(core.SECRET, key.namespace, fields=f"metadata.name={key.name}") for key in wanted)
        )
        found = generated.left_over(ctx.scope.key, (secret for part in listed for secret in part.items))
        ctx.scope = msgspec.structs.replace(ctx.scope, left_over=found)
    return Continue()


def find_left_over_secrets(scope: Scope) -> Decision:
    """Refuse to create a cluster while Secrets with another cluster's keys exist under its names."""
    if scope.capi_objects.cluster_object is not None or not scope.left_over:
        return Continue()
    return Wait(names.CLUSTER_NAME_TAKEN, messages.name_taken(scope.left_over), after=60.0)


def check_in_place(scope: Scope) -> Decision:
    """What can't be done in place is refused before anything is written, paused or begun: all of the cluster's."""
    return in_place.refused(plan.owner_changes(_design(scope), scope.capi_objects)) or Continue()


def change_etcd(scope: Scope) -> Decision:
    """etcd on machines of its own changes before anything else; it is made with everything else."""
    if scope.capi_objects.etcd is None:
        return Continue()
    wanted = plan.of_etcd(plan.control_plane(_design(scope), scope.capi_objects))
    return Write(plan.changes(wanted, scope.capi_objects), "EtcdApplied")


async def write_etcd(ctx: Context, decision: Decision) -> Outcome:
    """The control plane rests meanwhile: its machines would be replaced at each new endpoint."""
    if not isinstance(decision, Write) or not any(one.resource == external_etcd.RESOURCE for one in decision.what):
        return await write(ctx, decision)
    await ctx.open_gate()
    objects = ctx.scope.capi_objects
    paused = {names.ETCD_CHANGES_ANNOTATION: "true", contract.PAUSED_ANNOTATION: "true"}
    for control_plane in objects.of(KubeadmControlPlane.resource).values():
        if contract.PAUSED_ANNOTATION not in control_plane.metadata.annotations:
            await ctx.annotate(KubeadmControlPlane.resource, control_plane, paused)
    for etcd in objects.of(external_etcd.RESOURCE).values():
        await ctx.annotate(external_etcd.RESOURCE, etcd, {external_etcd.UPGRADING: "true"})
    return await write(ctx, decision)


def await_etcd(scope: Scope) -> Decision:
    """A control plane that was made changes when etcd is as asked for; one that is being made waits by itself."""
    etcd, control_plane = scope.capi_objects.etcd, scope.capi_objects.control_plane
    if etcd is None or control_plane is None or external_etcd.is_ready(etcd):
        return Continue()
    if not external_etcd.endpoints(control_plane):
        return Continue()
    return Wait(readiness.ETCD_NOT_AVAILABLE, readiness.etcd_story(etcd))


async def resume_control_plane(ctx: Context) -> Outcome:
    """The control plane goes on, with the endpoints of an etcd that changed."""
    for control_plane in ctx.scope.capi_objects.of(KubeadmControlPlane.resource).values():
        if names.ETCD_CHANGES_ANNOTATION in control_plane.metadata.annotations:
            gone = dict.fromkeys((names.ETCD_CHANGES_ANNOTATION, contract.PAUSED_ANNOTATION))
            await ctx.annotate(KubeadmControlPlane.resource, control_plane, gone)
            ctx.refresh()
    return Continue()


def make_control_plane(scope: Scope) -> Decision:
    """Write the objects of the control plane; one that upgrades in place is created completely before it is changed."""
    design, capi_objects = _design(scope), scope.capi_objects
    wanted = plan.control_plane(design, capi_objects)
    if not scope.is_foreseen and plan.postponed(wanted, design, capi_objects):
        wanted = [one for one in wanted if not isinstance(one, KubeadmControlPlane)]
    return _obstacle(scope, wanted) or Write(plan.changes(_timely(scope, wanted), capi_objects), "ControlPlaneApplied")


def begin_workers(scope: Scope) -> Decision:
    """Create the worker node groups of a new cluster together with its control plane: machines join when the API server
    answers.

    Groups are only created here, and only while the whole control plane has its version: no node may be newer than its
    API server. Changes of groups come later.
    """
    capi_objects, design = scope.capi_objects, _design(scope)
    cluster, control_plane = capi_objects.cluster, capi_objects.control_plane
    if cluster is None or contract.is_control_plane_initialized(cluster):
        return Continue()
    if control_plane is None or control_plane.spec.version != design.of_control_plane.version:
        return Continue()
    if not contract.is_up_to_date(control_plane):
        return Continue()
    wanted = plan.worker_groups(design, capi_objects)
    new = [one for one in wanted if one.metadata.name not in capi_objects.of(one.resource)]
    return Write(plan.changes(_timely(scope, new), capi_objects), "WorkersApplied")


def await_control_plane(scope: Scope) -> Decision:
    """Wait until the whole control plane has the desired version: nothing else changes before."""
    capi_objects = scope.capi_objects
    control_plane = capi_objects.control_plane
    upgrade = in_place.story(control_plane, capi_objects.upgrades) if control_plane else None
    if upgrade is not None:
        return upgrade
    if capi_objects.is_available:
        return Continue()
    etcd = capi_objects.etcd
    if control_plane is not None and etcd is not None and not external_etcd.is_told(control_plane, etcd):
        return Wait(readiness.ETCD_NOT_AVAILABLE, readiness.TOLD_LATER)
    if control_plane is None or not contract.is_observed(control_plane):
        return Wait(readiness.OUTDATED, "waiting for Cluster API to observe the control plane")
    available = condition_list.get(control_plane.status.conditions, "Available")
    if available is None or available.status != "True":
        detail = f": {available.message}" if available and available.message else ""
        message = f"waiting for the control plane to be available{detail}"
        return Wait(readiness.CONTROL_PLANE_NOT_READY, message, after=_again(scope))
    at = control_plane.status.version or "no version"
    message = f"waiting for the control plane to reach version {control_plane.spec.version}; it is at {at}"
    return Wait(readiness.ROLLING, message, after=_again(scope))


def await_creation(scope: Scope) -> Decision:
    """Write changes of the control plane that waited for its creation, before any workers."""
    postponed = plan.waiting_for_creation(_design(scope), scope.capi_objects)
    return Wait(in_place.UPGRADING, postponed) if postponed else Continue()


def make_workers(scope: Scope) -> Decision:
    """Write the objects of all worker node groups."""
    capi_objects = scope.capi_objects
    wanted = plan.worker_groups(_design(scope), capi_objects)
    return _obstacle(scope, wanted) or Write(plan.changes(_timely(scope, wanted), capi_objects), "WorkersApplied")


def remove_workers(scope: Scope) -> Decision:
    """Delete worker node groups that are not in the spec."""
    gone = plan.superfluous_workers(_design(scope), scope.capi_objects, at_once=scope.is_foreseen)
    return Write(gone, "WorkersRemoved")


def await_readiness(scope: Scope) -> Decision:
    """Wait until every part of the cluster is as specified and ready."""
    obstacle = first_obstacle(readiness.conditions(scope))
    if obstacle is not None:
        return Wait(obstacle.reason, obstacle.message, after=_again(scope))
    going = plan.going_workers(_design(scope), scope.capi_objects)
    if going:
        return Wait(readiness.SCALING_DOWN, f"waiting for MachineDeployment {', '.join(going)} to be deleted")
    return Continue()


def remove_unused_templates(scope: Scope) -> Decision:
    """Delete templates that nothing refers to."""
    return Write(plan.unused_templates(scope.capi_objects), "TemplatesRemoved")


def remove_superfluous_extras(scope: Scope) -> Decision:
    """Delete extra objects of the provider that nothing uses any more."""
    return Write(plan.superfluous_extras(_design(scope), scope.capi_objects), "ExtraObjectsRemoved")


def make_health_checks(scope: Scope) -> Decision:
    """Create all MachineHealthChecks. Most exist already, from when the first node was ready."""
    design, capi_objects = _design(scope), scope.capi_objects
    wanted = [*plan.control_plane(design, capi_objects), *plan.worker_groups(design, capi_objects)]
    checks = [one for one in wanted if one.resource == MachineHealthCheck.resource]
    return Write(plan.changes(checks, capi_objects), "HealthChecksApplied")


async def settle(ctx: Context) -> Outcome:
    """Close the gate: the desired state at the start of the reconcile is reached."""
    await ctx.close_gate()
    await oversee(ctx)
    return Done()


LIFE = (
    add_finalizer,
    limit_remediation,
    Step(choose_release, take_release),
    Step(find_children),
    own_children,
    make_gate_key,
    Step(carry_credentials),
    Step(leave_settled, look_after_settled),
    Step(check),
    make_authenticator_keys,
    copy_kubeconfig,
    read_left_over_secrets,
    Step(find_left_over_secrets),
    Step(check_in_place),
    restore_cni,
    Step(change_etcd, write_etcd),
    Step(await_etcd, awaits=True),
    resume_control_plane,
    Step(make_control_plane),
    Step(begin_workers),
    begin_workload_objects,
    Step(await_control_plane, awaits=True),
    install_workload_objects,
    install_cni,
    Step(await_creation, awaits=True),
    Step(make_control_plane),
    Step(await_control_plane, awaits=True),
    Step(make_workers),
    Step(remove_workers),
    Step(await_readiness, awaits=True),
    Step(remove_unused_templates),
    Step(remove_superfluous_extras),
    Step(make_health_checks),
    compare_cni,
    compare_workload_objects,
    settle,
)
"""The steps of a Cluster that exists or is created."""


def steps_of(scope: Scope) -> Sequence[Callable[[Context], Awaitable[Outcome]]]:
    """The steps of a Cluster that is not being deleted; none while it is paused."""
    if scope.is_self_managed and not scope.is_management:
        return (Step(check),)
    return () if scope.is_paused else LIFE


async def delete_cluster(ctx: Context) -> Outcome:
    """Delete the Cluster API Cluster, which deletes workers, control plane and infrastructure, in order."""
    cluster = ctx.scope.capi_objects.cluster_object
    if cluster is None:
        return Continue()
    if cluster.metadata.deletion_timestamp is None:
        await ctx.write([Removal(capi.Cluster.resource, cluster)], "DeletionStarted")
    paused = readiness.paused_objects(ctx.scope)
    reason = readiness.CLUSTER_API_PAUSED if paused else "Deleting"
    return Wait(reason, "; ".join(filter(None, [_what_is_left(ctx), paused, _held_up(ctx)])))


async def delete_leftovers(ctx: Context) -> Outcome:
    """Delete what Cluster API does not delete with its Cluster: objects without one, MachineHealthChecks, templates.

    The garbage collector deletes Secrets, and this step waits for it: a new cluster of the same name would use them,
    and lose its CA when they go.
    """
    capi_objects = ctx.scope.capi_objects
    await ctx.write(plan.leftovers(capi_objects, extra_kinds(ctx.scope.providers)), "LeftoversRemoved")
    left = [f"{resource.kind} {name}" for resource, found in capi_objects.objects.items() for name in found]
    left += [f"Secret {found.name}" for found in capi_objects.secrets if contract.is_owned(found)]
    if not left:
        return Continue()
    return Wait("Deleting", "; ".join(filter(None, [f"waiting for {', '.join(left)} to be deleted", _abandoned(ctx)])))


async def remove_finalizer(ctx: Context) -> Outcome:
    """Remove the finalizer."""
    ctx.tools.remotes.drop(ctx.scope.cluster_identity)
    await ctx.tools.writer.remove_finalizer(CLUSTER, ctx.scope.object, CLUSTER_FINALIZER)
    return Continue()


DELETION = (delete_cluster, delete_leftovers, leave_children, remove_finalizer)
"""The steps of a Cluster that is being deleted. They need none of the linked objects."""


def _design(scope: Scope) -> Design:
    if scope.design is None:
        raise AssertionError("step `check` passes no Cluster without a design")
    return scope.design


def _obstacle(scope: Scope, wanted: Iterable[KubeObject]) -> Wait | None:
    """Why these objects may not be written yet; in a preview, only what needs somebody to act."""
    found = plan.obstacle(wanted, _design(scope), scope.capi_objects)
    if found is None or (scope.is_foreseen and found.reason not in names.FAILURES):
        return None
    return found


def _timely(scope: Scope, wanted: Iterable[KubeObject]) -> list[KubeObject]:
    """The objects without MachineHealthChecks that are not due yet: while no node can be ready, they would replace all
    machines.

    An existing one stays and is kept up to date.
    """
    capi_objects = scope.capi_objects
    live = capi_objects.of(MachineHealthCheck.resource)
    has_cni = capi_objects.installed_cni == scope.wanted_cni or bool(capi_objects.installed_cni)
    ready = capi_objects.control_plane.status.ready_replicas if capi_objects.control_plane else 0
    if scope.is_foreseen or (has_cni and ready):
        return list(wanted)
    return [one for one in wanted if one.resource != MachineHealthCheck.resource or one.metadata.name in live]


def _again(scope: Scope) -> float | None:
    """Seconds until the CNI is compared again while waiting for nodes: the CNI is not watched."""
    return AGAIN if scope.capi_objects.installed_cni and not scope.leaves_cni_alone else None


def _what_is_left(ctx: Context) -> str:
    capi_objects = ctx.scope.capi_objects
    workers = sum(deployment.status.replicas or 0 for deployment in capi_objects.typed_deployments.values())
    if workers:
        return f"waiting for {workers} worker {_machines(workers)} to be deleted"
    control_plane = capi_objects.control_plane
    machines = (control_plane.status.replicas or 0) if control_plane else 0
    if machines:
        return f"waiting for {machines} control plane {_machines(machines)} to be deleted"
    return "waiting for the infrastructure to be deleted"


def _held_up(ctx: Context) -> str:
    """Cluster API's message about a slow deletion, such as a node that can't be drained."""
    cluster = ctx.scope.capi_objects.cluster
    said = condition_list.get(cluster.status.conditions, "Deleting") if cluster else None
    return f"Cluster API reports: {said.message}" if said is not None and said.status == "True" and said.message else ""


def _abandoned(ctx: Context) -> str:
    """Objects that Cluster API may never finalize, because its controllers ignore objects whose Cluster is gone."""
    held = [
        f"{', '.join(one.metadata.finalizers)} of {resource.kind} {one.key}"
        for resource, found in ctx.scope.capi_objects.objects.items()
        for one in found.values()
        if one.metadata.deletion_timestamp is not None and one.metadata.finalizers
    ]
    if ctx.scope.capi_objects.cluster_object is not None or not held:
        return ""
    return f"their Cluster API Cluster is gone: if they do not go away, remove finalizers {'; '.join(held)}"


def _machines(number: int) -> str:
    return "machine" if number == 1 else "machines"
