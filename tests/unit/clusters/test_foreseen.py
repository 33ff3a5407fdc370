"""Decisions of steps as a preview shows them: without the waits that end by themselves."""

from __future__ import annotations

import pytest

from espalier.api.capi.machine import MachineHealthCheck
from espalier.api.meta import Tree
from espalier.clusters.act.machine_steps import make_control_plane, make_workers
from espalier.clusters.act.step import Decision, Waits, Write, foreseen
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan.plan import Change
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from tests.support.objects.made_clusters import made, objects

PASSING = Wait("LinkedObjectsNotChecked", "waiting for the next check", ends_by_itself=True)
LASTING = Wait("MachineConfigInvalid", "the template does not exist")


@pytest.mark.parametrize(
    ("decision", "shown"),
    [
        (PASSING, Continue()),
        (LASTING, LASTING),
        (Done(), Done()),
        (Waits((PASSING, PASSING)), Continue()),
        (Waits((PASSING, LASTING)), LASTING),
        (Write([], "Applied"), Write([], "Applied")),
        (Write([], "Applied", until=PASSING), Write([], "Applied")),
        (Write([], "Applied", until=LASTING), LASTING),
        (Write([], "Applied", later=Write([], "Later")), Write([], "Later")),
        (Write([], "Applied", until=LASTING, later=Write([], "Later", until=PASSING)), Write([], "Later")),
        (Write([], "Applied", later=Write([], "Later", until=LASTING)), LASTING),
    ],
    ids=str,
)
def test_waits_that_end_by_themselves_are_over(decision: Decision, shown: Decision) -> None:
    assert foreseen(decision) == shown


def kinds(decision: Decision) -> list[str]:
    assert isinstance(decision, Write)
    return [item.resource.kind for item in decision.what if isinstance(item, Change)]


def in_creation() -> Scope:
    """A cluster without a ready machine, to be upgraded in place."""
    spec: Tree = {"controlPlaneConfiguration": {"count": 3, "upgradeRolloutStrategy": {"type": "InPlace"}}}
    live = [object_ for object_ in objects(**spec) if object_["kind"] != MachineHealthCheck.resource.kind]
    for tree in live:
        if tree["kind"] == "KubeadmControlPlane":
            tree["status"] |= {"replicas": 1, "readyReplicas": 0}
    return made(objects=live, kubernetesVersion="1.36", **spec)


def test_health_checks_of_unready_nodes_are_foreseen() -> None:
    scope = made(objects=[]).with_capi_objects(ClusterAPIObjects())
    for step in (make_control_plane, make_workers):
        assert MachineHealthCheck.resource.kind not in kinds(step(scope))
        assert MachineHealthCheck.resource.kind in kinds(foreseen(step(scope)))


def test_a_change_postponed_until_creation_is_foreseen() -> None:
    decision = make_control_plane(in_creation())
    assert "KubeadmControlPlane" not in kinds(decision)
    assert "KubeadmControlPlane" in kinds(foreseen(decision))
