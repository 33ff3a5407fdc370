"""When Cluster API goes on to replace a lost machine, and when it is paused again."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_CONTROL_PLANE, REPLACING
from espalier.api.meta import Condition, Tree
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Wait
from espalier.upgrades import expected
from espalier.upgrades.annotation_controller import AnnotationContext, replace_lost
from espalier.upgrades.group import control_plane as control_plane_group

OURS = {PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE}
THEIRS = {PAUSED_ANNOTATION: "by hand"}
BEGUN = {"type": "UpgraderPodCreated", "status": "True", "reason": "So"}
STOPPED = {"type": "Progressing", "status": "False", "reason": "So"}
READY = {"type": "Ready", "status": "True", "reason": "Done"}


def node_upgrade(machine: str, *conditions: Tree, completed: bool = False) -> Object:
    return made(
        {
            "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
            "kind": "NodeUpgrade",
            "metadata": {"name": f"{machine}-node-upgrader"},
            "spec": {"machine": {"name": machine}, "kubernetesVersion": "v1.36.3", "nodeType": "ControlPlane"},
            "status": {"completed": completed, "conditions": list(conditions)},
        }
    )


def made(tree: Tree) -> Object:
    return Object(encode_json(tree))


def written(lost: str, annotations: dict[str, str], *nodes: Object, noted: bool = False) -> tuple[list[Tree], Wait]:
    """The changes of annotations that are made, and what is told; `noted` is whether Machines say what was reached."""
    changes: list[Tree] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        changes.append(patch["metadata"]["annotations"])

    class Group(control_plane_group.ControlPlaneGroup):
        def is_expected(self, *_: Any) -> bool:
            return noted

        def lost(self, *_: Any) -> str:
            return lost

    machine = SimpleNamespace(
        machine=SimpleNamespace(
            metadata=SimpleNamespace(deletion_timestamp=None), spec=SimpleNamespace(version="v1.35.4")
        )
    )
    tools: Any = SimpleNamespace(
        observer=SimpleNamespace(node_upgrades=lambda _upgrade: list(nodes)), writer=SimpleNamespace(merge=merge)
    )
    capi_objects: Any = SimpleNamespace(machine=lambda name: None if name == "gone" else machine)
    owner = made({"kind": "KubeadmControlPlane", "metadata": {"name": "garden", "annotations": annotations}})
    upgrade = made(
        {
            "kind": "ControlPlaneUpgrade",
            "metadata": {"name": "garden-cp-upgrade"},
            "spec": {
                "controlPlane": {"name": "garden"},
                "machinesRequireUpgrade": [],
                "kubernetesVersion": "v1.36.3",
                "controlPlaneSpecData": expected.encoded({"version": "v1.36.3"}),
            },
        }
    )
    outcome = asyncio.run(replace_lost(AnnotationContext(tools, Group(), owner, upgrade, capi_objects)))
    assert isinstance(outcome, Wait)
    return changes, outcome


GOES_ON = [{PAUSED_ANNOTATION: None, REPLACING: "one is lost"}]
PAUSED_AGAIN = [{PAUSED_ANNOTATION: PAUSED_FOR_UPGRADE, REPLACING: None}]


@pytest.mark.parametrize(
    ("lost", "annotations", "changes", "reason"),
    [
        ("one is lost", OURS, GOES_ON, "ReplacingMachine"),
        ("one is lost", THEIRS, [], "ReplacingMachine"),
        ("one is lost", {REPLACING: "one is lost"}, [], "ReplacingMachine"),
        ("", {REPLACING: "one is lost"}, PAUSED_AGAIN, "ReplacingMachine"),
        ("", {REPLACING: "one is lost"} | THEIRS, [{REPLACING: None}], "ReplacingMachine"),
        ("", OURS, [], "UpgradingNodes"),
        ("", THEIRS, [], "UpgradingNodes"),
    ],
)
def test_pause_of_the_upgrade_alone_is_lifted(
    lost: str, annotations: dict[str, str], changes: list[Tree], reason: str
) -> None:
    patches, outcome = written(lost, annotations)
    assert (patches, outcome.reason) == (changes, reason)
    assert lost in outcome.message


@pytest.mark.parametrize(
    ("nodes", "noted", "changes"),
    [
        ([node_upgrade("one", BEGUN)], False, []),
        ([node_upgrade("gone", BEGUN), node_upgrade("one", BEGUN)], False, []),
        ([node_upgrade("one", BEGUN, READY, completed=True)], False, []),
        ([node_upgrade("one", BEGUN, READY, completed=True)], True, GOES_ON),
        ([node_upgrade("one", BEGUN, STOPPED)], False, GOES_ON),
        ([node_upgrade("one")], False, GOES_ON),
        ([node_upgrade("gone", BEGUN)], False, GOES_ON),
    ],
    ids=["goes on", "goes on beside one that is gone", "is done", "is noted", "failed", "has not begun", "is gone"],
)
def test_replacement_waits_for_a_running_node(nodes: list[Object], noted: bool, changes: list[Tree]) -> None:
    assert written("one is lost", OURS, *nodes, noted=noted)[0] == changes


def test_cluster_api_is_paused_again_beside_a_node() -> None:
    assert written("", {REPLACING: "one is lost"}, node_upgrade("one", BEGUN))[0] == PAUSED_AGAIN


def machine(name: str, *, going: bool = False, ill: bool = False) -> Any:
    """As much of a machine as is read."""
    conditions = [Condition(type="OwnerRemediated", status="False", reason="So")] if ill else []
    metadata = SimpleNamespace(name=name, deletion_timestamp="2026-01-01T00:00:00Z" if going else None, annotations={})
    return SimpleNamespace(
        name=name, machine=SimpleNamespace(metadata=metadata, status=SimpleNamespace(conditions=conditions))
    )


@pytest.mark.parametrize(
    ("machines", "sentence"),
    [
        ([machine("a"), machine("b"), machine("c")], ""),
        ([machine("a"), machine("b")], "2 of 3 control plane machines exist"),
        ([machine("a"), machine("b"), machine("c", going=True)], "Machine c is being replaced"),
        ([machine("a"), machine("b"), machine("c"), machine("d", going=True)], "Machine d is being replaced"),
        ([machine("a"), machine("b"), machine("c", ill=True)], "Machine c is being replaced"),
        ([machine("a", ill=True)], ""),  # nobody would be left to join
        ([machine("a", going=True)], ""),
    ],
)
def test_lost_machines_are_replaced_beside_others(machines: list[Any], sentence: str) -> None:
    message = control_plane_group.lost(control_plane(3), machines, ["a", "b", "c"])
    assert message.startswith(sentence)
    assert bool(message) is bool(sentence)


def test_machine_lost_before_is_replaced_for_etcd() -> None:
    two = [machine("a"), machine("b")]
    assert control_plane_group.lost(control_plane(3), two, ["a", "b"]).startswith("2 of 3 control plane machines")
    assert control_plane_group.lost(control_plane(3), two[:1], ["a"]) == "", "more are asked for: they come afterwards"


def control_plane(replicas: int, **annotations: str) -> Object:
    reference = {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "t"}
    return made(
        {
            "apiVersion": KubeadmControlPlane.resource.api_version,
            "kind": "KubeadmControlPlane",
            "metadata": {"name": "garden", "uid": "1", "annotations": annotations},
            "spec": {
                "replicas": replicas,
                "version": "v1.36.3",
                "machineTemplate": {"spec": {"infrastructureRef": reference}},
                "kubeadmConfigSpec": {},
            },
        }
    )


def test_growing_control_plane_has_lost_none() -> None:
    three = [machine("a"), machine("b"), machine("c")]
    assert control_plane_group.lost(control_plane(5), three, ["a", "b", "c"]) == ""
    assert control_plane_group.lost(control_plane(5), three, ["a", "b", "c", "d"]).startswith("3 of 5")


def test_replacement_goes_on_until_all_are_there() -> None:
    """The machine that went was not one of the upgrade: it is gone by now, and another one is awaited."""
    two = [machine("a"), machine("b")]
    going_on = control_plane(3, **{REPLACING: "one is lost"})
    assert control_plane_group.lost(going_on, two, ["a", "b"]).startswith("2 of 3")
    assert control_plane_group.lost(control_plane(5), [*two, machine("c")], ["a", "b", "c"]) == ""


MARK = {IN_PLACE_CONTROL_PLANE: "true"}


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ({**MARK, **OURS}, "ReplacingMachine"),
        ({**MARK, REPLACING: "one is lost"}, "ReplacingMachine"),
        ({**MARK, **THEIRS}, "OwnerPaused"),
        (OURS, "OwnerPaused"),  # an upgrade by hand: nobody takes the pause away
        (THEIRS, "OwnerPaused"),
    ],
)
def test_need_to_unpause_is_reported(annotations: dict[str, str], reason: str) -> None:
    outcome = control_plane_group.replacing(control_plane(3, **annotations), "2 of 3 control plane machines exist")
    assert outcome.reason == reason
    assert outcome.message.startswith("2 of 3 control plane machines exist")
    assert (f"remove annotation {PAUSED_ANNOTATION}" in outcome.message) is (reason == "OwnerPaused")
