"""Drift of settled clusters: compares their objects with what is rendered, and corrects them if asked to.

The gate stays closed meanwhile: the desired state did not change. A reconcile that ends half-way finds the remaining
drift again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from espalier.api.capi import cluster as capi
from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.secrets import authenticator_secrets
from espalier.clusters.design import cni
from espalier.clusters.design.drift.drift_policy import policy
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.plan import drift, workload, workload_objects
from espalier.clusters.plan.drift import Drift, InstalledCNI
from espalier.clusters.plan.plan import Change, Removal
from espalier.clusters.report import synced
from espalier.kube.errors import KubeError
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, fault_of
from espalier.runtime.workload_clusters.remote_tasks import Failed


class Answer(NamedTuple):
    """The result of a comparison in a workload cluster."""

    drifts: Sequence[Drift] = ()
    failure: str = ""
    """Why the comparison failed: the name of the error, because its text may differ each time."""


async def correct_drift(ctx: ClusterContext) -> Outcome:
    """Compare, correct what the Cluster's annotation allows, and keep the rest for the status."""
    scope = ctx.scope
    if scope.isolation is not Isolation.LAYERS or scope.capi_objects.cluster is None or synced.incomparable(scope):
        return Done()
    manifests = [] if not scope.compares_cni or scope.render_input is None else cni.objects(scope.render_input)
    answer = await seen_in_workload(ctx, manifests)
    own = await seen_of_provider(ctx) if answer is not None else None
    if answer is None or own is None:
        return Done()  # its completion triggers another reconcile
    chosen = policy(scope.cluster.metadata.annotations)
    all_drifts = [*_all_drifts(ctx, manifests, answer), *own.drifts]
    # While Cluster API is paused, objects may be missing because they are being moved elsewhere.
    wanted = [] if scope.capi_objects.cluster.spec.paused else drift.correctable(all_drifts, chosen)
    disputes: dict[str, int] = {}
    for item in wanted:
        disputes |= ctx.tools.rate_limits.disputed(scope.key, item.fields)
    wanted = [item for item in wanted if not disputes.keys() & item.fields]
    if wanted and ctx.tools.rate_limits.is_limited(scope.key):
        wanted = []
    refusals = await _correct_capi_objects(ctx, wanted)
    in_workload = await _correct_in_workload(ctx, wanted)
    is_done = in_workload is not None
    refusals |= in_workload or {}
    corrected = [
        item for item in wanted if item.what not in refusals and (is_done or not isinstance(item.remedy, Manifest))
    ]
    if corrected:
        ctx.tools.rate_limits.limit(scope.key)
        ctx.tools.rate_limits.corrected(scope.key, (field for item in corrected for field in item.fields))
        ctx.event("Normal", Event.DRIFT_CORRECTED, "; ".join(map(str, corrected)))
        ctx.refresh()
        left = tuple(item for item in answer.drifts if item not in corrected)
        if manifests and not answer.failure:
            ctx.saw_cni(left)
        of_provider = [item for item in own.drifts if item not in corrected]
        all_drifts = [*_all_drifts(ctx, manifests, Answer(left, answer.failure)), *of_provider]
    if is_done or refusals:
        ctx.synced = synced.seen(ctx.scope, all_drifts, answer.failure or own.failure, refusals, disputes)
    if refusals:
        return Fault(Reason.DRIFT_NOT_CORRECTED, "; ".join(f"{what}: {why}" for what, why in refusals.items()))
    return Done()


async def seen_in_workload(ctx: ClusterContext, manifests: list[Manifest]) -> Answer | None:
    """The drift of the CNI in the workload cluster; None while it is being compared (another reconcile follows)."""
    answer = await _seen(ctx, manifests, "compare the CNI in")
    if answer is not None and manifests and not answer.failure:
        ctx.saw_cni(answer.drifts)
    return answer


async def seen_of_provider(ctx: ClusterContext) -> Answer | None:
    """The drift of the provider's objects in the workload cluster; None while they are being compared."""
    if workload_objects.are_adopted(ctx.scope):
        return Answer()
    return await _seen(ctx, workload_objects.wanted(ctx.scope.render_input), "compare the provider's objects in")


async def _seen(ctx: ClusterContext, manifests: list[Manifest], name: str) -> Answer | None:
    scope = ctx.scope
    if not manifests:
        return Answer()
    if scope.capi_objects.kubeconfig is None:
        return Answer(failure="no kubeconfig")
    asked = (scope.cluster.metadata.annotations.get(metadata_keys.DRIFT_ANNOTATION, ""), scope.content_hash)
    task = workload.compare(manifests, asked, scope.capi_objects.kubeconfig, name=name)
    match await ctx.tools.remote_tasks.send(scope.cluster_identity, task):
        case Failed(error):
            ctx.tools.rate_limits.try_again(scope.key)
            return Answer(failure=type(error).__name__)
        case None:
            return None
        case drifts:
            ctx.tools.rate_limits.answered(scope.key)
            return Answer(drifts)


def _all_drifts(ctx: ClusterContext, manifests: list[Manifest], answer: Answer) -> list[Drift]:
    render_input, capi_objects = ctx.scope.render_input, ctx.scope.capi_objects
    if render_input is None:
        return []
    installed = cni.content_hash(manifests) if ctx.scope.compares_cni else None
    return [*drift.of_capi_objects(render_input, capi_objects, installed), *answer.drifts]


async def _correct_capi_objects(ctx: ClusterContext, drifts: Iterable[Drift]) -> dict[str, str]:
    """Correct objects of this cluster; returns the failures with their reasons."""
    refusals: dict[str, str] = {}
    for item in drifts:
        try:
            await _correct(ctx, item)
        except (KubeError, ValueError) as error:
            refusals[item.what] = fault_of(error).message
    return refusals


async def _correct_in_workload(ctx: ClusterContext, drifts: Iterable[Drift]) -> dict[str, str] | None:
    """Correct objects of the workload cluster; returns the failures, None while it is in progress."""
    manifests = [(item.what, item.remedy) for item in drifts if isinstance(item.remedy, Manifest)]
    kubeconfig = ctx.scope.capi_objects.kubeconfig
    if not manifests or kubeconfig is None:
        return {}
    match await ctx.tools.remote_tasks.send(ctx.scope.cluster_identity, workload.correct(manifests, kubeconfig)):
        case Failed(workload.NotCorrected() as error):
            return {what: fault_of(why).message for what, why in error.refusals.items()}
        case Failed(error):
            return {what: fault_of(error).message for what, _ in manifests}
        case None:
            return None
        case _:
            return {}


async def _correct(ctx: ClusterContext, item: Drift) -> None:
    writer, capi_objects = ctx.tools.writer, ctx.scope.capi_objects
    match item.remedy:
        case Change(resource, body, ("data",)) if resource == SECRET and ctx.scope.render_input is not None:
            await authenticator_secrets.fill(ctx, ctx.scope.render_input, body["metadata"]["name"])
        case Change() as change:
            await writer.apply(change.resource, change.body, ctx.scope.cluster_ownership)
        case Removal() as removal:
            await writer.delete(removal.resource, removal.object, ctx.scope.cluster_ownership)
        case InstalledCNI(content_hash) if capi_objects.cluster_object is not None:
            cluster = capi_objects.cluster_object
            await ctx.annotate(capi.Cluster.resource, cluster, {metadata_keys.CNI_ANNOTATION: content_hash})
