"""Which objects of Cluster API a running cluster can't do without, and what is said when somebody deletes one."""

from __future__ import annotations

import copy
from datetime import UTC, datetime

import msgspec
import pytest

from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.meta import Condition, Tree
from espalier.clusters.effects.simulate import simulate
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import plan
from espalier.clusters.plan.deleted import lost_control_plane
from espalier.clusters.plan.drift import of_capi_objects
from espalier.clusters.report.status import status_of
from espalier.clusters.report.synced import seen
from espalier.runtime.controllers.outcome import Wait
from tests.support.objects.made_clusters import made, objects, settled
from tests.support.objects.observed_clusters import applied

NOW = datetime(2026, 1, 1, tzinfo=UTC)
WAITING = Wait("OutdatedInformation", "waiting for Cluster API to observe the control plane")
ENDPOINT = {"host": "172.18.0.3", "port": 6443}
NOW_GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}


def of_kind(trees: list[Tree], kind: str) -> Tree:
    return next(tree for tree in trees if tree["kind"] == kind)


def without(kind: str) -> list[Tree]:
    return [tree for tree in objects() if tree["kind"] != kind]


def machine(controller: str = "", *, has_node: bool = True, is_going: bool = False) -> Tree:
    """A machine of the control plane; `controller` is the uid of its KubeadmControlPlane."""
    owner = {"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane", "name": "garden"}
    return {
        "apiVersion": Machine.resource.api_version,
        "kind": "Machine",
        "metadata": {
            "name": "garden-abcde",
            "namespace": "eksa-system",
            "uid": "machine",
            "resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/control-plane": ""},
            "ownerReferences": [owner | {"uid": controller, "controller": True}] if controller else [],
            **(NOW_GOING if is_going else {}),
        },
        "spec": {
            "clusterName": "garden",
            "bootstrap": {},
            "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""},
        },
        "status": {"nodeRef": {"name": "garden-abcde"}} if has_node else {},
    }


def settled_with(trees: list[Tree], annotations: Tree | None = None) -> Scope:
    return made(objects=trees, status=settled(), annotations=annotations)


def condition(scope: Scope, type_: str) -> Condition:
    result = status_of(scope, WAITING, NOW).conditions
    return next(item for item in result if item.type == type_)


@pytest.mark.parametrize(
    ("left", "is_lost"),
    [
        ([], True),
        ([machine()], False),
        ([machine(is_going=True)], True),
        ([machine("that-is-gone")], True),
    ],
    ids=["no machine", "one that nobody controls", "one that goes", "one that goes with its control plane"],
)
def test_control_plane_is_lost_unless_it_can_adopt(left: list[Tree], is_lost: bool) -> None:
    scope = settled_with([*without("KubeadmControlPlane"), *left])
    result = condition(scope, "ControlPlaneReady")
    assert result.reason == ("ControlPlaneLost" if is_lost else "ClusterAPIObjectDeleted")
    assert "KubeadmControlPlane eksa-system/garden" in result.message
    assert condition(scope, "Ready").status == "False"
    assert ("delete the Cluster and create it again" in result.message) is is_lost
    assert ("drift=correct" in result.message) is not is_lost
    assert scope.render_input is not None
    corrected = [object_.remedy for object_ in of_capi_objects(scope.render_input, scope.capi_objects, None)]
    assert all(item is None for item in corrected) is is_lost


@pytest.mark.parametrize(
    ("status", "left", "is_lost"),
    [
        ({"observedGeneration": 1}, [], True),
        ({}, [], False),
        ({"observedGeneration": 1, "initialization": {"controlPlaneInitialized": True}}, [], False),
        ({"observedGeneration": 1}, [machine("uid-KubeadmControlPlane-garden")], False),
        ({"observedGeneration": 1}, [machine("uid-KubeadmControlPlane-garden", has_node=False)], True),
        ({"observedGeneration": 1}, [machine("that-is-gone")], True),
    ],
    ids=[
        "made again",
        "just restored",
        "its machine was deleted",
        "adopted",
        "one that waits for a node for ever",
        "that of the one before",
    ],
)
def test_remade_control_plane_is_lost_unless_it_adopts(status: Tree, left: list[Tree], is_lost: bool) -> None:
    trees = objects()
    of_kind(trees, "KubeadmControlPlane")["status"] = status
    assert bool(lost_control_plane(settled_with([*trees, *left]).capi_objects)) is is_lost


@pytest.mark.parametrize(
    ("reasons", "is_lost"), [(["Deleted"], True), (["Deleted"] * 3, True), (["Deleted", "Ready"], False), ([], False)]
)
def test_control_plane_without_infrastructure_is_lost(reasons: list[str], is_lost: bool) -> None:
    machines = [machine("uid-KubeadmControlPlane-garden") for _ in reasons]
    for number, (item, reason) in enumerate(zip(machines, reasons, strict=True)):
        item["metadata"]["name"] = f"garden-{number}"
        status = "False" if reason == "Deleted" else "True"
        item["status"]["conditions"] = [{"type": "InfrastructureReady", "status": status, "reason": reason}]
    message = lost_control_plane(settled_with([*objects(), *machines]).capi_objects)
    assert bool(message) is is_lost
    assert not is_lost or "garden-0" in message
    assert not is_lost or message.endswith("delete the Cluster and create it again")


def test_silent_control_plane_has_nothing_to_lose() -> None:
    trees = without("KubeadmControlPlane")
    of_kind(trees, "Cluster")["status"]["initialization"]["controlPlaneInitialized"] = False
    assert lost_control_plane(settled_with(trees).capi_objects) == ""


def test_control_plane_being_deleted_promises_nothing() -> None:
    trees = objects()
    of_kind(trees, "KubeadmControlPlane")["metadata"] |= NOW_GOING
    scope = settled_with([*trees, machine("uid-KubeadmControlPlane-garden")])
    result = condition(scope, "ControlPlaneReady")
    assert result.reason == "ControlPlaneLost"
    assert "etcd with all its data" in result.message
    assert scope.render_input is not None
    synced = seen(scope, of_capi_objects(scope.render_input, scope.capi_objects, None), "", {}, {})
    assert synced.message == "KubeadmControlPlane eksa-system/garden is being deleted"


def test_change_of_a_lost_control_plane_does_nothing() -> None:
    scope = made(objects=without("KubeadmControlPlane"), workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
    result = simulate(scope)
    assert result.stops.startswith("ControlPlaneLost: ")
    assert not result.acts


@pytest.mark.parametrize(
    ("annotations", "reason", "message"),
    [
        ({}, "ClusterAPIObjectDeleted", "drift=correct to recreate it with the control"),
        (
            {metadata_keys.DRIFT_ANNOTATION: "correct"},
            "ControlPlaneNotReady",
            "; it is being recreated with the control",
        ),
        ({PAUSED_ANNOTATION: "true"}, "ClusterAPIObjectDeleted", "nothing is recreated while the cluster is paused"),
    ],
    ids=["reported", "corrected", "paused"],
)
@pytest.mark.parametrize("is_going", [False, True], ids=["missing", "going"])
def test_deleted_infrastructure_is_named_with_advice(
    annotations: Tree, reason: str, message: str, is_going: bool
) -> None:
    trees = objects()
    infrastructure = of_kind(trees, "DockerCluster")
    if is_going:
        infrastructure["metadata"] |= NOW_GOING | {"finalizers": ["example.com/held"]}
    else:
        trees.remove(infrastructure)
    result = condition(settled_with(trees, annotations), "ControlPlaneReady")
    assert (result.status, result.reason) == ("False", reason)
    assert result.message.startswith("DockerCluster eksa-system/garden, which provides the control plane endpoint, is ")
    assert message in result.message
    assert ("example.com/held" in result.message) is is_going


def test_requested_change_makes_infrastructure_again() -> None:
    scope = made(objects=without("DockerCluster"), workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
    result = condition(scope, "ControlPlaneReady")
    assert result.reason == "ControlPlaneNotReady"
    assert "it is being recreated" in result.message


def test_unprovisioned_infrastructure_is_waited_for() -> None:
    trees = objects()
    of_kind(trees, "DockerCluster")["status"] = {}
    result = condition(settled_with(trees), "ControlPlaneReady")
    assert (result.status, result.reason) == ("False", "ControlPlaneNotReady")
    assert "to be provisioned" in result.message


@pytest.mark.parametrize("known", [ENDPOINT, None, {"host": "", "port": 0}], ids=["known", "none", "empty"])
@pytest.mark.parametrize("live", ["missing", "the provider's", "ours"])
def test_remade_infrastructure_gets_the_same_endpoint(live: str, known: Tree | None) -> None:
    trees = objects()
    of_kind(trees, "Cluster")["spec"]["controlPlaneEndpoint"] = known
    infrastructure = of_kind(trees, "DockerCluster")
    if live == "missing":
        trees.remove(infrastructure)
    elif live == "the provider's":
        infrastructure["spec"]["controlPlaneEndpoint"] = ENDPOINT
    else:
        again = copy.deepcopy(infrastructure)
        again["spec"]["controlPlaneEndpoint"] = ENDPOINT
        again["metadata"] = {name: again["metadata"][name] for name in ("name", "namespace", "labels")}
        again.pop("status")
        infrastructure |= applied(again)
    scope = settled_with(trees)
    assert scope.render_input is not None
    wanted = msgspec.to_builtins(plan.control_plane(scope.render_input, scope.capi_objects)[1])
    is_kept = live != "the provider's" and known == ENDPOINT
    assert wanted["spec"].get("controlPlaneEndpoint") == (ENDPOINT if is_kept else None)
    changed = [
        str(change)
        for change in plan.changes(plan.control_plane(scope.render_input, scope.capi_objects), scope.capi_objects)
    ]
    is_written = live == "missing" or (live == "ours" and not is_kept)
    assert ("DockerCluster" in str(changed)) is is_written


def test_no_infrastructure_is_missing_before_a_cluster() -> None:
    assert ClusterAPIObjects().infrastructure is None


@pytest.mark.parametrize(
    ("machines", "text"),
    [
        ([machine()], "no longer controls its machines; they and etcd stay"),
        ([machine(), machine(is_going=True)], "no longer controls its machines; they and etcd stay"),
        ([machine("control-plane"), machine()], "Cluster API deletes the control plane machines"),
        ([machine(is_going=True)], "Cluster API deletes the control plane machines"),
        ([], "Cluster API deletes the control plane machines"),
    ],
)
def test_machines_of_an_orphan_are_not_called_lost(machines: list[Tree], text: str) -> None:
    """`kubectl delete kcp --cascade=orphan`: to delete the Cluster would destroy what is healthy."""
    trees = copy.deepcopy(objects())
    control_plane = of_kind(trees, "KubeadmControlPlane")
    finalizer = "kubeadm.controlplane.cluster.x-k8s.io"
    control_plane["metadata"] |= NOW_GOING | {"uid": "control-plane", "finalizers": [finalizer]}
    message = lost_control_plane(settled_with([*trees, *machines]).capi_objects)
    assert text in message
    assert (f"remove its finalizers ({finalizer})" in message) is text.startswith("no longer")
