"""Steps that concern the CNI: a lost one is restored, another one installed, and at last it is compared.

Nodes get ready with a CNI alone. So one that the workload cluster has lost is restored before nodes are waited for; one
that is there and is to be another waits its turn behind the control plane.
"""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.capi import cluster as capi
from espalier.clusterapi import kubeconfig
from espalier.clusters import cni, names, readiness, workload
from espalier.clusters.context import Context
from espalier.clusters.drift import Drift, lost_cni
from espalier.clusters.drift_correction import seen_in_workload
from espalier.clusters.rendered import Manifest
from espalier.kube.errors import BadRequest, Forbidden, Invalid, Unreachable
from espalier.runtime.outcome import Continue, Fault, Outcome, Wait
from espalier.runtime.remote_tasks import FRESH, Failed

AGAIN = 60.0
"""Seconds after which a cluster whose nodes are waited for is compared once more: its CNI may be lost meanwhile."""


async def restore_cni(ctx: Context) -> Outcome:
    """What was changed by hand of the CNI is restored, and one that was lost before anything waits for nodes.

    A workload cluster that gives no answer holds nothing up: the change may be what brings it back.
    """
    scope = ctx.scope
    installed = scope.capi_objects.installed_cni
    is_new = not installed and scope.status.observed_generation == 0  # else EKS Anywhere made it, and wrote no mark
    if is_new or scope.leaves_cni_alone:
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


async def install_cni(ctx: Context) -> Outcome:
    """The workload cluster has the CNI that is asked for, if that is another than it was given last.

    A change is noted before it begins: who takes it back half-way has neither the one nor the other.
    """
    scope = ctx.scope
    installed = scope.capi_objects.installed_cni
    cluster = scope.capi_objects.cluster_object
    if installed == scope.wanted_cni or (installed and scope.leaves_cni_alone) or cluster is None:
        return Continue()
    content = scope.capi_objects.kubeconfig
    if content is None:
        secret = kubeconfig.secret_key(scope.cluster_identity.capi)
        return Wait("WaitingForKubeconfig", f"waiting for Secret {secret}")
    await ctx.open_gate()
    name = scope.wanted_cni.rpartition("-")[0]
    if installed and installed != f"{name}-{names.UNFINISHED}":
        await ctx.annotate(capi.Cluster.resource, cluster, {names.CNI_ANNOTATION: f"{name}-{names.UNFINISHED}"})
        ctx.refresh()
    match await ctx.tools.remote_tasks.send(scope.cluster_identity, workload.install(_manifests(ctx), content)):
        case Failed(error):
            return Fault(_reason(error), f"the CNI could not be installed in the workload cluster: {error}")
        case None:
            return Wait(readiness.CNI_INSTALLATION, readiness.CNI_IS_BEING_INSTALLED)
    await ctx.annotate(capi.Cluster.resource, cluster, {names.CNI_ANNOTATION: scope.wanted_cni})
    ctx.event("Normal", "CNIInstalled", f"{name} was applied to the workload cluster")
    ctx.refresh()
    ctx.saw_cni(())
    return Continue()


async def compare_cni(ctx: Context) -> Outcome:
    """The CNI is as it is rendered, as far as the workload cluster gives an answer; what it does not, Synced says."""
    if not ctx.scope.capi_objects.installed_cni or ctx.scope.leaves_cni_alone:
        return Continue()
    answer = await seen_in_workload(ctx, _manifests(ctx))
    if answer is None:
        return Wait(readiness.CNI_INSTALLATION, "waiting for the CNI of the workload cluster to be compared")
    if not answer.drifts:
        return Continue()
    lost = lost_cni(answer.drifts)
    if ctx.tools.rate_limits.is_limited(ctx.scope.key):
        return _lasting(lost)
    match await _restored(ctx, answer.drifts):
        case Failed(error) if lost:
            return Fault(_reason(error), f"{_lost(lost)}: {error}")
        case None:
            return Wait(readiness.CNI_INSTALLATION, "waiting for the CNI of the workload cluster to be as it was")
    return _lasting(ctx.scope.lost_cni or ())


def _lasting(lost: Sequence[str]) -> Outcome:
    """What can't be restored holds nothing up unless it is lost: something in the workload cluster may change objects
    at once, a webhook say, and Synced names that."""
    if not lost:
        return Continue()
    return Wait(readiness.CNI_INSTALLATION, f"waiting for {', '.join(lost)} to be there", after=FRESH)


async def _restored(ctx: Context, drifts: Sequence[Drift]) -> bool | Failed | None:
    """Bring back what differs: whether anything could be, or why not; None while it is under way."""
    manifests = [(one.what, one.remedy) for one in drifts if isinstance(one.remedy, Manifest)]
    content = ctx.scope.capi_objects.kubeconfig
    if not manifests or content is None:
        return False
    match await ctx.tools.remote_tasks.send(ctx.scope.cluster_identity, workload.correct(manifests, content)):
        case Failed() as failed:
            return failed
        case None:
            return None
    ctx.tools.rate_limits.rest(ctx.scope.key)
    ctx.event("Normal", "CNIRestored", "; ".join(map(str, drifts)))
    ctx.saw_cni(tuple(one for one in drifts if not isinstance(one.remedy, Manifest)))
    return True


def _manifests(ctx: Context) -> list[Manifest]:
    return cni.objects(ctx.scope.design) if ctx.scope.design is not None else []


def _lost(lost: Sequence[str]) -> str:
    return f"the workload cluster has lost its CNI ({', '.join(lost)}), and it could not be installed again"


def _reason(failure: Exception) -> str:
    """Of a failure; an answer that says no will not be another by being asked for again."""
    if isinstance(failure, workload.NotCorrected):
        failure = next(iter(failure.refusals.values()))
    if isinstance(failure, Unreachable):
        return names.WORKLOAD_CLUSTER_UNREACHABLE
    refused = isinstance(failure, Invalid | Forbidden | BadRequest)
    return readiness.CNI_REFUSED if refused else readiness.CNI_INSTALLATION
