"""The tree of a cluster's objects, and the one thing that blocks progress."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.meta import Tree
from espalier.clusterapi.ownership_tree import Member, obstacle, tree_of

CAPI = "cluster.x-k8s.io/v1beta2"


def made(kind: str, name: str, *owners: Tree, version: str = CAPI, **conditions: Any) -> Tree:
    """An object with conditions given as `Ready="False: Why: what"`."""
    parts = {type_: [*text.split(": ", 2), "", ""] for type_, text in conditions.items()}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "name": name,
            "uid": f"{kind}-{name}",
            "ownerReferences": [
                {"uid": owner["metadata"]["uid"], "controller": not at} for at, owner in enumerate(owners)
            ],
        },
        "status": {
            "conditions": [
                {"type": type_, "status": status, "reason": reason, "message": message}
                for type_, (status, reason, message, *_) in parts.items()
            ]
        },
    }


ROOT = made(
    "Cluster", "garden", version="anywhere.eks.amazonaws.com/v1alpha1", Ready="False: ScalingUp: 1 of 2 are there"
)
HEAD = made("Cluster", "garden", Available="True")
CONTROL_PLANE = made("KubeadmControlPlane", "garden", HEAD, Available="True")
DEPLOYMENT = made("MachineDeployment", "garden-md-0", HEAD, Available="False: NotAvailable: * 1 of 2", ScalingUp="True")
SET = made("MachineSet", "garden-md-0-x", DEPLOYMENT, MachinesReady="False: NotReady")
WELL = made("Machine", "a", SET, Ready="True")
ILL = made("Machine", "b", SET, Ready="False: NotReady: * BootstrapConfigReady: waiting for data\n* NodeReady: no node")
HEAD["metadata"]["uid"] = "head"
for child in (CONTROL_PLANE, DEPLOYMENT):
    child["metadata"]["ownerReferences"][0]["uid"] = "head"


def names(member: Member) -> list[Any]:
    return [f"{member.kind} {member.name}", *map(names, member.children)]


def test_owners_stand_above_what_they_own() -> None:
    assert names(tree_of(ROOT, [ILL, WELL, SET, DEPLOYMENT, CONTROL_PLANE, HEAD])) == [
        "Cluster garden",
        [
            "Cluster.cluster.x-k8s.io garden",
            ["KubeadmControlPlane garden"],
            [
                "MachineDeployment garden-md-0",
                ["MachineSet garden-md-0-x", ["Machine a"], ["Machine b"]],
            ],
        ],
    ]


def test_deepest_member_in_trouble_is_named() -> None:
    result = obstacle(tree_of(ROOT, [ILL, WELL, SET, DEPLOYMENT, CONTROL_PLANE, HEAD]))
    assert result is not None
    assert (result.kind, result.name) == ("Machine", "b")
    assert result.state.sentence == "NotReady: BootstrapConfigReady: waiting for data; NodeReady: no node"


def test_trouble_goes_before_work_that_is_under_way() -> None:
    rolling = made("KubeadmControlPlane", "garden", Available="True", RollingOut="True: Rolling: 1 machine is replaced")
    result = obstacle(tree_of(ROOT, [HEAD, rolling, DEPLOYMENT]))
    assert result is not None
    assert result.name == "garden-md-0"
    result = obstacle(tree_of(ROOT, [HEAD, rolling]))
    assert result is not None
    assert (result.state.text, result.state.sentence) == ("True, RollingOut", "1 machine is replaced")


def test_a_drain_says_who_blocks_it() -> None:
    stage = "False: NotReady: * Deleting: Machine deletion in progress, stage: DrainingNode"
    why = "Drain not completed yet:\n* Pods with eviction failed:\n  * The disruption budget web needs 2 healthy pods"
    drained = made("Machine", "c", SET, Ready=stage, Deleting=f"True: DrainingNode: {why}")
    result = obstacle(tree_of(ROOT, [drained, WELL, SET, DEPLOYMENT, CONTROL_PLANE, HEAD]))
    assert result is not None
    assert result.state.sentence == (
        "DrainingNode: Drain not completed yet: Pods with eviction failed: "
        "The disruption budget web needs 2 healthy pods"
    )


def test_healthy_cluster_has_no_obstacle() -> None:
    well = made("Cluster", "garden", version="anywhere.eks.amazonaws.com/v1alpha1", Ready="True")
    assert obstacle(tree_of(well, [HEAD, CONTROL_PLANE])) is None
    alone = obstacle(tree_of(ROOT, []))
    assert alone is not None
    assert alone.state.sentence == "ScalingUp: 1 of 2 are there"


@given(st.lists(st.integers(0, 12), max_size=12))
def test_object_stands_in_the_tree_once(owners: list[int]) -> None:
    objects = [made("Machine", str(number)) for number in range(len(owners))]
    for value, owner in zip(objects, owners, strict=True):  # also circles, itself, and owners that are not there
        value["metadata"]["ownerReferences"] = [{"uid": f"Machine-{owner}"}]
    members = [member.tree["metadata"]["uid"] for member in tree_of(ROOT, [HEAD, *objects]).members()]
    assert sorted(members) == sorted(item["metadata"]["uid"] for item in (ROOT, HEAD, *objects))


def test_member_of_etcd_blocks_nothing_without_a_node() -> None:
    waiting = "False: NotReady: waiting for the machine to register its node"
    machine = made("Machine", "garden-etcd-1", ROOT, Ready=waiting, InfrastructureReady="True: Ready: ")
    machine["metadata"]["labels"] = {"cluster.x-k8s.io/etcd-cluster": "garden-etcd"}
    result = obstacle(tree_of(ROOT, [machine]))
    assert result is not None
    assert result.kind == "Cluster"
    machine["metadata"]["labels"] = {}
    result = obstacle(tree_of(ROOT, [machine]))
    assert result is not None
    assert result.name == "garden-etcd-1"


def test_a_linked_object_is_as_its_check_found_it() -> None:
    linked = made("VSphereDatacenterConfig", "garden", ROOT, version="anywhere.eks.amazonaws.com/v1alpha1")
    linked["status"] |= {"specValid": False, "failureReason": "SpecInvalid", "failureMessage": "spec.network: found n"}
    tree = tree_of(ROOT, [linked])
    result = obstacle(tree)
    assert result is not None
    assert (result.name, result.state.text, result.state.sentence) == (
        "garden",
        "False",
        "SpecInvalid: spec.network: found n",
    )
    linked["status"]["specValid"] = True
    assert tree_of(ROOT, [linked]).children[0].state.text == "True"


def test_a_template_of_vsphere_is_text_and_no_version() -> None:
    machines = made("VSphereMachineConfig", "vineyard")
    assert Member({**machines, "spec": {"template": "ubuntu-1-35"}}).version == ""
    deployment = {"spec": {"template": {"spec": {"version": "v1.35.4"}}}}
    assert Member({**made("MachineDeployment", "vineyard-md-0"), **deployment}).version == "v1.35.4"


@pytest.mark.parametrize("status", ["x", {"conditions": "x"}, {"conditions": [7, {}, {"type": 7, "status": []}]}])
def test_malformed_conditions_count_as_none(status: object) -> None:
    malformed = {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "uid": "u"},
        "status": status,
    }
    assert tree_of(malformed, ()).is_healthy
