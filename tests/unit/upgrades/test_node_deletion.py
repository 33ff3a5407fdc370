"""Deletion of a NodeUpgrade: work on its node ends first."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE, NODE_FINALIZER
from espalier.api.meta import Condition, Tree
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.upgrades import names
from espalier.upgrades.node import context
from espalier.upgrades.node import deletion as node_deletion
from espalier.upgrades.node.context import NodeUpgradeContext
from espalier.upgrades.node.observe import NodeScope
from tests.support.objects.observed_upgrades import NEW, OLD, made, node, rights_taken, scope_of, static_pods


def ended(scope: NodeScope, monkeypatch: pytest.MonkeyPatch) -> tuple[Outcome, list[str]]:
    """How the deletion of a held NodeUpgrade goes on, and of which nodes the pod and its rights were taken away."""
    cleared: list[str] = []

    async def clear_node(_workload: Any, scope: NodeScope) -> None:
        cleared.append(scope.node_name)

    monkeypatch.setattr(node_deletion, "clear_node", clear_node)
    tree = scope.object.tree
    held = made({**tree, "metadata": {**tree["metadata"], "finalizers": [NODE_FINALIZER]}})
    tools: Any = SimpleNamespace()
    return asyncio.run(node_deletion.end_on_node(NodeUpgradeContext(tools, replace(scope, object=held)))), cleared


@pytest.mark.parametrize(
    ("has_pod", "is_completed", "cleared"),
    [(True, True, ["a"]), (True, False, ["a"]), (False, False, ["a"]), (False, True, [])],
)
def test_pod_and_rights_go_unless_both_are_gone(
    has_pod: bool, is_completed: bool, cleared: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    scope = scope_of([node("a")])
    view: Any = scope.cluster_view
    view.capi_objects.kubeconfig = b"there"
    view.workload.node_object = lambda name: None
    ready = [Condition(type="Ready", status="True", reason="Done")] if is_completed else []
    status = msgspec.structs.replace(scope.upgrade.status, completed=is_completed, conditions=ready)
    scope = replace(
        scope,
        upgrade=msgspec.structs.replace(scope.upgrade, status=status),
        pod_object=made({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Succeeded"}}) if has_pod else None,
    )
    assert ended(scope, monkeypatch) == (Continue(), cleared)


def test_one_whose_cluster_was_never_known_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = replace(scope_of([node("a")]), cluster="", cluster_view=None, machine=None, node=None)
    assert ended(scope, monkeypatch) == (Continue(), [])


def test_rights_go_once_the_cluster_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A manager that has just started reads the objects of Cluster API first, and used to leave the rights for ever."""
    taken = rights_taken(monkeypatch, node_deletion)
    scope = replace(scope_of([node("a")]), machine=None)
    view: Any = scope.cluster_view
    workload, view.workload, view.is_being_read = view.workload, None, True
    assert ended(scope, monkeypatch) == (Wait("CacheNotSynced", "reading workload cluster garden", after=5.0), [])
    view.workload, view.is_being_read = workload, False
    assert ended(scope, monkeypatch) == (Continue(), [])
    assert taken == [scope.node_name]
    view.workload = None
    assert ended(scope, monkeypatch) == (Continue(), []), "a cluster that does not answer holds nothing"


def test_node_of_another_upgrade_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the node cordoned, and its rights are named after the node as well."""
    scope = replace(scope_of([node("a")]), taken_by="eksa-system/other")
    view: Any = scope.cluster_view
    view.capi_objects.kubeconfig = b"there"
    assert ended(scope, monkeypatch) == (Continue(), [])


def test_own_node_alone_is_uncordoned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Any] = []

    async def merge(*how: Any) -> None:
        asked.append(how[-1])

    scope = scope_of([node("a")])
    view: Any = scope.cluster_view
    view.capi_objects.kubeconfig = b"there"
    view.workload.node_object = lambda _name: made(
        {"metadata": {"name": "a", "annotations": {CORDONED_BY_UPGRADE: ""}}}
    )
    view.workload.writer = SimpleNamespace(merge=merge)
    assert ended(scope, monkeypatch) == (Continue(), ["a"])
    assert asked == [Precondition.UID]


def test_rights_on_other_nodes_stay() -> None:
    deleted: list[str] = []
    roles = [made({"metadata": {"name": name}}) for name in map(names.upgrader, ("a", "b", "gone"))]

    async def listed(*_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=[*roles, made({"metadata": {"name": "of-somebody-else"}})])

    async def delete(_resource: Any, name: str) -> None:
        deleted.append(name)

    workload: Any = SimpleNamespace(
        nodes=lambda: [node("a"), node("b")], client=SimpleNamespace(list=listed, delete=delete)
    )
    asyncio.run(context.delete_orphaned_rbac(workload, "a"))
    assert deleted == ["a-node-upgrader", "gone-node-upgrader"]


def test_pod_is_deleted_as_it_was_seen() -> None:
    """Who let it end nevertheless let the next node begin beside it."""
    asked: list[Any] = []

    async def delete(*how: Any) -> None:
        asked.append(how[-1])

    workload: Any = SimpleNamespace(writer=SimpleNamespace(delete=delete))
    pod = made({"metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}})
    asyncio.run(context.delete_pod(workload, replace(scope_of([node("a")]), pod_object=pod)))
    assert asked == [Precondition.VERSION]


@pytest.mark.parametrize(
    ("version", "claimed_by", "done", "is_restored"),
    [
        (NEW, "", "CNIPluginsUpgraded", True),
        (OLD, "", "CNIPluginsUpgraded", False),
        (NEW, "NodeUpgrade other", "CNIPluginsUpgraded", False),
        (NEW, "", "KubeadmUpgraded", False),
    ],
)
def test_kubeadm_config_is_restored_by_its_writer(version: str, claimed_by: str, done: str, is_restored: bool) -> None:
    """Another node's upgrade, kubeadm's rendered config, and another version are not this one's to write."""
    written: list[str] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        written.append(patch["data"]["ClusterConfiguration"])

    scope = scope_of([node("a")], claimed_by=claimed_by)
    assert scope.control_plane is not None
    plane = scope.control_plane.tree
    wished = {"clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "1"}]}}}
    conditions = [Condition(type=type_, status="True", reason="So") for type_ in ("UpgraderPodCreated", done)]
    status = msgspec.structs.replace(scope.upgrade.status, conditions=conditions)
    view: Any = scope.cluster_view
    view.workload.control_plane_pods = lambda: static_pods(NEW, NEW, NEW)
    text = json.dumps({"apiVersion": "kubeadm.k8s.io/v1beta4", "kubernetesVersion": version})
    view.workload.kubeadm_config = made({"metadata": {"name": "k"}, "data": {"ClusterConfiguration": text}})
    view.workload.writer = SimpleNamespace(merge=merge)
    scope = replace(
        scope,
        control_plane=made({**plane, "spec": {**plane["spec"], "kubeadmConfigSpec": wished}}),
        upgrade=msgspec.structs.replace(scope.upgrade, status=status),
    )
    tools: Any = SimpleNamespace()
    asyncio.run(node_deletion.restore_configuration(NodeUpgradeContext(tools, scope)))
    assert [json.loads(configuration)["apiServer"] for configuration in written] == (
        [wished["clusterConfiguration"]["apiServer"]] * is_restored
    )
