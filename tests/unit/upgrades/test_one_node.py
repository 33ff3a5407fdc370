"""Waits of the upgrade of one node: for the node, and for the others of its control plane."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE, NODE_IN_WORK
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait
from espalier.upgrades.node import observe as node_scope
from espalier.upgrades.node import steps as node_life
from tests.support.objects.observed_upgrades import (
    NEW,
    OLD,
    cluster_view,
    ended,
    machine,
    made,
    node,
    reason,
    scope_of,
    working,
)

PLANES = ("a", "b", "c")
EARLIER, BUILD = "v1.36.3-eks-1-36-0", "v1.36.3-eks-d91a302"


@pytest.mark.parametrize(
    ("kubelet", "ready", "cordoned", "waits"),
    [
        (NEW, True, False, ""),
        ("v1.36.3", True, False, ""),
        (OLD, True, False, "NodeOutdated"),
        ("", True, False, "NodeOutdated"),
        (NEW, False, False, "NodeNotReady"),
        (NEW, True, True, "WaitingForUncordon"),
    ],
)
def test_node_is_upgraded_when_its_kubelet_says_so(kubelet: str, ready: bool, cordoned: bool, waits: str) -> None:
    notes = {CORDONED_BY_UPGRADE: ""} if cordoned else {}
    outcome, _ = ended(node_life.await_node, scope_of([node("a", kubelet=kubelet, ready=ready, annotations=notes)]))
    assert reason(outcome) == waits


@pytest.mark.parametrize(
    ("kubelet", "ready", "waits"),
    [
        (OLD, True, ""),
        (NEW, True, ""),
        (OLD, False, "NodeNotReady"),
        ("v1.34.1-eks-1-34-1", True, "VersionRefused"),
        ("v1.37.0-eks-1-37-1", True, "VersionRefused"),
    ],
)
def test_unready_or_unfit_node_is_untouched(kubelet: str, ready: bool, waits: str) -> None:
    outcome, _ = ended(node_life.check, scope_of([node("a", kubelet=kubelet, ready=ready)]))
    assert reason(outcome) == waits


@pytest.mark.parametrize("changes", ["no base64", "W10="])
def test_unreadable_changes_touch_no_node(changes: str) -> None:
    """Whoever writes NodeUpgrades by hand: what is left out on a node would be taken for done."""
    scope = scope_of([node("a")])
    spec = msgspec.structs.replace(scope.upgrade.spec, bootstrap_changes=changes)
    outcome, _ = ended(node_life.check, replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, spec=spec)))
    assert reason(outcome) == "SpecDataInvalid"


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("configured", "kubelets", "role"),
    [
        (OLD, (OLD, OLD, OLD), "first-control-plane"),
        (OLD, (OLD, NEW, OLD), "first-control-plane"),
        (NEW, (OLD, OLD, OLD), "first-control-plane"),
        (NEW, (NEW, OLD, OLD), "first-control-plane"),
        (NEW, (OLD, OLD, NEW), "control-plane"),
    ],
)
def test_first_node_follows_from_the_cluster(
    first: bool, configured: str, kubelets: tuple[str, ...], role: str
) -> None:
    """Until another node has it: who began with that may have been broken off, or be gone."""
    nodes = [node(name, kubelet=kubelet) for name, kubelet in zip(PLANES, kubelets, strict=True)]
    assert scope_of(nodes, first=first).role(configured) == role


@pytest.mark.parametrize(
    ("versions", "role"),
    [
        ((EARLIER, EARLIER, EARLIER), "first-control-plane"),
        ((EARLIER, NEW, EARLIER), "control-plane"),
        ((NEW, EARLIER, EARLIER), "first-control-plane"),
    ],
)
def test_release_of_a_node_follows_from_its_machine(versions: tuple[str, ...], role: str) -> None:
    """Two releases of one patch version: the kubelets' names of builds don't tell them apart."""
    nodes = [node(name, kubelet=BUILD) for name in PLANES]
    machines = [machine(name, version=version) for name, version in zip(PLANES, versions, strict=True)]
    assert replace(scope_of(nodes), control_plane_machines=tuple(machines)).role(NEW) == role


def test_worker_shows_no_version_of_control_planes() -> None:
    nodes = [node("a"), node("w", kubelet=NEW, control_plane=False)]
    assert scope_of(nodes).role(NEW) == "first-control-plane"


def test_node_of_control_plane_that_is_well_is_claimed() -> None:
    outcome, written = ended(node_life.claim, scope_of([node(name) for name in PLANES]))
    assert reason(outcome) == ""
    assert written == [{"metadata": {"annotations": {NODE_IN_WORK: "a-node-upgrader 1"}}}]


@pytest.mark.parametrize(
    ("ill", "broken", "claimed_by", "waits"),
    [
        ("b", "", "", "ControlPlaneUnhealthy"),
        ("", "etcd-c", "", "ControlPlaneUnhealthy"),
        ("", "", "NodeUpgrade other", "ControlPlaneTaken"),
    ],
)
def test_ill_control_plane_is_not_claimed(ill: str, broken: str, claimed_by: str, waits: str) -> None:
    nodes = [node(name, ready=name != ill) for name in PLANES]
    outcome, written = ended(node_life.claim, scope_of(nodes, broken=broken, claimed_by=claimed_by))
    assert (reason(outcome), written) == (waits, [])


def test_replaced_control_plane_says_how_to_go_on() -> None:
    """Whoever takes the pause away has it begin."""
    scope = scope_of([node("a"), node("new")])
    assert scope.control_plane is not None
    tree = scope.control_plane.tree
    outcome, written = ended(
        node_life.claim, replace(scope, control_plane=made({**tree, "spec": {**tree["spec"], "replicas": 1}}))
    )
    assert (reason(outcome), written) == ("RolloutInProgress", [])
    assert isinstance(outcome, Wait)
    assert outcome.message.startswith("new is one machine more than the 1 asked for")
    assert outcome.message.endswith(
        "RollingUpdate to let it continue, or revert the change, unless a node already has the new version"
    )


def test_one_of_two_concurrent_claims_waits() -> None:
    outcome, _ = ended(node_life.claim, scope_of([node(name) for name in PLANES]), is_late=True)
    assert reason(outcome) == "ControlPlaneTaken"


EXTERNAL: Tree = {"endpoints": ["https://e:2379"], "caFile": "a", "certFile": "b", "keyFile": "c"}


@pytest.mark.parametrize(
    ("configuration", "is_there"),
    [({"etcd": {"local": {}}}, True), ({"etcd": {"external": EXTERNAL}}, False), ({}, True)],
)
def test_majority_of_stacked_etcd_is_kept(configuration: Tree, is_there: bool) -> None:
    scope = scope_of([node("a")])
    assert scope.control_plane is not None
    tree = scope.control_plane.tree
    spec = {**tree["spec"], "kubeadmConfigSpec": {"clusterConfiguration": configuration}}
    assert replace(scope, control_plane=made({**tree, "spec": spec})).has_etcd_on_its_nodes is is_there


def node_upgrade(name: str, uid: str, *, completed: bool = False, pod: bool = False) -> Object:
    """A NodeUpgrade of the control plane, for the machine of its first letter."""
    conditions = [{"type": "UpgraderPodCreated", "status": "True", "reason": "So"}] if pod else []
    conditions += [{"type": "Ready", "status": "True", "reason": "Done"}] if completed else []
    return made(
        {
            "apiVersion": NodeUpgrade.resource.api_version,
            "kind": "NodeUpgrade",
            "metadata": {"name": name, "namespace": "eksa-system", "uid": uid},
            "spec": {"machine": {"name": name[0]}, "kubernetesVersion": NEW, "nodeType": "ControlPlane"},
            "status": {"completed": completed, "conditions": conditions},
        }
    )


def claimed_by(note: str, *others: Object) -> str:
    """Who holds the control plane of node a, where it says this and these NodeUpgrades are there."""
    asking = node_upgrade("a-node-upgrader", "1")
    objects_by_name = {object_.name: object_ for object_ in (asking, *others)}

    def upgrade(kind: Resource, name: str) -> Object | None:
        object_ = objects_by_name.get(name)
        return object_ if object_ is not None and object_.kind == kind.kind else None

    nodes = [object_ for object_ in objects_by_name.values() if object_.kind == "NodeUpgrade"]
    observer: Any = SimpleNamespace(in_cluster=lambda *_: nodes, upgrade=upgrade)
    view = cluster_view()
    view.capi_objects.machine = lambda name: machine(name, control_plane=True)
    plane = made({"metadata": {"name": "garden", "annotations": {NODE_IN_WORK: note} if note else {}}})
    return node_scope._claimed_by(observer, view, plane, asking)


def test_claim_of_ones_own_keeps_nobody_from_going_on() -> None:
    """Who was broken off between its claim and its pod finds the claim."""
    assert claimed_by("") == ""
    assert claimed_by("a-node-upgrader 1") == ""
    assert (
        claimed_by("b-node-upgrader 2", node_upgrade("b-node-upgrader", "2")) == "NodeUpgrade b-node-upgrader (node b)"
    )
    assert claimed_by("b-node-upgrader 2", node_upgrade("b-node-upgrader", "2", completed=True)) == ""
    assert claimed_by("b-node-upgrader 2", node_upgrade("b-node-upgrader", "3")) == "", "it is another one"
    assert claimed_by("", node_upgrade("b-node-upgrader", "2", pod=True)) == "NodeUpgrade b-node-upgrader (node b)"


@pytest.mark.parametrize(("of", "holder"), [("garden", "ControlPlaneUpgrade whole"), ("other", "")])
def test_other_upgrades_hold_no_control_plane(of: str, holder: str) -> None:
    """Whoever edits the claim may name any."""
    spec = {
        "controlPlane": {"name": of},
        "machinesRequireUpgrade": [],
        "kubernetesVersion": NEW,
        "controlPlaneSpecData": "",
    }
    resource = ControlPlaneUpgrade.resource
    metadata = {"name": "whole", "namespace": "eksa-system", "uid": "7"}
    upgrade_object = made(
        {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": spec}
    )
    assert claimed_by("whole 7", upgrade_object) == holder
    assert claimed_by("whole 6", upgrade_object) == "", "it is another one of the name"


def test_running_upgrade_waits_for_nobody() -> None:
    outcome, written = ended(node_life.claim, working(claimed_by="NodeUpgrade other"))
    assert (reason(outcome), written) == ("", [])


@pytest.mark.parametrize(("silent", "waits"), [(0.0, "CopyingComponents"), (61.0, "WorkloadClusterUnreachable")])
def test_step_in_cluster_silent_for_minute_says_so(silent: float, waits: str) -> None:
    outcome, _ = ended(node_life.follow_pod, working(silent=silent))
    assert reason(outcome) == waits


def test_silent_cluster_without_a_pod_has_no_step() -> None:
    scope = scope_of([node("a")])
    view: Any = SimpleNamespace(workload=None, unreachable=Wait("WorkloadClusterUnreachable", "it does not answer"))
    silent: Any = replace(scope, cluster_view=view)
    outcome, _ = ended(node_life.find_node, silent)
    assert outcome == Wait("WorkloadClusterUnreachable", "it does not answer")
    begun = condition("UpgraderPodCreated", "True"), condition("BinariesCopied", "False")
    status = msgspec.structs.replace(silent.upgrade.status, conditions=list(begun))
    outcome, _ = ended(
        node_life.find_node, replace(silent, upgrade=msgspec.structs.replace(silent.upgrade, status=status))
    )
    assert isinstance(outcome, Wait)
    assert outcome.message.startswith("step 1 of ")


def condition(type_: str, status: Any) -> Condition:
    return Condition(type=type_, status=status, reason="So")


@pytest.mark.parametrize(("tag", "is_written"), [("v3.6.8", True), ("v3.6.6", False)])
def test_kubeadm_config_is_requested_before_it_runs(tag: str, is_written: bool) -> None:
    present: Tree = {
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kubernetesVersion": OLD,
        "etcd": {"local": {"imageTag": "v3.6.6"}},
    }
    scope = scope_of([node("a")])
    spec = msgspec.structs.replace(scope.upgrade.spec, etcd_version=tag)
    scope = replace(scope, upgrade=msgspec.structs.replace(scope.upgrade, spec=spec))
    written: list[Tree] = []

    async def merge(_resource: Any, _object: Any, patch: Tree) -> None:
        written.append(json.loads(patch["data"]["ClusterConfiguration"]))

    config = made({"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": json.dumps(present)}})
    workload: Any = SimpleNamespace(kubeadm_config=config, writer=SimpleNamespace(merge=merge))
    assert asyncio.run(node_life.configure(workload, scope)) == "first-control-plane"
    assert written == ([present | {"etcd": {"local": {"imageTag": tag}}}] if is_written else [])
