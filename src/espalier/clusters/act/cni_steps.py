"""Steps for the CNI: restore a lost one, install a changed one, and finally compare it with what is rendered.

Nodes only become ready with a CNI. So a lost CNI is restored before any step waits for nodes; a changed CNI is
installed after the control plane.
"""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.capi import cluster as capi
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusterapi import kubeconfig
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.drift_correction import seen_in_workload
from espalier.clusters.design import cni, names
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.plan import workload
from espalier.clusters.plan.drift import Drift, lost_cni
from espalier.clusters.report import readiness
from espalier.kube.errors import BadRequest, Forbidden, Invalid, Unreachable
from espalier.runtime.controllers.outcome import Continue, Fault, Outcome, Wait
from espalier.runtime.workload_clusters.remote_tasks import RESULT_TTL, Failed

AGAIN = 60.0
"""Seconds after which the CNI is compared again while a step waits for nodes: it may have been deleted meanwhile."""


async def restore_cni(ctx: ClusterContext) -> Outcome:
    """Restore the CNI where it was changed by hand, or deleted, before any step waits for nodes.

    An unreachable workload cluster does not block the following steps: the change may be what makes it reachable again.
    """
    scope = ctx.scope
    installed = scope.capi_objects.installed_cni
    is_new = not installed and not scope.was_reconciled  # else EKS Anywhere made it
    if is_new or not scope.compares_cni:
        return Continue()
    answer = await seen_in_workload(ctx, _manifests(ctx))
    if answer is None or not answer.drifts:
        return Continue()
    lost = lost_cni(answer.drifts)
    if installed != scope.wanted_cni:
        return await install_cni(ctx) if lost else Continue()
    if ctx.tools.rate_limits.is_limited(scope.key):
        return Continue()
    await ctx.open_gate()
    match await _restored(ctx, answer.drifts):
        case Failed(error) if lost:
            return Fault(_reason(error), f"{_lost(lost)}: {error}")
    return Continue()


async def install_cni(ctx: ClusterContext) -> Outcome:
    """Install the CNI in the workload cluster if its content hash differs from the installed one.

    The annotation is set to "unfinished" first: if the change is reverted half-way, neither CNI is fully installed.
    """
    scope = ctx.scope
    installed = scope.capi_objects.installed_cni
    cluster = scope.capi_objects.cluster_object
    if not scope.is_cni_due or cluster is None:
        return Continue()
    content = scope.capi_objects.kubeconfig
    if content is None:
        secret = kubeconfig.secret_key(scope.cluster_identity.capi)
        return Wait(Reason.WAITING_FOR_KUBECONFIG, f"waiting for Secret {secret}")
    await ctx.open_gate()
    name = scope.wanted_cni.rpartition("-")[0]
    if installed and installed != f"{name}-{names.UNFINISHED}":
        await ctx.annotate(capi.Cluster.resource, cluster, {metadata_keys.CNI_ANNOTATION: f"{name}-{names.UNFINISHED}"})
        ctx.refresh()
    match await ctx.tools.remote_tasks.send(scope.cluster_identity, workload.install(_manifests(ctx), content)):
        case Failed(error):
            return Fault(_reason(error), f"the CNI could not be installed in the workload cluster: {error}")
        case None:
            return Wait(Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, readiness.CNI_IS_BEING_INSTALLED)
    await ctx.annotate(capi.Cluster.resource, cluster, {metadata_keys.CNI_ANNOTATION: scope.wanted_cni})
    ctx.event("Normal", Event.CNI_INSTALLED, f"{name} was applied to the workload cluster")
    ctx.refresh()
    ctx.saw_cni(())
    return Continue()


async def compare_cni(ctx: ClusterContext) -> Outcome:
    """Compare the CNI with what is rendered; condition Synced reports an unreachable workload cluster."""
    if not ctx.scope.capi_objects.installed_cni or not ctx.scope.compares_cni:
        return Continue()
    answer = await seen_in_workload(ctx, _manifests(ctx))
    if answer is None:
        return Wait(
            Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, "waiting for the CNI in the workload cluster to be checked"
        )
    if not answer.drifts:
        return Continue()
    lost = lost_cni(answer.drifts)
    if ctx.tools.rate_limits.is_limited(ctx.scope.key):
        return _wait_for_missing(lost)
    match await _restored(ctx, answer.drifts):
        case Failed(error) if lost:
            return Fault(_reason(error), f"{_lost(lost)}: {error}")
        case None:
            return Wait(
                Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS,
                "waiting for the CNI of the workload cluster to be restored",
            )
    return _wait_for_missing(ctx.scope.lost_cni or ())


def _wait_for_missing(lost: Sequence[str]) -> Outcome:
    """A failed restore only blocks when objects are missing: a webhook in the workload cluster, say, may change objects
    again at once, and Synced reports that.
    """
    if not lost:
        return Continue()
    return Wait(
        Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS, f"waiting for {', '.join(lost)} to be created", after=RESULT_TTL
    )


async def _restored(ctx: ClusterContext, drifts: Sequence[Drift]) -> bool | Failed | None:
    """Restore what differs: True if anything was restored, the error if not, None while it is in progress."""
    manifests = [(drift.what, drift.remedy) for drift in drifts if isinstance(drift.remedy, Manifest)]
    content = ctx.scope.capi_objects.kubeconfig
    if not manifests or content is None:
        return False
    match await ctx.tools.remote_tasks.send(ctx.scope.cluster_identity, workload.correct(manifests, content)):
        case Failed() as failed:
            return failed
        case None:
            return None
    ctx.tools.rate_limits.limit(ctx.scope.key)
    ctx.event("Normal", Event.CNI_RESTORED, "; ".join(map(str, drifts)))
    ctx.saw_cni(tuple(drift for drift in drifts if not isinstance(drift.remedy, Manifest)))
    return True


def _manifests(ctx: ClusterContext) -> list[Manifest]:
    return cni.objects(ctx.scope.render_input) if ctx.scope.render_input is not None else []


def _lost(lost: Sequence[str]) -> str:
    return f"the CNI is missing in the workload cluster ({', '.join(lost)}) and could not be reinstalled"


def _reason(failure: Exception) -> str:
    """The reason of a failure; a request that the API server refuses is not retried soon."""
    if isinstance(failure, workload.NotCorrected):
        failure = next(iter(failure.refusals.values()))
    if isinstance(failure, Unreachable):
        return Reason.WORKLOAD_CLUSTER_UNREACHABLE
    refused = isinstance(failure, Invalid | Forbidden | BadRequest)
    return Reason.DEFAULT_CNI_REFUSED if refused else Reason.DEFAULT_CNI_INSTALLATION_IN_PROGRESS
