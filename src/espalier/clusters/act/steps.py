"""The steps of a reconcile, in order. Each completes its part, and reports what it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.group import CLUSTER_FINALIZER
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.trees import json_trees
from espalier.clusters.act.cni_steps import compare_cni, install_cni, restore_cni
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.deletion_steps import delete_cluster, delete_leftovers, remove_finalizer
from espalier.clusters.act.drift_correction import correct_drift
from espalier.clusters.act.etcd_steps import await_etcd, change_etcd, resume_control_plane, write_and_resume, write_etcd
from espalier.clusters.act.machine_steps import (
    await_control_plane,
    await_creation,
    await_readiness,
    begin_workers,
    limit_remediation,
    make_control_plane,
    make_health_checks,
    make_workers,
    remove_superfluous_extras,
    remove_unused_templates,
    remove_workers,
)
from espalier.clusters.act.secret_steps import (
    carry_credentials,
    copy_kubeconfig,
    fill_authenticator_secrets,
    find_left_over_secrets,
    make_gate_key,
    read_left_over_secrets,
)
from espalier.clusters.act.secrets import kubeconfig_copies
from espalier.clusters.act.step import CLUSTER, ClusterStep, Decision, Waits, decisions_of, write
from espalier.clusters.act.workload_steps import (
    begin_workload_objects,
    compare_workload_objects,
    copy_credentials_to_workload,
    install_workload_objects,
)
from espalier.clusters.design.drift.gate import SPECS
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.rules.control_planes.etcd_settings import out_of_reach, removed_setting, step_obstacle
from espalier.clusters.observe.rules.sharing import linked
from espalier.clusters.observe.scope import Scope, read
from espalier.clusters.plan import deleted
from espalier.clusters.report import readiness
from espalier.clusters.report.validity import (
    children_problems,
    known_problem,
    missing_objects,
    name_taken,
    problem,
    unresolved_values,
)
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait


def await_adoption(scope: Scope) -> Decision:
    """Wait until a cluster of EKS Anywhere is taken over, while its controller would write the same objects, and
    without the record of the take-over: nothing would keep the fields then that its machines are made of."""
    if scope.is_of_eks_anywhere:
        return Wait(Reason.NOT_ADOPTED, messages.NOT_ADOPTED)
    if scope.has_lost_record:
        return name_taken(scope)
    if scope.other_controller and scope.capi_objects.adoption is not None:
        return Wait(Reason.EKS_ANYWHERE_RUNS, messages.eks_anywhere_runs(scope.other_controller))
    return Continue()


async def add_finalizer(ctx: ClusterContext) -> Outcome:
    """Add the finalizer, which keeps the Cluster until all its objects are gone."""
    scope, writer = ctx.scope, ctx.tools.writer
    if CLUSTER_FINALIZER not in scope.cluster.metadata.finalizers:
        updated = await writer.add_finalizer(CLUSTER, scope.object, CLUSTER_FINALIZER)
        ctx.scope = msgspec.structs.replace(scope, object=updated, cluster=read(updated))
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
        cause = f'management cluster "{management.metadata.name}" has no eksaVersion to inherit'
        return Wait(Reason.EKSA_VERSION_INVALID, f"{cause}; set spec.eksaVersion of this Cluster")
    return Wait(Reason.RELEASE_CHOSEN, f"inherited release {management.spec.eksa_version} from the management cluster")


async def take_release(ctx: ClusterContext, decision: Decision) -> Outcome:
    """Write the chosen release into the spec."""
    management = ctx.scope.management
    if not isinstance(decision, Wait) or decision.reason != Reason.RELEASE_CHOSEN or management is None:
        return await write(ctx, decision)
    # With the resourceVersion that was read: somebody may have set a release since then.
    chosen = {"spec": {"eksaVersion": management.spec.eksa_version}}
    await ctx.tools.writer.merge(CLUSTER, ctx.scope.object, chosen)
    ctx.event("Normal", Event.RELEASE_CHOSEN, decision.message)
    return decision


def await_quiet(scope: Scope) -> Decision:
    """Wait until nothing of a requested change has changed for the settle time.

    Before linked objects are looked for, and anything is judged: what is missing or wrong may be on its way.
    """
    return scope.settling or Continue()


def await_command(scope: Scope) -> Decision:
    """Wait for a command that has paused the Cluster to write a change; for any other pause nothing is waited for."""
    return Wait(Reason.CHANGE_BEING_WRITTEN, messages.BEING_WRITTEN) if scope.is_undecided else Continue()


def find_children(scope: Scope) -> Decision:
    """Wait until all linked objects exist, and the provider has checked them and resolved their values.

    What is wrong whatever these say is reported instead: nobody should wait for that.
    """
    missing = missing_objects(scope.awaited, scope.grace)
    unresolved = unresolved_values(scope)
    waits = (missing,) if missing is not None else (*children_problems(scope), *filter(None, [unresolved]))
    if not waits:
        return Continue()
    return known_problem(scope) or (Waits(waits) if len(waits) > 1 else waits[0])


async def own_children(ctx: ClusterContext) -> Outcome:
    """Own linked objects, so that they are deleted with the Clusters that use them; not those of the management
    cluster.

    Their owner is unknown until the record of the management cluster is known.
    """
    writer, management = ctx.tools.writer, ctx.scope.management
    if management is None:
        return Continue()
    owner = owners.owner_reference(ctx.scope.object, controller=False, block_owner_deletion=False)
    shared = linked(management)
    for resource, child in ctx.scope.children:
        if (child.kind, child.key) in shared:
            await writer.remove_owner(resource, child, owner.uid)
        else:
            await writer.add_owner(resource, child, owner)
    return Continue()


async def leave_children(ctx: ClusterContext) -> Outcome:
    """Disown linked objects that another Cluster references too, so that they are not deleted with this one."""
    for resource, child in ctx.tools.observer.shared_links_of(ctx.scope.object):
        await ctx.tools.writer.remove_owner(resource, child, ctx.scope.object.metadata.uid)
    return Continue()


def leave_settled(scope: Scope) -> Decision:
    """The gate: stop here for a fully reconciled cluster until its desired state changes."""
    if scope.is_restored_without_objects:
        return readiness.objects_missing(scope)
    return Done() if scope.is_settled else Continue()


async def maintain_settled(ctx: ClusterContext, decision: Decision) -> Outcome:
    """For settled clusters: keep the copy of the kubeconfig, and handle drift."""
    if not isinstance(decision, Done):
        return await write(ctx, decision)
    await kubeconfig_copies.keep(ctx)
    await ctx.close_gate()  # writes only to adopt a cluster, or after changed credentials
    return await correct_drift(ctx)


def check(scope: Scope) -> Decision:
    """Check that the spec can be rendered, and that the control plane is not lost."""
    wait = problem(scope)
    if wait:
        return wait
    lost = deleted.lost_control_plane(scope.capi_objects)
    return Wait(Reason.CONTROL_PLANE_LOST, lost) if lost else Continue()


def check_cluster_api(scope: Scope) -> Decision:
    """Begin nothing with a version of Cluster API that this manager does not know; what has begun goes on."""
    if sentence := scope.cluster_api_problem:
        return Wait(Reason.CLUSTER_API_VERSION_NOT_SUPPORTED, sentence)
    return Continue()


def check_in_place(scope: Scope) -> Decision:
    """Reject all changes that can't be made in place at once, before anything is written or paused."""
    return decisions_of(scope).refused or Continue()


def check_etcd(scope: Scope) -> Decision:
    """Reject an upgrade of etcd to a version out of reach, or without its settings, before anything is written."""
    control_plane = next(iter(scope.capi_objects.of(KubeadmControlPlane.resource).values()), None)
    components = scope.components
    if control_plane is None or components is None:
        return Continue()
    distro = components.distro
    external = scope.capi_objects.etcd
    machines = external.spec.etcdadm_config_spec.cloud_init_config if external is not None else None
    # Whether members have the version of the spec already is not known here: going back is left to its controller.
    if external and machines and (step := step_obstacle(machines.version, distro.etcd_version, is_reverted=True)):
        name = f"{external.metadata.namespace}/{external.metadata.name}"
        field = "spec.etcdadmConfigSpec.cloudInitConfig.version"
        return Wait(Reason.ETCD_UPGRADE_REFUSED, f"EtcdadmCluster {name}: {field}: {step}")
    if refused := _etcd_problem(control_plane.raw_spec, distro.etcd_version, distro.version):
        reason, sentence = refused
        return Wait(reason, f"KubeadmControlPlane {control_plane.key}: {sentence}")
    return Continue()


@lru_cache(maxsize=SPECS)
def _etcd_problem(spec: bytes, wanted: str, kubernetes: str) -> tuple[Reason, str] | None:
    control_plane = {"spec": json_trees.decode(spec)}
    if sentence := out_of_reach(control_plane, wanted, kubernetes):
        return Reason.ETCD_UPGRADE_REFUSED, sentence
    if sentence := removed_setting(control_plane, wanted):
        return Reason.ETCD_SETTINGS_REMOVED, sentence
    return None


async def settle(ctx: ClusterContext) -> Outcome:
    """Close the gate: the desired state at the start of the reconcile is reached."""
    await ctx.close_gate()
    # Its outcome is not this one's: the annotation just written starts another reconcile, which `maintain_settled`
    # ends with it. A fault here would make a cluster that has just become ready report that it is not.
    await correct_drift(ctx)
    return Done()


STEPS = (
    ClusterStep(await_adoption),
    add_finalizer,
    limit_remediation,
    own_children,
    ClusterStep(choose_release, take_release),
    ClusterStep(await_quiet),
    ClusterStep(find_children),
    make_gate_key,
    ClusterStep(carry_credentials),
    copy_credentials_to_workload,
    ClusterStep(leave_settled, maintain_settled),
    ClusterStep(check),
    ClusterStep(check_cluster_api),
    fill_authenticator_secrets,
    copy_kubeconfig,
    read_left_over_secrets,
    ClusterStep(find_left_over_secrets),
    ClusterStep(check_in_place),
    ClusterStep(check_etcd),
    restore_cni,
    ClusterStep(change_etcd, write_etcd),
    ClusterStep(await_etcd, awaits=True),
    ClusterStep(make_control_plane, write_and_resume),
    ClusterStep(begin_workers),
    begin_workload_objects,
    ClusterStep(await_control_plane, awaits=True),
    fill_authenticator_secrets,
    install_workload_objects,
    install_cni,
    ClusterStep(await_creation, awaits=True),
    # Again: changes that had to wait until the control plane was created.
    ClusterStep(make_control_plane),
    ClusterStep(await_control_plane, awaits=True),
    ClusterStep(make_workers),
    ClusterStep(remove_workers),
    ClusterStep(await_readiness, awaits=True),
    ClusterStep(remove_unused_templates),
    ClusterStep(remove_superfluous_extras),
    ClusterStep(make_health_checks),
    compare_cni,
    compare_workload_objects,
    settle,
)
"""The steps of a Cluster that exists or is created."""


def steps_of(scope: Scope) -> Sequence[Callable[[ClusterContext], Awaitable[Outcome]]]:
    """The steps of a Cluster that is not being deleted; none while it is paused."""
    if scope.is_self_managed and not scope.is_management:
        return (ClusterStep(check),)
    if scope.is_being_written:
        return (ClusterStep(await_command),)
    return () if scope.is_paused else STEPS


DELETION = (resume_control_plane, delete_cluster, delete_leftovers, leave_children, remove_finalizer)
"""The steps of a Cluster that is being deleted. They need none of the linked objects."""
