"""Waits of the upgrade of several machines: before each node, and after the last one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.upgrades import (
    ControlPlaneUpgrade,
    MachineDeploymentUpgrade,
    NodeUpgrade,
    NodeUpgradeSpec,
    NodeUpgradeStatus,
)
from espalier.api.eksa.vocabulary.upgrade_keys import REPLACING
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.runtime.controllers import steps
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import expected, reconciling
from espalier.upgrades.group.control_plane import ControlPlaneGroup
from espalier.upgrades.group.deployment import DeploymentGroup
from espalier.upgrades.group.group import GroupScope
from espalier.upgrades.group.observe import GroupContext, observe
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.group.steps import STEPS
from espalier.upgrades.observed.cluster_view import MachineView
from tests.support.objects.observed_upgrades import NEW, OLD, cluster_view, machine, made, node, pods

PLANES = ("a", "b", "c")


def completed() -> NodeUpgrade:
    spec = {"machine": {"name": "m"}, "kubernetesVersion": NEW, "nodeType": "ControlPlane"}
    status = NodeUpgradeStatus(reconciling.conditions_of(Done(), "", frozenset()), completed=True)
    return NodeUpgrade(metadata=ObjectMeta(name="m"), spec=msgspec.convert(spec, NodeUpgradeSpec), status=status)


def scope_of(kind: Any, owner: Tree, view: Any, members: list[Member], **spec: Any) -> GroupScope:
    """An upgrade to the new version, of an owner that asks for just that."""
    tree: Tree = {
        "apiVersion": kind.resource.api_version,
        "kind": kind.resource.kind,
        "metadata": {"name": "upgrade", "namespace": "eksa-system"},
        "spec": {
            "kubernetesVersion": NEW,
            "machinesRequireUpgrade": [{"name": member.name} for member in members],
            **spec,
        },
    }
    upgrade_object = made(tree)
    upgrade = upgrade_object.decode(kind)
    reference, data = (
        (upgrade.spec.control_plane, upgrade.spec.control_plane_spec_data)
        if isinstance(upgrade, ControlPlaneUpgrade)
        else (upgrade.spec.machine_deployment, upgrade.spec.machine_spec_data)
    )
    return GroupScope(upgrade_object, upgrade, reference, data, "garden", view, made(owner), tuple(members), ())


def control_plane(view: Any, *, done: tuple[str, ...] = ()) -> GroupScope:
    template = {"apiGroup": "g", "kind": "K", "name": "t"}
    owner: Tree = {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "garden", "namespace": "eksa-system", "uid": "1"},
        "spec": {"replicas": 3, "version": NEW, "machineTemplate": {"spec": {"infrastructureRef": template}}},
    }
    members = [
        Member(name, machine(name), None, completed() if name in done else None, name in done) for name in PLANES
    ]
    asked: Tree = {"controlPlane": {"name": "garden"}, "controlPlaneSpecData": expected.encoded({"version": NEW})}
    return scope_of(ControlPlaneUpgrade, owner, view, members, **asked)


class Accepted(ControlPlaneGroup):
    """A control plane whose upgrade was found to be one that can be made."""

    def problem(self, scope: GroupScope) -> Wait | None:
        return None

    def remaining(self, scope: GroupScope) -> list[str]:
        return []


def lived(group: Any, scope: GroupScope) -> tuple[Outcome, list[str]]:
    """How a reconcile of the upgrade ends, and the Machines for which it made a NodeUpgrade."""
    begun: list[str] = []

    async def create(_resource: Any, body: NodeUpgrade) -> None:
        begun.append(body.spec.machine.name)

    async def add_finalizer(*_: Any) -> None:
        pass

    writer = SimpleNamespace(create=create, add_finalizer=add_finalizer)
    writer.with_caches = lambda _caches: writer
    tools: Any = SimpleNamespace(writer=writer)
    return asyncio.run(steps.run(STEPS, GroupContext(tools, group, scope))), begun


def plane_view(*, ill: str = "", broken: str = "", kubelet: str = OLD) -> Any:
    nodes = [node(name, ready=name != ill, kubelet=kubelet) for name in PLANES]
    machines = [machine(name, control_plane=True) for name in PLANES]
    return cluster_view(*machines, nodes=nodes, static_pods=pods(*PLANES, broken=broken))


def test_healthy_control_plane_begins_one_node() -> None:
    outcome, begun = lived(Accepted(), control_plane(plane_view()))
    assert begun == ["a"]
    assert isinstance(outcome, Wait)
    assert outcome.reason == "UpgradingNodes"


@pytest.mark.parametrize(
    ("ill", "broken", "message"),
    [
        ("c", "", "before node a is upgraded: control plane node c is not ready"),
        ("", "etcd-b", "before node a is upgraded: etcd on node b is not ready"),
        ("", "kube-apiserver-b", "before node a is upgraded: kube-apiserver on node b is not ready"),
    ],
)
def test_ill_node_stops_the_next_control_plane_node(ill: str, broken: str, message: str) -> None:
    outcome, begun = lived(Accepted(), control_plane(plane_view(ill=ill, broken=broken)))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("ControlPlaneUnhealthy", [])
    assert outcome.message.startswith(f"{message}: "), "and what to do"


def test_control_plane_is_upgraded_once_it_is_healthy() -> None:
    view = plane_view(ill="c", kubelet=NEW)
    outcome, begun = lived(Accepted(), control_plane(view, done=PLANES))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("ControlPlaneUnhealthy", [])
    assert outcome.message.startswith("after the last node: control plane node c is not ready: ")
    assert lived(Accepted(), control_plane(plane_view(kubelet=NEW), done=PLANES)) == (Done(), [])


def test_machine_waits_for_its_kubelet_version() -> None:
    scope = control_plane(plane_view())
    first = Member("a", machine("a"), None, completed(), is_expected=False)
    outcome, begun = lived(Accepted(), replace(scope, members=(first, *scope.members[1:])))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("NodeUpgradeNotCompleted", [])
    assert f"but node a has {OLD}" in outcome.message


def test_silent_cluster_begins_nothing() -> None:
    view = plane_view()
    view.workload, view.unreachable = None, Wait("WorkloadClusterUnreachable", "it does not answer")
    assert lived(Accepted(), control_plane(view)) == (view.unreachable, [])


def test_replaced_control_plane_is_paused_again() -> None:
    scope = control_plane(plane_view())
    assert scope.owner is not None
    tree: Tree = {**scope.owner.tree, "metadata": {"name": "garden", "uid": "1", "annotations": {REPLACING: "a"}}}
    outcome, begun = lived(Accepted(), replace(scope, owner=made(tree)))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("ReplacingMachine", [])


def test_lost_machine_stops_every_node() -> None:
    """The two that are left are well, and a majority."""
    there = PLANES[:2]
    view = cluster_view(
        *[machine(name, control_plane=True) for name in there],
        nodes=[node(name) for name in there],
        static_pods=pods(*there),
    )
    outcome, begun = lived(Accepted(), control_plane(view))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("ReplacingMachine", [])
    assert outcome.message.startswith("2 of 3 control plane machines exist")


def test_other_control_plane_of_the_name_is_untouched() -> None:
    scope = control_plane(plane_view())
    meant = msgspec.structs.replace(scope.owner_reference, uid="2")
    wait = Wait("OwnerMissing", "KubeadmControlPlane eksa-system/garden does not exist")
    assert lived(Accepted(), replace(scope, owner_reference=meant)) == (wait, [])
    same = msgspec.structs.replace(scope.owner_reference, uid="1")
    assert lived(Accepted(), replace(scope, owner_reference=same))[1] == ["a"]


def test_deleted_control_plane_is_untouched() -> None:
    scope = control_plane(plane_view())
    assert scope.owner is not None
    tree = scope.owner.tree
    going = {**tree, "metadata": {**tree["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    wait = Wait("OwnerDeleted", "KubeadmControlPlane eksa-system/garden is being deleted")
    assert lived(Accepted(), replace(scope, owner=made(going))) == (wait, [])


def test_unreadable_spec_makes_no_claim() -> None:
    view = plane_view(kubelet=NEW)
    scope = control_plane(view, done=PLANES)
    members = tuple(replace(member, is_expected=False) for member in scope.members)
    recorded: list[str] = []

    class Recording(Accepted):
        async def record(self, writer: Writer, scope: GroupScope, machine: MachineView) -> None:
            recorded.append(machine.name)

    lived(Recording(), replace(scope, members=members, data="no spec"))
    assert recorded == []
    lived(Recording(), replace(scope, members=members))
    assert recorded == list(PLANES)


def test_paused_upgrade_names_the_annotation() -> None:
    paused = replace(control_plane(plane_view()), paused_cluster=Key("default", "garden"))
    outcome, begun = lived(Accepted(), paused)
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("Paused", [])
    assert "Cluster default/garden is paused, remove annotation anywhere.eks.amazonaws.com/paused" in outcome.message


def test_surplus_machine_stops_every_node() -> None:
    machines = [machine(name, control_plane=True) for name in (*PLANES, "more")]
    nodes = [node(view.name) for view in machines]
    view = cluster_view(*machines, nodes=nodes, static_pods=pods(*PLANES, "more"))
    outcome, begun = lived(Accepted(), control_plane(view))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == ("RolloutInProgress", [])


class AcceptedDeployment(DeploymentGroup):
    """A worker node group whose upgrade was found to be one that can be made, and of which no node is missing."""

    def problem(self, scope: GroupScope) -> Wait | None:
        return None

    def missing(self, scope: GroupScope) -> list[str]:
        return []


def workers_of(view: Any, workers: list[MachineView]) -> GroupScope:
    """An upgrade of a worker node group that has none of its nodes upgraded yet."""
    reference = {"apiGroup": "g", "kind": "K", "name": "t"}
    deployment: Tree = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": "md", "namespace": "eksa-system", "uid": "1"},
        "spec": {
            "clusterName": "garden",
            "selector": {},
            "replicas": 2,
            "template": {"spec": {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference}},
        },
    }
    members = [Member(worker.name, worker, None, None) for worker in workers]
    asked: Tree = {"machineDeployment": {"name": "md"}, "machineSpecData": expected.encoded({"version": NEW})}
    return scope_of(MachineDeploymentUpgrade, deployment, view, members, **asked)


def test_workers_that_are_done_wait_for_nothing_more() -> None:
    """A control plane that is to be upgraded further by then is not theirs to wait for."""
    view = cluster_view(machine("p", control_plane=True))
    assert DeploymentGroup().obstacle(workers_of(view, []), None) is None


@pytest.mark.parametrize(("planes", "waits_for"), [((NEW, NEW), ""), ((NEW, OLD), "p1"), ((OLD, NEW), "p0")])
def test_workers_wait_for_all_of_the_control_plane(planes: tuple[str, ...], waits_for: str) -> None:
    views = [machine(f"p{index}", version=version, control_plane=True) for index, version in enumerate(planes)]
    workers = [machine("w0"), machine("w1")]
    scope = workers_of(cluster_view(*views, *workers), workers)
    outcome, begun = lived(AcceptedDeployment(), scope)
    assert isinstance(outcome, Wait)
    if waits_for:
        assert (outcome.reason, begun) == ("ControlPlaneFirst", [])
        assert f"Machine {waits_for} has " in outcome.message
    else:
        assert (outcome.reason, begun) == ("UpgradingNodes", ["w0"])


@pytest.mark.parametrize("is_there", [True, False])
def test_upgrade_is_readable_without_its_machine(is_there: bool) -> None:
    view = plane_view()
    view.capi_objects.machine = lambda name: machine(name, control_plane=True) if is_there else None
    view.capi_objects.get = lambda _resource, name: made({"metadata": {"name": name}})
    template = {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "t"}}}
    spec: Tree = {
        "controlPlane": {"name": "garden"},
        "machinesRequireUpgrade": [{"name": "a"}],
        "kubernetesVersion": NEW,
        "controlPlaneSpecData": expected.encoded(
            {"version": NEW, "machineTemplate": template, "kubeadmConfigSpec": {}}
        ),
    }
    metadata = {"name": "u", "labels": {"cluster.x-k8s.io/cluster-name": "garden"}}
    kind = ControlPlaneUpgrade.resource
    upgrade_object = made({"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": spec})
    observer: Any = SimpleNamespace(
        view={"garden": view}.get,
        node_upgrades=lambda _upgrade: [],
        upgrade=lambda *_: None,
        paused_cluster=lambda _owner: None,
        owner=lambda _resource, _name: None,
    )
    scope = observe(observer, ControlPlaneGroup(), upgrade_object)
    assert scope.cluster_view is view
    assert [member.is_gone for member in scope.members] == [not is_there]
    assert [member.is_expected for member in scope.members] == [False]


@pytest.mark.parametrize(
    ("members", "is_done"),
    [
        ([Member("a", machine("a"), None, None, False)], False),
        ([Member("a", machine("a"), None, completed(), True), Member("b", machine("b"), None, None, False)], False),
        ([Member("a", machine("a"), None, completed(), True), Member("b", None, None, None, False)], True),
        ([Member("a", machine("a"), None, None, True)], True),
    ],
    ids=["not begun", "half", "done, and one is gone", "done long ago"],
)
def test_an_edited_status_does_not_end_an_upgrade(members: list[Member], is_done: bool) -> None:
    scope = replace(control_plane(plane_view()), members=tuple(members))
    assert isinstance(scope.upgrade, ControlPlaneUpgrade)
    edited = msgspec.structs.replace(scope.upgrade, status=msgspec.structs.replace(scope.upgrade.status, ready=True))
    assert GroupContext(SimpleNamespace(), Accepted(), replace(scope, upgrade=edited)).is_done is is_done  # type: ignore[arg-type]
    assert not GroupContext(SimpleNamespace(), Accepted(), scope).is_done  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("of_upgrade", "of_owner", "message"),
    [
        ("c", "c", ""),
        ("other", "c", "label cluster.x-k8s.io/cluster-name of ControlPlaneUpgrade eksa-system/upgrade"),
        ("c", "other", "label cluster.x-k8s.io/cluster-name of KubeadmControlPlane eksa-system/garden"),
    ],
)
def test_upgrade_waits_for_label_that_somebody_edited(of_upgrade: str, of_owner: str, message: str) -> None:
    scope = control_plane(plane_view())
    assert scope.owner is not None
    cluster = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c", "uid": "2"}
    trees = [scope.object.tree, scope.owner.tree]
    for tree, label in zip(trees, (of_upgrade, of_owner), strict=True):
        tree["metadata"] |= {"labels": {"cluster.x-k8s.io/cluster-name": label}}
    trees[1]["metadata"]["ownerReferences"] = [cluster]
    outcome, begun = lived(Accepted(), replace(scope, object=made(trees[0]), owner_metadata=made(trees[1])))
    assert isinstance(outcome, Wait)
    assert (outcome.reason, begun) == (("LabelsChanged", []) if message else ("UpgradingNodes", ["a"]))
    assert not message or outcome.message.startswith(f'{message} is "other", but ')
