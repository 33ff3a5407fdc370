"""The steps of a NodeUpgrade's deletion: they leave no running step, cordon, or disabled health check."""

from __future__ import annotations

from contextlib import suppress

from espalier.api import conditions as condition_list
from espalier.api.core import NODE
from espalier.api.eksa.upgrades import LAST_BEFORE_KUBEADM
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE, DRAIN_BLOCKED, NODE_FINALIZER, NODE_IN_WORK
from espalier.clusterapi.changes.machine_change import control_plane_bootstrap
from espalier.runtime.controllers.outcome import Continue, Done, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.upgrades import names
from espalier.upgrades.node import cluster_configuration, status
from espalier.upgrades.node.cluster_configuration import WantedConfiguration
from espalier.upgrades.node.containers import KUBEADM, POD_CREATED
from espalier.upgrades.node.context import (
    RESOURCE,
    NodeUpgradeContext,
    clear_node,
    delete_orphaned_rbac,
    own_note,
    resume_remediation,
    write_configuration,
)
from espalier.upgrades.node.observe import NodeScope


async def end_on_node(ctx: NodeUpgradeContext) -> Outcome:
    """Let a running step finish, then clean up the node and uncordon it.

    On a machine that is being deleted, only the rights of the upgrader pod are taken away, and only if its cluster
    answers. Nothing is left to do if no pod was created and the cluster has no kubeconfig. Another NodeUpgrade on the
    node cleans up itself.
    """
    scope = ctx.scope
    if NODE_FINALIZER not in scope.object.metadata.finalizers:
        return Done()
    if scope.cluster and scope.cluster_view is None:
        return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {scope.cluster}")
    machine = scope.machine.machine if scope.machine else None
    if machine is None or machine.metadata.deletion_timestamp is not None or not scope.node_name:
        if scope.cluster_view is not None and scope.cluster_view.is_being_read:  # as after a restart of the manager
            return Wait(Reason.CACHE_NOT_SYNCED, f"reading workload cluster {scope.cluster}", after=5.0)
        if scope.workload is not None and not scope.workload.silent_for:
            await delete_orphaned_rbac(scope.workload, scope.node_name)
        return Continue()
    has_begun = condition_list.is_true(scope.upgrade.status.conditions, POD_CREATED)
    if scope.cluster_view is None or (scope.cluster_view.capi_objects.kubeconfig is None and not has_begun):
        return Continue()
    if scope.workload is None:
        return scope.cluster_view.unreachable
    if scope.taken_by:
        return Continue()
    if not scope.may_delete_pod:
        running = f"{names.UPGRADER_NAMESPACE}/{names.upgrader(scope.node_name)}"
        advice = f"to abort a step that does not finish, delete Pod {running} in the workload cluster"
        return Wait(
            Reason.UPGRADER_POD_RUNNING, f"waiting for the upgrader pod on node {scope.node_name} to finish: {advice}"
        )
    node = scope.workload.node_object(scope.node_name)
    if node is not None and CORDONED_BY_UPGRADE in node.metadata.annotations:
        notes = {CORDONED_BY_UPGRADE: None, DRAIN_BLOCKED: None}
        uncordoned = {"metadata": {"annotations": notes}, "spec": {"unschedulable": None}}
        await scope.workload.writer.merge(NODE, node, uncordoned, Precondition.UID)
    if scope.pod is not None or scope.earlier is not None or not scope.upgrade.is_completed:
        await clear_node(scope.workload, scope)
    return Continue()


async def restore_configuration(ctx: NodeUpgradeContext) -> Outcome:
    """Give kubeadm-config what the control plane asks for now, since joining machines get their flags from it.

    The change may have been reverted after it was written there, before kubeadm ran. If the control plane asks for
    another version, the upgrade to that version writes it.
    """
    scope = ctx.scope
    config_map = scope.workload.kubeadm_config if scope.workload else None
    if scope.workload is None or config_map is None or scope.control_plane is None or not _may_have_written(scope):
        return Continue()
    spec = scope.control_plane.tree["spec"]
    bootstrap = control_plane_bootstrap(spec.get("kubeadmConfigSpec") or {}, spec["version"])
    parts = bootstrap.get("clusterConfiguration") or {}
    tag = ((parts.get("etcd") or {}).get("local") or {}).get("imageTag") or ""
    with suppress(ValueError):  # an invalid configuration was not written by us
        if cluster_configuration.version_of(cluster_configuration.read(config_map.tree)) == spec["version"]:
            await write_configuration(scope.workload, config_map, WantedConfiguration(spec["version"], tag, parts))
    return Continue()


def _may_have_written(scope: NodeScope) -> bool:
    """True if it claimed the control plane and kubeadm is not done on its node, while no other upgrade is running:
    people may have edited the claim.
    """
    claim = scope.control_plane.metadata.annotations.get(NODE_IN_WORK) if scope.control_plane else None
    has_begun = condition_list.is_true(scope.upgrade.status.conditions, POD_CREATED)
    is_its_turn = not scope.claimed_by and (has_begun or claim == names.claim(scope.object))
    is_open = KUBEADM.condition not in status.done(scope.conditions)
    return is_its_turn and is_open and not scope.renews_certificates


async def remove_finalizer(ctx: NodeUpgradeContext) -> Outcome:
    """Let health checks remediate the machine again, and let the API server delete the NodeUpgrade."""
    scope = ctx.scope
    may_have_changed = not scope.upgrade.is_completed and _may_have_changed(scope)
    if may_have_changed and scope.machine is not None and NODE_FINALIZER in scope.object.metadata.finalizers:
        finding = f"NodeUpgrade {scope.object.name} was deleted before the upgrade of node {scope.node_name} finished"
        advice = "the next upgrade in place completes it; if none follows, delete the Machine to have it replaced"
        ctx.tools.recorder.event(scope.machine.object, "Warning", Event.UPGRADE_BROKEN_OFF, f"{finding}: {advice}")
    await resume_remediation(ctx, **({} if may_have_changed else own_note(ctx)))
    await ctx.tools.writer.remove_finalizer(RESOURCE, ctx.scope.object, NODE_FINALIZER)
    return Continue()


def _may_have_changed(scope: NodeScope) -> bool:
    """True if kubeadm may have upgraded the node, or the end of the pod was not seen."""
    if scope.renews_certificates:
        return False
    has_begun = condition_list.is_true(scope.upgrade.status.conditions, POD_CREATED)
    is_next = LAST_BEFORE_KUBEADM in status.done(scope.conditions)
    return is_next or (has_begun and scope.pod is None)


DELETION = (end_on_node, restore_configuration, remove_finalizer)
"""From a deleted NodeUpgrade to its removal."""
