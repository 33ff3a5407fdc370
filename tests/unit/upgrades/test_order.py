"""Which node is next, and when a control plane can spare one."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeSpec, NodeUpgradeStatus
from espalier.api.meta import ObjectMeta
from espalier.clusterapi import kubernetes_versions
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.upgrades import reconciling
from espalier.upgrades.group import sequence
from espalier.upgrades.group.sequence import Member
from espalier.upgrades.node import controller as node_upgrade
from espalier.upgrades.observed import health
from tests.support.objects.observed_upgrades import machine, node, pods


def upgrade(reason: str, *, completed: bool = False) -> NodeUpgrade:
    spec = {"machine": {"name": "m"}, "kubernetesVersion": "v1.36.3", "nodeType": "Worker"}
    outcome = Done() if completed else Wait(reason, f"it is {reason}")
    conditions = reconciling.conditions_of(outcome, "", node_upgrade.QUIET)
    status = NodeUpgradeStatus(conditions, completed)
    return NodeUpgrade(metadata=ObjectMeta(name="m"), spec=msgspec.convert(spec, NodeUpgradeSpec), status=status)


def member(name: str, reason: str = "", *, done: bool = False, gone: bool = False, expected: bool = False) -> Member:
    made = upgrade(reason, completed=done) if reason or done else None
    return Member(name, None if gone else machine(name), None, made, expected)


def names(members: list[Member]) -> list[str]:
    return [named.name for named in members]


def test_one_after_the_other() -> None:
    members = [member("a", done=True, expected=True), member("b", "UpgradingKubeadm"), member("c")]
    assert names(sequence.next_members(members, 1)) == []
    assert names(sequence.next_members(members, 2)) == ["c"]
    assert names(sequence.active(members)) == ["b"]


def test_node_upgrade_tells_which_machine_is_reported() -> None:
    assert member("a", "UpgradingKubeadm").message == "it is UpgradingKubeadm"
    assert member("a").message == "its NodeUpgrade has not been reconciled yet"


@pytest.mark.parametrize("reason", ["UpgradingKubeadmFailed", "PodFailed", "UpgraderImageMissing", "VersionRefused"])
def test_node_that_needs_a_person_stops_the_rest(reason: str) -> None:
    members = [member("a", reason), member("b", "UpgradingKubeadm"), member("c")]
    assert names(sequence.next_members(members, 3)) == []
    assert sequence.active(members)[0].name == "a"


def renamed(made: NodeUpgrade) -> NodeUpgrade:
    """As another version told the same."""
    for condition in made.status.conditions:
        condition.reason = "OfAnotherVersion"
    return made


@pytest.mark.parametrize(("reason", "following"), [("UpgradingKubeadm", ["c"]), ("UpgradingKubeadmFailed", [])])
def test_no_reason_is_read_back(reason: str, following: list[str]) -> None:
    members = [Member("a", machine("a"), None, renamed(upgrade(reason))), member("c")]
    assert names(sequence.next_members(members, 2)) == following
    assert members[0].is_under_way is bool(following)


def test_node_without_condition_blocks_others() -> None:
    made = upgrade("UpgradingKubeadmFailed")
    made.status.conditions[:] = [condition for condition in made.status.conditions if condition.type == "Ready"]
    members = [Member("a", machine("a"), None, made), member("c")]
    assert names(sequence.next_members(members, 2)) == []


@pytest.mark.parametrize(
    ("reason", "progressing", "accepted"),
    [
        ("UpgradingKubeadm", "True", "True"),
        ("NodeNotReady", "Unknown", "True"),
        ("UpgradingKubeadmFailed", "False", "True"),
        ("VersionRefused", "False", "False"),
        ("Paused", "Unknown", "True"),
    ],
)
def test_progressing_upgrade_reports_conditions(reason: str, progressing: str, accepted: str) -> None:
    statuses = {condition.type: condition.status for condition in upgrade(reason).status.conditions}
    assert statuses == {"Ready": "False", "Progressing": progressing, "Accepted": accepted}


def test_unreconciled_node_upgrade_is_under_way() -> None:
    made = upgrade("UpgradingKubeadm")
    made.status.conditions.clear()
    new = Member("a", machine("a"), None, made)
    assert new.is_under_way
    assert (new.reason, new.message) == ("NodeUpgradePending", "its NodeUpgrade has not been reconciled yet")


def test_deleted_machine_counts_as_none() -> None:
    members = [member("a", gone=True), Member("b", machine("b", going=True), None, None), member("c")]
    assert names(sequence.next_members(members, 1)) == ["c"]
    assert sequence.counts(members) == sequence.Counts(0, 1)


def test_node_counts_once_its_machine_tells_so() -> None:
    members = [member("a", done=True), member("b", done=True, expected=True)]
    assert sequence.counts(members) == sequence.Counts(1, 1)
    assert names(sequence.to_record(members)) == ["a"]


def test_control_plane_spares_node_if_others_are_well() -> None:
    three = [node("a"), node("b"), node("c")]
    assert health.obstacle(three, pods("a", "b", "c"), "a", 3) == ""
    servers = [pod for pod in pods("a", "b", "c") if not pod.metadata.name.startswith("etcd")]
    assert health.obstacle(three, servers, "a", 3).startswith("etcd on node b has no pod")
    assert health.obstacle(three, servers, "a", 3, has_etcd=False) == "", "etcd is elsewhere"
    assert health.obstacle([node("a")], pods("a"), "a", 1) == "", "the only one is spared with the downtime it means"
    assert "not ready" in health.obstacle([node("a"), node("b", ready=False), node("c")], pods("a", "b", "c"), "a", 3)
    broken = health.obstacle(three, pods("a", "b", "c", broken="etcd-b"), "a", 3)
    assert broken == "etcd on node b is not ready: see the log of Pod kube-system/etcd-b"
    assert health.obstacle(three, pods("a", "c"), "a", 3).startswith("etcd on node b has no pod")
    assert health.obstacle(three[:2], pods("a", "b"), "a", 3) == "2 of 3 control plane nodes exist"
    assert health.obstacle(three, pods("a", "b", "c", broken="etcd-a"), "a", 3) == "", "its own fault is no obstacle"
    assert "not a quorum" in health.obstacle(three[:2], pods("a", "b"), "a", 2)
    assert health.obstacle(three[:2], pods("a", "b"), "a", 2, has_etcd=False) == "", "its quorum is elsewhere"


@pytest.mark.parametrize(
    ("current", "wanted", "message"),
    [
        ("v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1", ""),
        ("v1.35.4-eks-1-35-1", "v1.35.4-eks-1-35-2", ""),
        ("v1.35.4", "v1.35.9", ""),
        ("v1.34.4", "v1.36.3", "go to v1.35 first"),
        ("v1.36.3", "v1.35.4", "does not downgrade"),
        ("v1.35.5", "v1.35.4", "does not downgrade"),
        ("v1.36.3", "v2.0.0", "one minor version at a time"),
        ("", "v1.36.3", "must be like"),
        ("latest", "v1.36.3", "found version latest"),
    ],
)
def test_kubeadm_takes_one_minor_up_at_a_time(current: str, wanted: str, message: str) -> None:
    obstacle = kubernetes_versions.step_obstacle(current, wanted)
    assert message in obstacle
    assert bool(obstacle) is bool(message)


@pytest.mark.parametrize(
    ("reported", "reached"),
    [
        ("v1.36.3-eks-1-36-1", True),
        ("v1.36.3", True),
        ("v1.36.3-eks-d91a302", True),
        ("v1.36.3-eks-1234567", True),
        ("v1.36.3-eks-1-36-2", False),
        ("v1.36.3-rc.1", False),
        ("v1.36.2-eks-d91a302", False),
        ("v1.36.2", False),
        ("v1.35.4-eks-1-35-1", False),
        ("", False),
    ],
)
def test_kubelet_names_a_build_or_nothing(reported: str, reached: bool) -> None:
    assert kubernetes_versions.is_reached(reported, "v1.36.3-eks-1-36-1") is reached


@pytest.mark.parametrize(
    ("kubelet", "machine", "reached"),
    [
        ("v1.36.3-eks-d91a302", "v1.36.3-eks-1-36-5", False),
        ("v1.36.3", "v1.36.3-eks-1-36-5", False),
        ("v1.36.3-eks-d91a302", "v1.36.3-eks-1-36-6", True),
        ("v1.36.3-eks-1-36-6", "v1.36.3-eks-1-36-5", True),  # such a kubelet tells
        ("v1.36.3-eks-d91a302", "v1.36.2-eks-1-36-4", True),  # and by its numbers
        ("v1.36.3-eks-d91a302", "", True),
        ("v1.36.2-eks-d91a302", "v1.36.3-eks-1-36-6", False),
    ],
)
def test_machine_tells_the_release_of_its_kubelet(kubelet: str, machine: str, reached: bool) -> None:
    assert kubernetes_versions.has_release(kubelet, machine, "v1.36.3-eks-1-36-6") is reached
