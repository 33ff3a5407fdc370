"""Steps for a provider's objects in the workload cluster.

Without a cloud controller manager, nodes of most providers never become ready, nor does the control plane become
available: the objects are first installed as soon as the API server answers. Updates come after the control plane,
because they must not be newer than it.
"""

from __future__ import annotations

from espalier.api.capi import cluster as capi
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusterapi import contract, kubeconfig
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.drift_correction import seen_of_provider
from espalier.clusters.design import names
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.plan import workload, workload_objects
from espalier.clusters.plan.workload_objects import Installed
from espalier.kube.errors import BadRequest, Forbidden, Invalid, Unreachable
from espalier.runtime.controllers.outcome import Continue, Fault, Outcome, Wait
from espalier.runtime.workload_clusters.remote_tasks import Failed

_IN_PROGRESS = "the provider's objects are being installed in the workload cluster"


async def copy_credentials_to_workload(ctx: ClusterContext) -> Outcome:
    """Apply the provider's Secrets in the workload cluster, if only credentials changed."""
    scope, objects = ctx.scope, workload_objects.installed(ctx.scope)
    manifests = [manifest for manifest in workload_objects.wanted(scope.render_input) if manifest.resource == SECRET]
    content = scope.capi_objects.kubeconfig
    if not scope.takes_credentials or not manifests or not objects.digest or content is None:
        return Continue()
    match await ctx.tools.remote_tasks.send(scope.cluster_identity, workload.install(manifests, content)):
        case Failed(error):
            message = f"changed credentials could not be applied in the workload cluster: {error}"
            return Fault(
                Reason.WORKLOAD_CLUSTER_UNREACHABLE
                if isinstance(error, Unreachable)
                else Reason.WORKLOAD_OBJECTS_REFUSED,
                message,
            )
        case None:
            return Wait(
                Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS,
                "changed credentials are being applied in the workload cluster",
            )
    return Continue()


async def begin_workload_objects(ctx: ClusterContext) -> Outcome:
    """Install the provider's objects as soon as the API server answers."""
    cluster = ctx.scope.capi_objects.cluster
    if cluster is None or not contract.is_control_plane_initialized(cluster):
        return Continue()
    return await install_workload_objects(ctx) if not workload_objects.installed(ctx.scope).digest else Continue()


async def install_workload_objects(ctx: ClusterContext) -> Outcome:
    """Install the provider's rendered objects, and delete those that are no longer rendered.

    The annotation lists objects before any is written.
    """
    scope, cluster = ctx.scope, ctx.scope.capi_objects.cluster_object
    due = workload_objects.due(scope)
    if due is None or cluster is None:
        return Continue()
    manifests, superfluous, installed = due
    content = scope.capi_objects.kubeconfig
    if content is None:
        secret = kubeconfig.secret_key(scope.cluster_identity.capi)
        return Wait(Reason.WAITING_FOR_KUBECONFIG, f"waiting for Secret {secret}")
    await ctx.open_gate()
    await _note(ctx, Installed(names.UNFINISHED, (*installed.objects, *superfluous)))
    match await ctx.tools.remote_tasks.send(scope.cluster_identity, workload.install(manifests, content, superfluous)):
        case Failed(error):
            refused = isinstance(error, Invalid | Forbidden | BadRequest)
            reason = (
                Reason.WORKLOAD_CLUSTER_UNREACHABLE
                if isinstance(error, Unreachable)
                else Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS
            )
            message = f"the provider's objects could not be installed in the workload cluster: {error}"
            return Fault(Reason.WORKLOAD_OBJECTS_REFUSED if refused else reason, message)
        case None:
            return Wait(Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS, _IN_PROGRESS)
    await _note(ctx, installed)
    ctx.event(
        "Normal", Event.WORKLOAD_OBJECTS_INSTALLED, f"{len(manifests)} objects were applied to the workload cluster"
    )
    return Continue()


async def compare_workload_objects(ctx: ClusterContext) -> Outcome:
    """Compare the provider's objects with what is rendered, if the workload cluster is reachable."""
    answer = await seen_of_provider(ctx)
    if answer is None:
        return Wait(
            Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS,
            "waiting for the provider's objects in the workload cluster to be checked",
        )
    manifests = [(drift.what, drift.remedy) for drift in answer.drifts if isinstance(drift.remedy, Manifest)]
    content = ctx.scope.capi_objects.kubeconfig
    if not manifests or content is None or ctx.tools.rate_limits.is_limited(ctx.scope.key):
        return Continue()
    match await ctx.tools.remote_tasks.send(ctx.scope.cluster_identity, workload.correct(manifests, content)):
        case Failed():
            return Continue()  # Synced reports the rest
        case None:
            return Wait(
                Reason.WORKLOAD_OBJECTS_INSTALLATION_IN_PROGRESS,
                "waiting for the provider's objects in the workload cluster to be restored",
            )
    ctx.tools.rate_limits.limit(ctx.scope.key)
    ctx.event("Normal", Event.WORKLOAD_OBJECTS_RESTORED, "; ".join(map(str, answer.drifts)))
    return Continue()


async def _note(ctx: ClusterContext, installed: Installed) -> None:
    """Write the annotation, if it differs."""
    cluster = ctx.scope.capi_objects.cluster_object
    if cluster is None or workload_objects.installed(ctx.scope) == installed:
        return
    # A patch with null removes the annotation.
    value = str(installed) or None
    annotation = {"metadata": {"annotations": {metadata_keys.WORKLOAD_OBJECTS_ANNOTATION: value}}}
    await ctx.tools.writer.merge(capi.Cluster.resource, cluster, annotation)
    ctx.refresh()
