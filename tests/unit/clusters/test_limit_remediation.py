"""When the health check of a control plane is paused, and when that pause is lifted: never one of somebody else's."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.eksa.vocabulary.metadata_keys import REMEDIATION_STOPPED_ANNOTATION as STOPPED
from espalier.api.meta import Tree
from espalier.clusterapi.contract import PAUSED_ANNOTATION as PAUSED
from espalier.clusters.act import machine_steps
from espalier.runtime.controllers.outcome import Continue
from tests.support.objects.made_clusters import counts, objects
from tests.support.objects.observed_clusters import datacenter, example
from tests.support.objects.reconciles import step

CHECK = "garden-kcp-unhealthy"
READY = counts(3)
ONE_AWAY = counts(3) | {"readyReplicas": 2}
ONE_MORE = counts(4)
NOT_OBSERVED = counts(3) | {"observedGeneration": 0}


def remediated(retries: int = machine_steps.RETRIES) -> Tree:
    return {"lastRemediation": {"machine": "garden-x", "time": "2026-01-01T00:00:00Z", "retryCount": retries}}


WHICH = "garden-x@2026-01-01T00:00:00Z"
PAUSES = {STOPPED: WHICH, PAUSED: "true"}
LIFTS = {STOPPED: None, PAUSED: None}

CASES: list[tuple[str, Tree, Tree, Tree | None]] = [
    ("a storm is stopped", {}, ONE_AWAY | remediated(), PAUSES),
    ("one more machine may be tried", {}, ONE_AWAY | remediated(machine_steps.RETRIES - 1), None),
    ("no machine was replaced", {}, ONE_AWAY, None),
    ("a storm that is over", {}, READY | remediated(), None),
    ("it is stopped already", PAUSES, ONE_AWAY | remediated(), None),
    ("somebody has it try again", {STOPPED: WHICH}, ONE_AWAY | remediated(), None),
    ("it tried again, in vain", {STOPPED: "garden-w@before"}, ONE_AWAY | remediated(), PAUSES),
    ("somebody paused it before it could be stopped", {PAUSED: "true"}, ONE_AWAY | remediated(), None),
    ("somebody paused it after it tried again", {STOPPED: "before", PAUSED: ""}, ONE_AWAY | remediated(), None),
    ("our pause, and all are ready", PAUSES, READY | remediated(), LIFTS),
    ("our pause, and not all are ready", PAUSES, ONE_AWAY, None),
    ("our pause, and what is reported is of before", PAUSES, NOT_OBSERVED, None),
    ("our pause, and it is scaled down", PAUSES, ONE_MORE, None),
    ("a pause of others, and all are ready", {PAUSED: "true"}, READY | remediated(), None),
    ("no pause, and all are ready", {}, READY, None),
]


def patches(annotations: Tree, status: Tree, *, without: str = "", **metadata: Any) -> list[Tree]:
    spec: Tree = {"controlPlaneConfiguration": {"count": 3}}
    made = objects(control_plane=status, **spec)
    check = next(tree for tree in made if tree["metadata"]["name"] == CHECK)
    check["metadata"] |= {"annotations": annotations, **metadata}
    trees = [*example(**spec), datacenter(), *(item for item in made if item["kind"] != without)]
    outcome, written, _ = step(machine_steps.limit_remediation, trees)
    assert outcome == Continue(), "it stops nothing"
    assert all(patch["metadata"].pop("uid") for patch in written)
    return written


@pytest.mark.parametrize(("annotations", "status", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_the_health_check_is_paused_and_resumed(annotations: Tree, status: Tree, expected: Tree | None) -> None:
    written = patches(annotations, status)
    assert written == ([] if expected is None else [{"metadata": {"annotations": expected}}])


@pytest.mark.parametrize(
    "gone",
    [
        {"without": "MachineHealthCheck"},
        {"without": "KubeadmControlPlane"},
        {"deletionTimestamp": "2026-01-01T00:00:00Z"},
    ],
    ids=["no check", "no control plane", "check is being deleted"],
)
@pytest.mark.parametrize(("annotations", "status"), [({}, ONE_AWAY | remediated()), (PAUSES, READY)])
def test_nothing_is_written_without_a_health_check(annotations: Tree, status: Tree, gone: Tree) -> None:
    assert patches(annotations, status, **gone) == []
