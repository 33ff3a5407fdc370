"""A NodeUpgrade whose machine, pod or kubeadm-config is not as it has to be reports it; nothing is done then."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.conditions import timestamp
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import DRAIN_BLOCKED, RETRY_ANNOTATION
from espalier.api.meta import Condition, Tree
from espalier.runtime.controllers.outcome import Continue, Wait
from espalier.upgrades import expected, names
from espalier.upgrades.node import capacity, pod
from espalier.upgrades.node import observe as node_scope
from espalier.upgrades.node import steps as node_life
from espalier.upgrades.node.context import NodeUpgradeContext
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.observed.views import Node
from tests.support.objects.observed_upgrades import (
    NEW,
    ended,
    machine,
    made,
    node,
    reason,
    rights_taken,
    scope_of,
    working,
)

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("machine_view", "expected_reason", "taken"),
    [
        (None, "MachineMissing", [""]),
        (machine("a", control_plane=True, going=True), "MachineDeleted", ["a"]),
        (machine("a"), "WrongNodeType", []),
        (machine("a", control_plane=True), "", []),
    ],
)
@pytest.mark.parametrize("is_told_already", [False, True])
def test_missing_machine_is_reported_and_loses_rights(
    machine_view: Any, expected_reason: str, taken: list[str], is_told_already: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = rights_taken(monkeypatch, node_life)
    scope = replace(scope_of([node("a")]), machine=machine_view)
    if is_told_already:
        before = [Condition(type=names.READY, status="False", reason=expected_reason or "Waiting")]
        status = msgspec.structs.replace(scope.upgrade.status, conditions=before)
        scope = replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, status=status))
    outcome, _ = ended(node_life.find_machine, scope)
    assert (reason(outcome), of) == (expected_reason, [] if is_told_already else taken)


def test_machine_whose_label_was_edited_is_left_alone() -> None:
    scope = scope_of([node("a")])
    assert scope.machine is not None
    tree = scope.machine.object.tree
    tree["metadata"]["labels"]["cluster.x-k8s.io/cluster-name"] = "other"
    outcome, _ = ended(node_life.find_machine, replace(scope, machine=replace(scope.machine, object=made(tree))))
    assert reason(outcome) == "LabelsChanged"


def test_orphaned_control_plane_machine_is_left_alone() -> None:
    scope = replace(scope_of([node("a")]), control_plane=None)
    view: Any = scope.cluster_view
    view.capi_objects.control_planes = [SimpleNamespace(name="garden")]
    outcome, _ = ended(node_life.find_machine, scope)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "LabelsChanged"
    assert "restore the reference to KubeadmControlPlane garden" in outcome.message


@pytest.mark.parametrize(
    ("label", "expected_reason"), [("other", "LabelsChanged"), ("c", "CacheNotSynced")], ids=["edited", "not seen yet"]
)
def test_unread_machine_keeps_the_rights(label: str, expected_reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = rights_taken(monkeypatch, node_life)

    async def get(*_: Any) -> Any:
        return machine("a").object

    scope = replace(scope_of([node("a")]), machine=None)
    tree = scope.object.tree
    tree["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": label}
    tools: Any = SimpleNamespace(writer=SimpleNamespace(client=SimpleNamespace(get=get)))
    outcome = asyncio.run(node_life.find_machine(NodeUpgradeContext(tools, replace(scope, object=made(tree)))))
    assert (reason(outcome), taken) == (expected_reason, [])


@pytest.mark.parametrize(("field", "value"), [("kind", "Banana"), ("namespace", "elsewhere"), ("api_version", "v1")])
def test_reference_without_a_machine_is_refused(field: str, value: str) -> None:
    scope = scope_of([node("a")])
    wrong = msgspec.structs.replace(scope.upgrade.spec.machine, **{field: value})
    spec = msgspec.structs.replace(scope.upgrade.spec, machine=wrong)
    outcome, _ = ended(
        node_life.find_machine, replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, spec=spec))
    )
    assert isinstance(outcome, Wait)
    assert outcome.reason == "MachineMissing"
    assert value in outcome.message


def with_pod(phase: str, states: dict[str, Tree], **status: Any) -> NodeScope:
    """An upgrade whose pod is so; containers that are not named wait."""
    scope = working()
    assert scope.pod_object is not None
    tree = scope.pod_object.tree
    inits = [
        {"name": container["name"], "state": states.get(container["name"], {"waiting": {}})}
        for container in tree["spec"]["initContainers"]
    ]
    return replace(
        scope, pod_object=made({**tree, "status": {"phase": phase, "initContainerStatuses": inits, **status}})
    )


FAILED: Tree = {"terminated": {"exitCode": 1, "reason": "Error", "message": "no way"}}


def test_failed_step_or_pod_says_how_to_go_on() -> None:
    outcome, _ = ended(node_life.follow_pod, with_pod("Failed", {"components-copier": FAILED}))
    assert isinstance(outcome, Wait)
    assert outcome.reason == "CopyingComponentsFailed"
    assert outcome.message.startswith("step components-copier failed on node a: exit code 1: no way; ")
    outcome, _ = ended(
        node_life.follow_pod, with_pod("Failed", {}, reason="Evicted", message="the node was low on disk")
    )
    assert isinstance(outcome, Wait)
    assert outcome.reason == "PodFailed"


def test_place_to_correct_an_image_is_named() -> None:
    waiting = {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}
    outcome, _ = ended(node_life.follow_pod, with_pod("Pending", {"components-copier": waiting}))
    assert isinstance(outcome, Wait)
    assert outcome.reason == "PodNotStarting"
    assert f"correct entry {NEW} of ConfigMap eksa-system/in-place-upgrade" in outcome.message


@pytest.mark.parametrize(("runs", "deleted"), [(True, []), (False, ["pod"])])
def test_repeated_request_aborts_no_running_step(
    runs: bool, deleted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []

    async def delete_pod(*_: Any) -> None:
        gone.append("pod")

    monkeypatch.setattr(node_life, "delete_pod", delete_pod)
    scope = with_pod("Running" if runs else "Failed", {"components-copier": {"running": {}} if runs else FAILED})
    tree = scope.object.tree
    asked = {**tree, "metadata": {**tree["metadata"], "annotations": {RETRY_ANNOTATION: ""}}}
    outcome, written = ended(node_life.retry, replace(scope, object=made(asked)))
    assert (reason(outcome), gone) == ("Retrying", deleted)
    assert written == [{"metadata": {"annotations": {RETRY_ANNOTATION: None}}}]


async def test_no_pod_is_deleted_without_a_retry(monkeypatch: pytest.MonkeyPatch) -> None:
    async def delete_pod(*_: Any) -> None:
        raise AssertionError("the pod stays")

    monkeypatch.setattr(node_life, "delete_pod", delete_pod)
    tools: Any = SimpleNamespace(writer=None)
    failed = with_pod("Failed", {"components-copier": FAILED})
    assert await node_life.retry(NodeUpgradeContext(tools, failed)) == Continue()


@pytest.mark.parametrize(
    ("image", "waits"), [("not an image!", "UpgraderImageInvalid"), ("", "UpgraderImageMissing"), ("a/b:v1", "")]
)
def test_a_pod_is_created_with_an_image_that_is_one(image: str, waits: str) -> None:
    """Nobody could pull another, and it goes into the pods of a workload cluster."""
    assert reason(ended(node_life.find_image, replace(scope_of([node("a")]), image=image or None))[0]) == waits
    assert reason(ended(node_life.find_image, replace(working(), image=image or None))[0]) == "", "it has its pod"


@pytest.mark.parametrize(
    ("of", "uid", "is_own", "is_earlier", "taken_by"),
    [
        ("eksa-system/a-node-upgrader", "1", True, False, ""),
        ("eksa-system/a-node-upgrader", "", True, False, ""),
        ("", "1", True, False, ""),
        ("eksa-system/a-node-upgrader", "2", False, True, ""),
        ("eksa-system/other", "1", False, False, "eksa-system/other"),
        ("eksa-system/other", "2", False, False, "eksa-system/other"),
    ],
    ids=["own", "without uid", "without name", "earlier", "another's", "another's, of another uid"],
)
def test_a_pod_belongs_to_the_upgrade_that_created_it(
    of: str, uid: str, is_own: bool, is_earlier: bool, taken_by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of another upgrade on the node do not count, and its pod is not deleted."""
    known = scope_of([node("a")])
    tree = known.object.tree
    upgrade_object = made(
        {**tree, "metadata": {**tree["metadata"], "labels": {"cluster.x-k8s.io/cluster-name": "garden"}}}
    )
    wanted = pod.pod(pod.Upgrader(of, "a", "image", "control-plane", NEW, "account", upgrade=uid))
    present = made(wanted)
    view: Any = known.cluster_view
    view.workload.upgrader = lambda _node: present
    view.capi_objects.machine = lambda _name: known.machine
    monkeypatch.setattr(node_scope, "_control_plane", lambda *_: None)
    monkeypatch.setattr(node_scope, "_claimed_by", lambda *_: "")
    observer: Any = SimpleNamespace(view=lambda _cluster: view, image=lambda _version: ("image", ()))
    scope = node_scope.observe(observer, upgrade_object)
    assert (scope.pod_object is present, scope.earlier is present, scope.taken_by) == (is_own, is_earlier, taken_by)
    view.workload = None
    assert node_scope.observe(observer, upgrade_object).pod_object is None


@pytest.mark.parametrize(
    ("image", "states", "deleted"),
    [
        ("registry.example/corrected:v1", {"components-copier": FAILED}, ["pod"]),
        ("registry.example/corrected:v1", {}, ["pod"]),
        ("registry.example/corrected:v1", {"components-copier": {"running": {}}}, []),
        ("image", {"components-copier": FAILED}, []),
        ("not an image!", {"components-copier": FAILED}, []),
    ],
)
def test_pod_with_a_valid_image_is_made_anew(
    image: str, states: dict[str, Tree], deleted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []

    async def delete_pod(*_: Any) -> None:
        gone.append("pod")

    monkeypatch.setattr(node_life, "delete_pod", delete_pod)
    outcome, _ = ended(node_life.recreate_pod_for_image, replace(with_pod("Pending", states), image=image))
    assert (reason(outcome), gone) == ("Retrying" if deleted else "", deleted)


@pytest.mark.parametrize("noted", ["web-1", "x" * 5000, "a\nb"])
def test_note_of_a_drain_fits_into_a_status(noted: str) -> None:
    scope = replace(scope_of([]), node=node("a", annotations={DRAIN_BLOCKED: noted}))
    assert scope.drain_waits_for.startswith(noted[:1])
    assert len(scope.drain_waits_for.splitlines()) == 1
    assert len(scope.drain_waits_for) <= node_scope.MAX_ANNOTATION


@pytest.mark.parametrize(("seconds", "expected_reason"), [(59, "CopyingComponents"), (60, "NodeNotReady")])
def test_a_kubelet_silent_for_a_minute_is_reported(seconds: int, expected_reason: str) -> None:
    scope = working()
    since = timestamp(NOW - timedelta(seconds=seconds))
    conditions = [{"type": "Ready", "status": "Unknown", "lastTransitionTime": since}]
    silent = msgspec.convert({"metadata": {"name": "a"}, "status": {"conditions": conditions}}, Node)
    tools: Any = SimpleNamespace(clock=SimpleNamespace(now=lambda: NOW))
    outcome = asyncio.run(node_life.follow_pod(NodeUpgradeContext(tools, replace(scope, node=silent))))
    assert reason(outcome) == expected_reason


@pytest.mark.parametrize("text", [None, "", "- a list"])
def test_invalid_kubeadm_config_is_reported_unwritten(text: str | None) -> None:
    config = None if text is None else made({"metadata": {"name": "k"}, "data": {"ClusterConfiguration": text}})
    workload: Any = SimpleNamespace(kubeadm_config=config)
    outcome = asyncio.run(node_life.configure(workload, scope_of([node("a")])))
    assert isinstance(outcome, Wait)
    assert outcome.reason == "KubeadmConfigInvalid"


@pytest.mark.parametrize("text", [None, "", "- a list"])
def test_worker_without_a_configuration_is_untouched(text: str | None) -> None:
    scope = scope_of([node("a"), node("b")])
    spec = msgspec.structs.replace(scope.upgrade.spec, node_type="Worker")
    view: Any = scope.cluster_view
    config = None if text is None else made({"metadata": {"name": "k"}, "data": {"ClusterConfiguration": text}})
    view.workload.kubeadm_config = config
    outcome, written = ended(node_life.check, replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, spec=spec)))
    assert (reason(outcome), written) == ("KubeadmConfigInvalid", [])


@pytest.mark.parametrize(("node_type", "is_asked"), [("Worker", True), ("ControlPlane", False)])
def test_space_is_looked_for_where_pods_would_move(
    node_type: Any, is_asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def has_room(*_: Any) -> bool:
        return False

    monkeypatch.setattr(capacity, "has_room", has_room)
    scope = scope_of([node("a"), node("b")])
    spec = msgspec.structs.replace(scope.upgrade.spec, node_type=node_type)
    scope = replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, spec=spec))
    view: Any = scope.cluster_view
    view.workload.client = None
    tools: Any = SimpleNamespace()
    assert asyncio.run(node_life._has_room(NodeUpgradeContext(tools, scope))) is not is_asked


def owned(uid: str) -> Tree:
    """A NodeUpgrade of a ControlPlaneUpgrade."""
    owner = {"apiVersion": "a/v1", "kind": "ControlPlaneUpgrade", "name": "up", "uid": uid, "controller": True}
    return {"kind": "NodeUpgrade", "metadata": {"name": "a-node-upgrader", "ownerReferences": [owner]}}


@pytest.mark.parametrize(("uid", "configuration"), [("1", {"clusterName": "garden"}), ("2", None)])
def test_kubeadm_config_is_that_of_the_upgrade(uid: str, configuration: Tree | None) -> None:
    wanted = {"version": NEW, "kubeadmConfigSpec": {"clusterConfiguration": {"clusterName": "garden"}}}
    upgrade_object = made(
        {
            "apiVersion": ControlPlaneUpgrade.resource.api_version,
            "kind": "ControlPlaneUpgrade",
            "metadata": {"name": "up", "uid": "1"},
            "spec": {
                "controlPlane": {"name": "garden"},
                "kubernetesVersion": NEW,
                "machinesRequireUpgrade": [],
                "controlPlaneSpecData": expected.encoded(wanted),
            },
        }
    )
    observer: Any = SimpleNamespace(upgrade=lambda _kind, name: upgrade_object if name == "up" else None)
    assert node_scope._configuration(observer, made(owned(uid)), None, NEW) == configuration


@pytest.mark.parametrize(("uid", "configuration"), [("1", {"clusterName": "garden"}), ("2", None)])
def test_kubeadm_config_of_hooks_is_of_the_machine(uid: str, configuration: Tree | None) -> None:
    owner = {"apiVersion": "c/v1", "kind": "Machine", "name": "a", "uid": uid, "controller": True}
    asked = made({"kind": "NodeUpgrade", "metadata": {"name": "n", "ownerReferences": [owner]}})
    config = made({"spec": {"clusterConfiguration": {"clusterName": "garden"}}})
    view: Any = SimpleNamespace(object=made({"kind": "Machine", "metadata": {"name": "a", "uid": "1"}}), config=config)
    observer: Any = SimpleNamespace(upgrade=lambda _kind, _name: None)
    assert node_scope._configuration(observer, asked, view, NEW) == configuration


def test_machine_with_a_wrong_label_is_found_by_spec() -> None:
    written: list[Tree] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        written.append(patch)

    async def get(*_: Any) -> Any:
        return machine("a").object

    tools: Any = SimpleNamespace(writer=SimpleNamespace(merge=merge, client=SimpleNamespace(get=get)))
    scope = replace(scope_of([node("a")]), cluster="")
    outcome = asyncio.run(node_life.find_cluster(NodeUpgradeContext(tools, scope)))
    assert outcome == Wait("CacheNotSynced", "reading cluster c")
    assert written == [{"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "c"}}}]
    assert asyncio.run(node_life.find_cluster(NodeUpgradeContext(tools, scope_of([node("a")])))) == Continue()
