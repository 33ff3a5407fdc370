"""What is done for settled clusters: they are compared with what is rendered for them, and brought back if asked to.

The gate stays closed over it: nothing was asked for, and a pass that ends half-way finds the rest of the drift again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from espalier.api.capi import cluster as capi
from espalier.clusters import cni, drift, names, synced, workload
from espalier.clusters.context import Pass
from espalier.clusters.drift import Drift, InstalledCNI
from espalier.clusters.gate import Isolation
from espalier.clusters.plan import Change, Removal
from espalier.clusters.rendered import Manifest
from espalier.kube.errors import KubeError
from espalier.runtime.outcome import Done, Fault, Outcome, fault_of
from espalier.runtime.remote_tasks import Failed

NOT_CORRECTED = "DriftNotCorrected"


class Answer(NamedTuple):
    """What was seen in a workload cluster."""

    drifts: Sequence[Drift] = ()
    failure: str = ""
    """Why nothing could be seen: the name of an error, whose text may be another each time it is written."""


async def oversee(p: Pass) -> Outcome:
    """Compare, bring back what the Cluster's annotation says, and keep what is left for the status."""
    scope = p.scope
    if scope.isolation is not Isolation.LAYERS or scope.machinery.cluster is None or synced.incomparable(scope):
        return Done()
    manifests = [] if scope.leaves_cni_alone or scope.design is None else cni.objects(scope.design)
    answer = await seen_in_workload(p, manifests)
    if answer is None:
        return Done()  # the pass comes again for it
    wish = drift.policy(scope.cluster.metadata.annotations)
    found = _found(p, manifests, answer)
    wanted = drift.correctable(found, wish)
    if wanted and p.tools.rests.is_resting(scope.key):
        wanted = []
    refusals = await _correct_machinery(p, wanted)
    in_workload = await _correct_in_workload(p, wanted)
    is_done = in_workload is not None
    refusals |= in_workload or {}
    corrected = [one for one in wanted if one.what not in refusals and (is_done or not _is_in_workload(one))]
    if corrected:
        p.tools.rests.rest(scope.key)
        p.event("Normal", "DriftCorrected", "; ".join(map(str, corrected)))
        p.look_again()
        left = tuple(one for one in answer.drifts if one not in corrected)
        if manifests and not answer.failure:
            p.saw_cni(left)
        found = _found(p, manifests, Answer(left, answer.failure))
    if is_done or refusals:
        p.synced = synced.seen(p.scope, found, answer.failure, refusals)
    if refusals:
        return Fault(NOT_CORRECTED, "; ".join(f"{what}: {why}" for what, why in refusals.items()))
    return Done()


async def seen_in_workload(p: Pass, manifests: list[Manifest]) -> Answer | None:
    """Where the CNI of the workload cluster differs; None when the pass comes again for it."""
    scope = p.scope
    if not manifests:
        return Answer()
    if scope.machinery.kubeconfig is None:
        return Answer(failure="no kubeconfig")
    asked = (scope.cluster.metadata.annotations.get(names.DRIFT_ANNOTATION, ""), scope.mark)
    match await p.tools.errands.send(scope.key, workload.look(manifests, asked, scope.machinery.kubeconfig)):
        case Failed(error):
            p.tools.rests.try_again(scope.key)
            return Answer(failure=type(error).__name__)
        case None:
            return None
        case drifts:
            p.tools.rests.answered(scope.key)
            p.saw_cni(drifts)
            return Answer(drifts)


def _found(p: Pass, manifests: list[Manifest], answer: Answer) -> list[Drift]:
    design, machinery = p.scope.design, p.scope.machinery
    if design is None:
        return []
    installed = None if p.scope.leaves_cni_alone else cni.mark(manifests)
    return [*drift.of_machinery(design, machinery, installed), *answer.drifts]


def _is_in_workload(one: Drift) -> bool:
    return isinstance(one.remedy, Manifest)


async def _correct_machinery(p: Pass, drifts: Iterable[Drift]) -> dict[str, str]:
    """Bring back what is in this cluster: what could not be, with the reasons."""
    refusals: dict[str, str] = {}
    for one in drifts:
        try:
            await _bring_back(p, one)
        except (KubeError, ValueError) as error:
            refusals[one.what] = fault_of(error).message
    return refusals


async def _correct_in_workload(p: Pass, drifts: Iterable[Drift]) -> dict[str, str] | None:
    """Bring back what is in the workload cluster: what could not be. None when the pass comes again for it."""
    manifests = [(one.what, one.remedy) for one in drifts if isinstance(one.remedy, Manifest)]
    kubeconfig = p.scope.machinery.kubeconfig
    if not manifests or kubeconfig is None:
        return {}
    match await p.tools.errands.send(p.scope.key, workload.correct(manifests, kubeconfig)):
        case Failed(workload.NotCorrected() as error):
            return {what: fault_of(why).message for what, why in error.refusals.items()}
        case Failed(error):
            return {what: fault_of(error).message for what, _ in manifests}
        case None:
            return None
        case _:
            return {}


async def _bring_back(p: Pass, one: Drift) -> None:
    writer, machinery = p.tools.writer, p.scope.machinery
    match one.remedy:
        case Change() as change:
            await writer.apply(change, p.scope.belonging)
        case Removal() as removal:
            await writer.remove(removal, p.scope.belonging)
        case InstalledCNI(mark) if machinery.cluster_object is not None:
            await writer.annotate(capi.Cluster.resource, machinery.cluster_object, names.CNI_ANNOTATION, mark)
