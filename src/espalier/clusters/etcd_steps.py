"""Steps that change external etcd, while the control plane is paused."""

from __future__ import annotations

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.clusterapi import contract, external_etcd
from espalier.clusters import names, plan, readiness
from espalier.clusters.context import Context
from espalier.clusters.scope import Scope
from espalier.clusters.step import Decision, Write, design_of, write
from espalier.runtime.outcome import Continue, Outcome, Wait


def change_etcd(scope: Scope) -> Decision:
    """etcd on machines of its own changes before anything else; it is made with everything else."""
    if scope.capi_objects.etcd is None:
        return Continue()
    wanted = plan.of_etcd(plan.control_plane(design_of(scope), scope.capi_objects))
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
    return Wait(readiness.ETCD_NOT_AVAILABLE, readiness.etcd_progress(etcd))


async def resume_control_plane(ctx: Context) -> Outcome:
    """The control plane goes on, with the endpoints of an etcd that changed."""
    for control_plane in ctx.scope.capi_objects.of(KubeadmControlPlane.resource).values():
        if names.ETCD_CHANGES_ANNOTATION in control_plane.metadata.annotations:
            gone = dict.fromkeys((names.ETCD_CHANGES_ANNOTATION, contract.PAUSED_ANNOTATION))
            await ctx.annotate(KubeadmControlPlane.resource, control_plane, gone)
            ctx.refresh()
    return Continue()
