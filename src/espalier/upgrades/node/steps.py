"""The steps of a NodeUpgrade, in order."""

from __future__ import annotations

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.conditions import timestamp
from espalier.api.core import KUBE_SYSTEM, POD
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import (
    CORDONED_BY_UPGRADE,
    NODE_FINALIZER,
    NODE_IN_WORK,
    RETRY_ANNOTATION,
    UNFINISHED,
    UPGRADE_SECONDS,
)
from espalier.api.meta import Tree
from espalier.api.text.violations import shown
from espalier.clusterapi import kubernetes_versions, labels
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, desired_replicas
from espalier.clusterapi.objects import controller_of
from espalier.kube.errors import Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.upgrades import images, names
from espalier.upgrades.node import capacity, cluster_configuration, pod, status
from espalier.upgrades.node.containers import KUBEADM, POD_CREATED, NodeStep
from espalier.upgrades.node.context import (
    RESOURCE,
    NodeUpgradeContext,
    create_rbac,
    delete_orphaned_rbac,
    delete_pod,
    delete_rbac,
    forget_expiry,
    own_note,
    resume_remediation,
    skip_remediation,
    write_configuration,
)
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.node.pod import Role
from espalier.upgrades.observed import health
from espalier.upgrades.observed.cluster_view import KUBEADM_CONFIG, Workload
from espalier.upgrades.observed.observe import cluster_of

_UNWATCHED_RETRY = 30.0
"""Seconds until a retry where no watch reports the change, such as a Machine whose cluster is not followed."""

_SILENCE_REPORTED = 60.0
"""Seconds until a silent node or cluster is reported during an upgrade, in which API servers and kubelets restart."""


async def add_finalizer(ctx: NodeUpgradeContext) -> Outcome:
    """Keep the NodeUpgrade until the node is cleaned up."""
    await ctx.tools.writer.add_finalizer(RESOURCE, ctx.scope.object, NODE_FINALIZER)
    return Continue()


async def find_cluster(ctx: NodeUpgradeContext) -> Outcome:
    """Set the label with the cluster's name, which a NodeUpgrade created by hand may lack."""
    if ctx.scope.cluster:
        return Continue()
    writer, name = ctx.tools.writer, ctx.scope.upgrade.spec.machine.name
    try:
        machine = await writer.client.get(Machine.resource, name, ctx.object.namespace)
    except NotFound:
        return Wait(Reason.MACHINE_MISSING, f"{ctx.machine} does not exist", after=_UNWATCHED_RETRY)
    cluster = cluster_of(machine) or machine.decode(Machine).spec.cluster_name
    await writer.merge(RESOURCE, ctx.scope.object, {"metadata": {"labels": {CLUSTER_NAME_LABEL: cluster}}})
    return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {cluster}")


async def find_machine(ctx: NodeUpgradeContext) -> Outcome:
    """Find the Machine that the NodeUpgrade refers to."""
    scope = ctx.scope
    if scope.cluster_view is None:
        return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {scope.cluster}")
    if wrong := list(names.not_a_machine("spec.machine", scope.upgrade.spec.machine)):
        return Wait(Reason.MACHINE_MISSING, "; ".join(map(str, wrong)))
    if scope.machine is None:
        if (differing := await _changed_label(ctx)) is not None:
            return differing
        await delete_role_once(ctx, Reason.MACHINE_MISSING)
        return Wait(Reason.MACHINE_MISSING, f"{ctx.machine} does not exist")
    if scope.machine.machine.metadata.deletion_timestamp is not None:
        await delete_role_once(ctx, Reason.MACHINE_DELETED)
        return Wait(Reason.MACHINE_DELETED, f"{ctx.machine} is being deleted")
    uid, current = scope.upgrade.spec.machine.uid, scope.machine.machine.metadata.uid
    if uid and uid != current:
        message = f"spec.machine.uid: found {uid}, but {ctx.machine} has {current}: the Machine was replaced"
        return Wait(Reason.MACHINE_MISSING, message)
    if changed := labels.mislabelled(scope.machine.object):
        return Wait(Reason.LABELS_CHANGED, "; ".join(changed))
    is_control_plane = CONTROL_PLANE_LABEL in scope.machine.machine.metadata.labels
    if is_control_plane and scope.control_plane is None and (orphaned := _orphaned(scope)):
        return Wait(Reason.LABELS_CHANGED, orphaned)
    wanted = "ControlPlane" if is_control_plane else "Worker"
    if scope.upgrade.spec.node_type != wanted:
        message = f"spec.nodeType: found {scope.upgrade.spec.node_type}, but {ctx.machine} is a {wanted}"
        return Wait(Reason.WRONG_NODE_TYPE, message)
    return Continue()


async def _changed_label(ctx: NodeUpgradeContext) -> Wait | None:
    """The label for which the Machine is not found in the NodeUpgrade's cluster; None if it does not exist at all."""
    try:
        machine = await ctx.tools.writer.client.get(
            Machine.resource, ctx.scope.upgrade.spec.machine.name, ctx.object.namespace
        )
    except NotFound:
        return None
    cluster = labels.cluster_of(machine)
    source = f"Machine {machine.name} belongs to cluster {cluster}"
    wrong = [labels.differs(ctx.object, CLUSTER_NAME_LABEL, cluster, source), *labels.mislabelled(machine)]
    changed = "; ".join(filter(None, wrong))
    # A Machine that was created just now is seen soon.
    return (
        Wait(Reason.LABELS_CHANGED, changed)
        if changed
        else Wait(Reason.CACHE_NOT_SYNCED, f"reading {ctx.machine}", after=1.0)
    )


def _orphaned(scope: NodeScope) -> str:
    """The owner reference that a control plane machine has lost: its node would be upgraded beside other nodes."""
    view, machine = scope.cluster_view, scope.machine
    if view is None or machine is None or controller_of(machine.machine.metadata) is not None:
        return ""
    kind = KubeadmControlPlane.resource.kind
    owners = [control_plane.name for control_plane in view.capi_objects.control_planes]
    if not owners:
        return ""
    return (
        f"Machine {machine.object.key} of the control plane has no controller in metadata.ownerReferences: "
        f"restore the reference to {kind} {owners[0]}, or unpause that to have Cluster API do so"
    )


async def delete_role_once(ctx: NodeUpgradeContext, reason: str) -> None:
    """Delete the pod's role when the Machine goes, once: when `reason` is reported for the first time."""
    reported = condition_list.get(ctx.scope.upgrade.status.conditions, names.READY)
    if ctx.scope.workload is not None and (reported is None or reported.reason != reason):
        await delete_orphaned_rbac(ctx.scope.workload, ctx.scope.node_name)


async def find_node(ctx: NodeUpgradeContext) -> Outcome:
    """Wait until the machine has a node, and its cluster answers."""
    scope = ctx.scope
    if not scope.node_name:
        return Wait(Reason.NODE_MISSING, f"{ctx.machine} has no node")
    if scope.cluster_view is None or scope.workload is None:
        unreachable = scope.cluster_view.unreachable if scope.cluster_view else Wait(Reason.CACHE_NOT_SYNCED, "")
        return Wait(unreachable.reason, _last_known_step(ctx, unreachable.message))
    if scope.node is None:
        return Wait(Reason.NODE_MISSING, f"node {scope.node_name} of {ctx.machine} does not exist; {_replace(ctx)}")
    return Continue()


async def await_others(ctx: NodeUpgradeContext) -> Outcome:
    """Wait until no other NodeUpgrade has an upgrader pod on the node."""
    scope = ctx.scope
    if scope.taken_by:
        return Wait(Reason.NODE_TAKEN, f"waiting for NodeUpgrade {scope.taken_by} to finish on node {scope.node_name}")
    if scope.earlier is None or scope.workload is None:
        return Continue()
    pod = f"upgrader pod {scope.earlier.key} of an earlier NodeUpgrade of this name"
    if not scope.may_delete_pod:
        advice = "to abort a step that does not finish, delete it in the workload cluster"
        return Wait(Reason.NODE_TAKEN, f"waiting for {pod} to finish its step: {advice}")
    await delete_pod(scope.workload, scope)
    return Wait(Reason.RETRYING, f"deleted {pod}: this one creates its own")


async def check(ctx: NodeUpgradeContext) -> Outcome:
    """Check, before anything changes on a node, that it is ready, and that kubeadm can upgrade to the version."""
    scope = ctx.scope
    if scope.pod is not None or scope.done or scope.node is None:
        return Continue()
    wanted, present = scope.upgrade.spec.kubernetes_version, scope.node.status.node_info.kubelet_version
    problem = kubernetes_versions.step_obstacle(present, wanted)
    if scope.renews_certificates and not problem and not kubernetes_versions.is_reached(present, wanted):
        problem = f"found {wanted}, but node {scope.node_name} has {present}: certificates are renewed without upgrade"
    if problem:
        return Wait(Reason.VERSION_REFUSED, f"spec.kubernetesVersion: {problem}")
    try:
        _ = scope.changes
    except ValueError:
        return Wait(
            Reason.SPEC_DATA_INVALID,
            "spec.bootstrapChanges is not a base64-encoded JSON object; delete the NodeUpgrade",
        )
    if not scope.node.is_ready:
        return Wait(Reason.NODE_NOT_READY, f"waiting for node {scope.node_name} to be ready before the upgrade")
    if scope.upgrade.spec.node_type == "Worker" and scope.workload is not None:
        configuration = read_configuration(scope.workload)
        return configuration if isinstance(configuration, Wait) else Continue()
    return Continue()


def read_configuration(workload: Workload) -> tuple[Object, Tree] | Wait:
    """kubeadm's ConfigMap and its ClusterConfiguration, which kubeadm reads on every node; a wait if it is unusable."""
    name = f"ConfigMap {KUBE_SYSTEM}/{KUBEADM_CONFIG}"
    config_map = workload.kubeadm_config
    if config_map is None:
        return Wait(Reason.KUBEADM_CONFIG_INVALID, f"{name} of the workload cluster does not exist; restore it")
    try:
        return config_map, cluster_configuration.read(config_map.tree)
    except ValueError as error:
        return Wait(Reason.KUBEADM_CONFIG_INVALID, f"{name} of the workload cluster: {error}; correct it")


async def find_image(ctx: NodeUpgradeContext) -> Outcome:
    """Find the upgrader image for the version."""
    scope = ctx.scope
    is_needed = scope.pod is None and not scope.are_all_done
    if scope.image and is_needed and not images.is_reference(scope.image):
        entry = f"entry {scope.upgrade.spec.kubernetes_version} of ConfigMap {names.IMAGES_KEY}"
        return Wait(Reason.UPGRADER_IMAGE_INVALID, f"{entry}: found {shown(scope.image)}, allowed: {images.REFERENCES}")
    if scope.image or not is_needed:
        return Continue()
    wanted, versions = scope.upgrade.spec.kubernetes_version, ", ".join(scope.images) or "none"
    message = (
        f"ConfigMap {names.IMAGES_KEY} has no upgrader image for {wanted} (known versions: {versions}); "
        "install Bundles that name one, or add the entry"
    )
    return Wait(Reason.UPGRADER_IMAGE_MISSING, message)


async def recreate_pod_for_image(ctx: NodeUpgradeContext) -> Outcome:
    """Delete a pod that could not start or failed, if its image was corrected since."""
    scope = ctx.scope
    pod_ = scope.pod
    if pod_ is None or scope.workload is None or not scope.image or pod_.images == {scope.image}:
        return Continue()
    can_replace = status.failure(pod_, scope.steps) is not None or status.stuck(pod_) or not pod_.has_begun
    if not can_replace or not images.is_reference(scope.image):
        return Continue()
    await delete_pod(scope.workload, scope)
    return Wait(Reason.RETRYING, f"recreating the upgrader pod with image {scope.image}")


async def recreate_lost_pod(ctx: NodeUpgradeContext) -> Outcome:
    """Delete a pod that went down with its node, so that another pod is created: all steps can be repeated."""
    scope = ctx.scope
    if scope.pod is None or scope.workload is None or not scope.pod.is_lost:
        return Continue()
    await delete_pod(scope.workload, scope)
    return Wait(Reason.RETRYING, f"recreating the upgrader pod, which went down with node {scope.node_name}")


async def retry(ctx: NodeUpgradeContext) -> Outcome:
    """Delete the pod if the retry annotation is set and no step is interrupted, and remove the annotation."""
    scope = ctx.scope
    if RETRY_ANNOTATION not in scope.object.metadata.annotations:
        return Continue()
    if scope.pod is not None and scope.workload is not None and scope.may_delete_pod:
        await delete_pod(scope.workload, scope)
    removal = {"metadata": {"annotations": {RETRY_ANNOTATION: None}}}
    await ctx.tools.writer.merge(RESOURCE, scope.object, removal)
    return Wait(Reason.RETRYING, "recreating the upgrader pod")


async def claim(ctx: NodeUpgradeContext) -> Outcome:
    """Claim the control plane, once no other node of it is being upgraded and all other nodes are healthy."""
    scope = ctx.scope
    if scope.are_all_done or scope.control_plane is None or scope.workload is None:
        return Continue()
    claimed = {"metadata": {"annotations": {NODE_IN_WORK: names.claim(scope.object)}}}
    if scope.pod is not None:
        if not scope.claimed_by:  # somebody may have edited it
            await ctx.tools.writer.merge(KubeadmControlPlane.resource, scope.control_plane, claimed)
        return Continue()
    if scope.claimed_by:
        message = f"waiting for {scope.claimed_by}: one node of a control plane is upgraded at a time"
        advice = "see what that one waits for, or delete it to let this one go first"
        return Wait(Reason.CONTROL_PLANE_TAKEN, f"{message}; {advice}", after=_UNWATCHED_RETRY)
    nodes, pods = scope.workload.nodes(), scope.workload.control_plane_pods()
    unhealthy = health.obstacle(
        nodes, pods, scope.node_name, len(scope.control_plane_machines), has_etcd=scope.has_etcd_on_its_nodes
    )
    wanted = desired_replicas(scope.control_plane.decode(KubeadmControlPlane))
    names_of_machines = [view.name for view in scope.control_plane_machines]
    rollout = health.rolled_out(names_of_machines, wanted, [scope.upgrade.spec.machine.name])
    if unhealthy and rollout:
        return Wait(Reason.ROLLOUT_IN_PROGRESS, rollout)
    if unhealthy and not scope.done:
        return Wait(Reason.CONTROL_PLANE_UNHEALTHY, f"before node {scope.node_name} is upgraded: {unhealthy}")
    try:
        await ctx.tools.writer.merge(KubeadmControlPlane.resource, scope.control_plane, claimed)
    except Conflict:
        return Wait(Reason.CONTROL_PLANE_TAKEN, "another NodeUpgrade claimed the control plane first", after=1.0)
    return Continue()


async def protect_machine(ctx: NodeUpgradeContext) -> Outcome:
    """Keep health checks from replacing the machine while its node is being upgraded."""
    if ctx.scope.current is not None:
        await skip_remediation(ctx)
    return Continue()


async def configure(workload: Workload, scope: NodeScope) -> Role | Wait:
    """Update kubeadm-config before kubeadm renders static pods from it; returns the role of the node for kubeadm."""
    configuration = read_configuration(workload)
    if isinstance(configuration, Wait):
        return configuration
    config_map, present = configuration
    if problem := cluster_configuration.obstacle(present, scope.wanted_configuration):
        return Wait(Reason.VERSION_REFUSED, f"ConfigMap {KUBE_SYSTEM}/{KUBEADM_CONFIG}: {problem}")
    await write_configuration(workload, config_map, scope.wanted_configuration)
    return scope.role(cluster_configuration.version_of(present))


async def create_pod(ctx: NodeUpgradeContext) -> Outcome:
    """Create the upgrader pod on the node, with the steps that are left."""
    scope = ctx.scope
    done = scope.done
    if scope.pod is not None or scope.workload is None or scope.are_all_done:
        return Continue()
    role: Role = "worker"
    if scope.renews_certificates:
        role = "control-plane"
    elif scope.upgrade.spec.node_type == "ControlPlane" and KUBEADM.condition not in done:
        configured = await configure(scope.workload, scope)
        if isinstance(configured, Wait):
            return configured
        role = configured
    elif scope.upgrade.spec.node_type == "ControlPlane":
        role = "control-plane"
    changed = msgspec.json.encode(scope.changes) if scope.changes else b""
    account, changes = await create_rbac(scope.workload, scope.node_name, changed)
    wanted = pod.Upgrader(
        node_upgrade=str(scope.object.key),
        node=scope.node_name,
        image=scope.image or "",
        role=role,
        kubernetes_version=scope.upgrade.spec.kubernetes_version,
        account=account,
        upgrade=scope.object.metadata.uid,
        etcd_version=scope.upgrade.spec.etcd_version or "",
        changes=changes,
        done=done,
        drains=scope.drains and await _has_room(ctx),
        drain_seconds=scope.drain_seconds,
        ignored=scope.ignored_preflight_errors,
        patches=scope.patches,
        certificates_only=scope.renews_certificates,
    )
    try:
        await scope.workload.writer.create(POD, pod.pod(wanted))
    except Forbidden as error:
        if "PodSecurity" not in str(error):
            raise
        advice = f"Namespace {names.UPGRADER_NAMESPACE} of the workload cluster with {pod.PRIVILEGED_LABEL}"
        return Wait(
            Reason.POD_REFUSED, f"Pod Security rejects the upgrader pod: label {advice}", after=_UNWATCHED_RETRY
        )
    return Wait(
        Reason.POD_CREATED, f"upgrader pod {names.upgrader(scope.node_name)} was created on node {scope.node_name}"
    )


async def _has_room(ctx: NodeUpgradeContext) -> bool:
    """True if the pods of a worker fit on the other nodes, or it is cordoned, as it may be partly drained already.

    Always true for control plane nodes: besides static pods, they run only small pods that tolerate their taint.
    """
    scope = ctx.scope
    if scope.workload is None or scope.is_cordoned or scope.upgrade.spec.node_type != "Worker":
        return True
    return await capacity.has_room(scope.workload.client, scope.workload.nodes(), scope.node_name)


async def follow_pod(ctx: NodeUpgradeContext) -> Outcome:
    """Wait until all steps succeeded."""
    scope = ctx.scope
    retry_hint = status.retry_advice(scope.node_name, scope.object.name, names.upgrader(scope.node_name))
    failed = status.failure(scope.pod, scope.steps) if scope.pod else None
    if failed is not None:  # even if somebody has edited the conditions of steps
        step, reason = failed
        if step is None:
            return Wait(Reason.POD_FAILED, f"the upgrader pod on node {scope.node_name} failed: {reason}; {retry_hint}")
        return Wait(
            f"{step.doing}Failed", f"step {step.container} failed on node {scope.node_name}: {reason}; {retry_hint}"
        )
    current = scope.current
    if current is None:
        return Continue()
    if scope.pod is None:
        return Wait(Reason.WAITING, "the upgrader pod does not exist")
    if stuck := status.stuck(scope.pod):
        entry = f"entry {scope.upgrade.spec.kubernetes_version} of ConfigMap {names.IMAGES_KEY}"
        advice = f"if its image is the cause, correct {entry}, and the pod is recreated; otherwise {retry_hint}"
        return Wait(
            Reason.POD_NOT_STARTING, f"the upgrader pod on node {scope.node_name} can't start: {stuck}; {advice}"
        )
    if scope.cluster_view and scope.workload and scope.workload.silent_for >= _SILENCE_REPORTED:
        return Wait(
            Reason.WORKLOAD_CLUSTER_UNREACHABLE,
            _last_known_step(ctx, scope.cluster_view.waiting_for),
            after=_SILENCE_REPORTED,
        )
    since = scope.node.not_ready_since if scope.node else None
    if since is not None and (ctx.tools.clock.now() - since).total_seconds() >= _SILENCE_REPORTED:
        reason = f"the node has not been ready since {timestamp(since)}; if it does not recover, {_replace(ctx)}"
        return Wait(Reason.NODE_NOT_READY, _last_known_step(ctx, reason), after=_SILENCE_REPORTED)
    step, condition = current
    return Wait(step.doing, f"{_number(ctx, step)}: {condition.message}", after=_SILENCE_REPORTED)


def _last_known_step(ctx: NodeUpgradeContext, reason: str) -> str:
    """The message on the last known step, and why nothing newer is known; `reason` alone before the first step."""
    current = ctx.scope.current
    if current is None or not condition_list.is_true(ctx.scope.conditions, POD_CREATED):
        return reason
    step, condition = current
    return f"{_number(ctx, step)}: last known state: {condition.message}; {reason}"


def _replace(ctx: NodeUpgradeContext) -> str:
    return f"delete {ctx.machine} to have it replaced"


def _number(ctx: NodeUpgradeContext, step: NodeStep) -> str:
    steps = ctx.scope.steps
    return f"step {status.number(step, steps)} of {len(steps)} on node {ctx.scope.node_name}"


async def await_node(ctx: NodeUpgradeContext) -> Outcome:
    """Wait until the node is seen ready, with the version asked for, and uncordoned.

    The checks before the next node depend on that: whether pods can move, and whether a node may be unavailable.
    """
    scope, wanted = ctx.scope, ctx.scope.upgrade.spec.kubernetes_version
    if scope.node is None:
        return Wait(Reason.NODE_MISSING, f"node {scope.node_name} does not exist; {_replace(ctx)}")
    step = scope.unfinished
    if step is not None:  # somebody has edited the conditions of steps
        return Wait(step.doing, f"{_number(ctx, step)}: container {step.container} is running")
    version = scope.node.status.node_info.kubelet_version
    if not kubernetes_versions.is_reached(version, wanted):
        return Wait(
            Reason.NODE_OUTDATED, f"waiting for node {scope.node_name} to report kubelet {wanted}; it has {version}"
        )
    if not scope.node.is_ready:
        return Wait(Reason.NODE_NOT_READY, f"waiting for node {scope.node_name} to be ready again")
    if CORDONED_BY_UPGRADE in scope.node.metadata.annotations:
        return Wait(Reason.WAITING_FOR_UNCORDON, f"waiting for node {scope.node_name} to be uncordoned")
    return Continue()


async def clean_up(ctx: NodeUpgradeContext) -> Outcome:
    """Delete the pod's role, and let health checks remediate the machine again. The pod stays until the status reports
    what was done.

    The duration is recorded on the Machine, for plans of the next upgrade, as the NodeUpgrade will be deleted.
    """
    if ctx.scope.workload is not None:
        await delete_rbac(ctx.scope.workload, ctx.scope.node_name)
    await forget_expiry(ctx)
    if ctx.scope.renews_certificates:
        await resume_remediation(ctx)
        return Done()
    seconds = status.seconds(ctx.scope.conditions, ctx.scope.pod, ctx.tools.clock.now())
    await resume_remediation(
        ctx, **_unfinished_removed(ctx), **({} if seconds is None else {UPGRADE_SECONDS: f"{seconds:.0f}"})
    )
    return Done()


def _unfinished_removed(ctx: NodeUpgradeContext) -> dict[str, str | None]:
    """The removal of the annotation of unfinished changes, unless the upgrade of the group does that in its own write.

    With hooks, the Machine already has the new state; a NodeUpgrade created by hand has no group upgrade.
    """
    kinds = [owner.kind for owner in ctx.object.metadata.owner_references if owner.controller]
    if Machine.resource.kind in kinds:
        return {UNFINISHED: None}
    return {} if kinds else own_note(ctx)


STEPS = (
    find_cluster,
    add_finalizer,
    find_machine,
    find_node,
    await_others,
    check,
    find_image,
    recreate_pod_for_image,
    recreate_lost_pod,
    retry,
    claim,
    protect_machine,
    create_pod,
    follow_pod,
    await_node,
    clean_up,
)
"""From a NodeUpgrade to an upgraded node."""


async def remove_finalizer(ctx: NodeUpgradeContext) -> Outcome:
    """Delete the pod, after which the NodeUpgrade needs no finalizer."""
    scope = ctx.scope
    if NODE_FINALIZER not in scope.object.metadata.finalizers:
        return Done()
    if scope.workload is None:
        return (
            scope.cluster_view.unreachable
            if scope.cluster_view
            else Wait(Reason.CACHE_NOT_SYNCED, "reading the cluster")
        )
    await delete_pod(scope.workload, scope)
    await resume_remediation(ctx)
    await ctx.tools.writer.remove_finalizer(RESOURCE, scope.object, NODE_FINALIZER)
    return Done()


CLEANUP = (remove_finalizer,)
"""The steps that are left once the status reports the node as upgraded."""
