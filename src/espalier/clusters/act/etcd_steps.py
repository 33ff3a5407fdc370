"""Steps that change external etcd, while the control plane is paused."""

from __future__ import annotations

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusterapi import contract, external_etcd
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.step import Decision, Write, decisions_of, write
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import plan
from espalier.clusters.plan.plan import Change, Removal
from espalier.clusters.report import readiness
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait


def change_etcd(scope: Scope) -> Decision:
    """Change external etcd before anything else; a new one is created together with the other objects."""
    if scope.capi_objects.etcd is None:
        return Continue()
    decisions = decisions_of(scope)
    return Write(decisions.changes(plan.of_etcd(decisions.control_plane)), Event.ETCD_APPLIED)


async def write_etcd(ctx: ClusterContext, decision: Decision) -> Outcome:
    """Write etcd, and pause the control plane: each new endpoint would replace its machines."""
    if not isinstance(decision, Write) or not any(
        change.resource == external_etcd.RESOURCE for change in decision.what
    ):
        return await write(ctx, decision)
    await ctx.open_gate()
    for control_plane in ctx.scope.capi_objects.of(KubeadmControlPlane.resource).values():
        if contract.PAUSED_ANNOTATION not in control_plane.metadata.annotations:  # any other is a person's own
            paused = {contract.PAUSED_ANNOTATION: external_etcd.PAUSED_FOR_ETCD}
            await ctx.annotate(KubeadmControlPlane.resource, control_plane, paused)
    return await write(ctx, decision._replace(what=[_upgrading(change) for change in decision.what]))


def _upgrading(change: Change | Removal) -> Change | Removal:
    """The etcd with the annotation for a rollout of its machines; its controller removes it only after that.

    It is part of the same write, so that it is never left behind without a change.
    """
    if not isinstance(change, Change) or change.resource != external_etcd.RESOURCE:
        return change
    if not any(field.startswith(external_etcd.MACHINE_FIELDS) for field in change.fields):
        return change
    metadata = change.body["metadata"]
    annotations = metadata.get("annotations", {}) | {external_etcd.UPGRADING: "true"}
    return change._replace(body=change.body | {"metadata": metadata | {"annotations": annotations}})


def await_etcd(scope: Scope) -> Decision:
    """Wait until etcd is as specified before an existing control plane changes; a new one waits by itself."""
    etcd, control_plane = scope.capi_objects.etcd, scope.capi_objects.control_plane
    if etcd is None or control_plane is None or external_etcd.is_ready(etcd):
        return Continue()
    if not external_etcd.endpoints(control_plane):
        return Continue()
    return Wait(Reason.EXTERNAL_ETCD_NOT_AVAILABLE, readiness.etcd_progress(etcd))


async def write_and_resume(ctx: ClusterContext, decision: Decision) -> Outcome:
    """Write the control plane, then resume it: the new endpoints and the other changes replace each machine once."""
    outcome = await write(ctx, decision)
    await resume_control_plane(ctx)
    return outcome


async def resume_control_plane(ctx: ClusterContext) -> Outcome:
    """Resume the control plane, with the endpoints of a changed etcd, or for its deletion."""
    for control_plane in ctx.scope.capi_objects.of(KubeadmControlPlane.resource).values():
        if control_plane.metadata.annotations.get(contract.PAUSED_ANNOTATION) == external_etcd.PAUSED_FOR_ETCD:
            await ctx.annotate(KubeadmControlPlane.resource, control_plane, {contract.PAUSED_ANNOTATION: None})
            ctx.refresh()
    return Continue()
