"""Clusters whose machines are upgraded in place by runtime hooks: what is written, held back and reported."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.eksa.upgrades import FrontEnd, refusal
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_HOOKS, IN_PLACE_REFUSED
from espalier.api.meta import Tree
from espalier.clusters.design.cluster_objects.runtime_hooks import chosen
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import drift, plan
from espalier.clusters.report import readiness
from espalier.runtime.controllers.outcome import Wait
from tests.support.objects.made_clusters import made, objects
from tests.support.objects.observed_clusters import as_object
from tests.support.objects.runtime_hooks import DISCOVERED, asked

HOOKS = FrontEnd.HOOKS


def cluster(spec: Tree, *more: Tree, annotations: Tree | None = None, version: str = "1.36", **status: Any) -> Scope:
    """A cluster of 1.35 whose machines are marked for the hooks, of which a version is asked."""
    live = objects(**spec, front_end=HOOKS)
    for tree in live:
        if tree["kind"] == "KubeadmControlPlane":
            tree["metadata"].setdefault("annotations", {}).update(annotations or {})
            tree["status"] |= status
    return made(objects=[*live, *more], front_end=HOOKS, **spec, kubernetesVersion=version)


def obstacle(scope: Scope) -> Wait | None:
    assert scope.render_input is not None
    return plan.obstacle(
        plan.control_plane(scope.render_input, scope.capi_objects), scope.render_input, scope.capi_objects
    )


def ready_of(scope: Scope) -> tuple[str, str]:
    result = {condition.type: condition for condition in readiness.conditions(scope)}["ControlPlaneReady"]
    return result.reason, result.message


def test_replacing_changes_wait_for_the_hooks() -> None:
    result = obstacle(cluster(asked()))
    assert result is not None
    assert result.reason == Reason.RUNTIME_HOOKS_NOT_DISCOVERED
    assert obstacle(cluster(asked(), DISCOVERED)) is None
    assert obstacle(cluster(asked(), version="1.35")) is None, "nothing is replaced"


def test_small_control_plane_follows_the_fallback() -> None:
    result = obstacle(cluster(asked(1), DISCOVERED))
    assert result is not None
    assert result.reason == Reason.TOO_FEW_MACHINES_FOR_HOOKS
    assert result.message.startswith("a control plane of 1 can't be upgraded in place by runtime hooks")
    falls_back = cluster(asked(1, "RollingUpdate"), DISCOVERED)
    assert obstacle(falls_back) is None
    assert falls_back.capi_objects.control_plane is not None
    assert IN_PLACE_HOOKS not in falls_back.capi_objects.control_plane.metadata.annotations, (
        "it is replaced as any other"
    )


def test_upgrades_by_annotations_end_by_annotations() -> None:
    spec = asked()
    live = objects(**spec)
    marks = {"controlplane.clusters.x-k8s.io/in-place-upgrade-needed": "true"}
    for tree in live:
        if tree["kind"] == "KubeadmControlPlane":
            tree["metadata"]["annotations"] = marks | {"cluster.x-k8s.io/paused": "in-place-upgrade"}
    scope = made(objects=live, front_end=HOOKS, **spec, kubernetesVersion="1.36")
    assert scope.render_input is not None
    (control_plane,) = (
        item
        for item in plan.control_plane(scope.render_input, scope.capi_objects)
        if item.resource.kind == "KubeadmControlPlane"
    )
    assert control_plane.metadata.annotations["cluster.x-k8s.io/paused"] == "in-place-upgrade"
    assert IN_PLACE_HOOKS not in control_plane.metadata.annotations
    assert obstacle(scope) is None


@pytest.mark.parametrize("observed", [0, 1])
def test_refusal_of_the_present_generation_is_reported(observed: int) -> None:
    refused_changes = {IN_PLACE_REFUSED: refusal(1, "files of it can't be changed in place")}
    outdated: Tree = {"upToDateReplicas": 0, "observedGeneration": observed}
    assert ready_of(cluster(asked(), annotations=refused_changes, **outdated)) == (
        Reason.IN_PLACE_UPGRADE_REFUSED,
        "files of it can't be changed in place",
    )
    older = {IN_PLACE_REFUSED: refusal(0, "files of it can't be changed in place")}
    assert ready_of(cluster(asked(), annotations=older, **outdated))[0] != Reason.IN_PLACE_UPGRADE_REFUSED
    assert ready_of(cluster(asked(), annotations=refused_changes, version="1.35"))[0] == "ControlPlaneReady", (
        "nothing is left to do"
    )


def test_with_the_fallback_a_refusal_is_a_rollout() -> None:
    refused_changes = {IN_PLACE_REFUSED: refusal(1, "files of it can't be changed in place")}
    scope = cluster(asked(fallback="RollingUpdate"), annotations=refused_changes, upToDateReplicas=0, version="1.35")
    assert ready_of(scope)[0] == Reason.ROLLING_UPGRADE_IN_PROGRESS


def test_progress_lists_failed_nodes_first() -> None:
    upgrades = [
        {
            "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
            "kind": "NodeUpgrade",
            "metadata": {
                "name": f"{machine}-node-upgrader",
                "namespace": "eksa-system",
                "uid": machine,
                "resourceVersion": "5",
                "labels": {"cluster.x-k8s.io/cluster-name": "garden"} | labels,
            },
            "spec": {"machine": {"name": machine}, "kubernetesVersion": "v1.36.3", "nodeType": "ControlPlane"},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "Renamed", "message": message},
                    {"type": "Progressing", "status": progressing, "reason": "Renamed"},
                ]
            },
        }
        for machine, message, progressing, labels in (
            ("a", "it is drained", "True", {}),
            ("b", "kubeadm failed", "False", {}),
            ("w", "it is drained", "True", {"cluster.x-k8s.io/deployment-name": "garden-md-0"}),
        )
    ]
    assert ready_of(cluster(asked(), *upgrades, upToDateReplicas=1)) == (
        Reason.IN_PLACE_UPGRADE_FAILED,
        "machines of KubeadmControlPlane garden are being upgraded in place: 1 of 3 are done; "
        "Machine b: kubeadm failed; Machine a: it is drained",
    )


def test_front_end_is_derived_from_objects() -> None:
    assert chosen(map(as_object, objects(**asked(), front_end=HOOKS))) is FrontEnd.HOOKS
    assert chosen(map(as_object, objects(**asked()))) is FrontEnd.ANNOTATIONS


@pytest.mark.parametrize(("before", "now"), [(HOOKS, FrontEnd.ANNOTATIONS), (FrontEnd.ANNOTATIONS, HOOKS)])
def test_change_of_the_front_end_is_no_drift(before: FrontEnd, now: FrontEnd) -> None:
    spec = asked()
    scope = made(objects=objects(**spec, front_end=before), front_end=now, **spec)
    assert scope.render_input is not None
    assert drift.of_capi_objects(scope.render_input, scope.capi_objects, None) == []
