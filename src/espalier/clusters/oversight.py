"""What is done for settled clusters: they are compared with what is rendered for them, and brought back if asked to.

The gate stays closed over it: nothing was asked for, and a pass that ends half-way finds the rest of the drift again.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.capi import cluster as capi
from espalier.clusters import cni, drift, names, synced
from espalier.clusters.drift import Drift, InstalledCNI
from espalier.clusters.gate import Isolation
from espalier.clusters.looks import Answer, Question
from espalier.clusters.passing import Pass
from espalier.clusters.plan import Change, Removal
from espalier.clusters.rendered import Manifest
from espalier.kube.errors import KubeError
from espalier.runtime.outcome import Done, Fault, Outcome, fault_of

NOT_CORRECTED = "DriftNotCorrected"


async def oversee(p: Pass) -> Outcome:
    """Compare, bring back what the Cluster's annotation says, and keep what is left for the status."""
    scope = p.scope
    if scope.isolation is not Isolation.LAYERS or scope.machinery.cluster is None or synced.incomparable(scope):
        return Done()
    manifests = [] if scope.leaves_cni_alone or scope.design is None else cni.objects(scope.design)
    answer = await _look(p, manifests)
    if answer is None:
        return Done()
    wish = drift.policy(scope.cluster.metadata.annotations)
    found = _found(p, manifests, answer)
    wanted = drift.correctable(found, wish)
    if wanted and p.tools.rests.is_resting(scope.key):
        wanted = []
    refusals, corrected = await _correct(p, wanted)
    if corrected:
        p.tools.rests.rest(scope.key)
        p.event("Normal", "DriftCorrected", "; ".join(map(str, corrected)))
        p.look_again()
        left = tuple(one for one in answer.drifts if one not in corrected)
        found = _found(p, manifests, Answer(left, answer.failure))
    p.synced = synced.seen(p.scope, found, answer.failure, refusals)
    if refusals:
        return Fault(NOT_CORRECTED, "; ".join(f"{what}: {why}" for what, why in refusals.items()))
    return Done()


async def _look(p: Pass, manifests: list[Manifest]) -> Answer | None:
    """What the workload cluster has; None when the pass comes again for it."""
    scope = p.scope
    if not manifests:
        return Answer()
    if scope.machinery.kubeconfig is None:
        return Answer(failure="no kubeconfig")
    wish = scope.cluster.metadata.annotations.get(names.DRIFT_ANNOTATION, "")
    return await p.tools.looks.ask(
        scope.key, Question(manifests, cni.mark(manifests), scope.machinery.kubeconfig, wish)
    )


def _found(p: Pass, manifests: list[Manifest], answer: Answer) -> list[Drift]:
    design, machinery = p.scope.design, p.scope.machinery
    if design is None:
        return []
    installed = None if p.scope.leaves_cni_alone else cni.mark(manifests)
    return [*drift.of_machinery(design, machinery, installed), *answer.drifts]


async def _correct(p: Pass, drifts: Iterable[Drift]) -> tuple[dict[str, str], list[Drift]]:
    """Bring back each: what could not be, with the reasons, and what was."""
    refusals: dict[str, str] = {}
    corrected = []
    for one in drifts:
        try:
            await _bring_back(p, one)
        except (KubeError, ValueError) as error:
            refusals[one.what] = fault_of(error).message
        else:
            corrected.append(one)
    return refusals, corrected


async def _bring_back(p: Pass, one: Drift) -> None:
    writer, machinery = p.tools.writer, p.scope.machinery
    match one.remedy:
        case Change() as change:
            await writer.apply(change)
        case Removal() as removal:
            await writer.remove(removal)
        case InstalledCNI(mark) if machinery.cluster_object is not None:
            await writer.annotate(capi.Cluster.resource, machinery.cluster_object, names.CNI_ANNOTATION, mark)
        case Manifest() as manifest if machinery.kubeconfig is not None:
            p.tools.looks.forget(p.scope.key)
            client = p.tools.remotes.get(p.scope.key, machinery.kubeconfig)
            await client.apply(manifest.resource, manifest.body, field_manager=names.FIELD_MANAGER)
