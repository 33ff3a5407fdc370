"""What admission says of GitOps, of other management clusters and of the pod network."""

from __future__ import annotations

import pytest

from espalier.api.meta import Tree
from tests.unit.clusters.asked import (
    GROUP,
    NETWORK,
    SPEC,
    ask,
    edited,
    garden,
    paused,
)
from tests.unit.clusters.seen import laptop, naming

FLUX = {"kind": "FluxConfig", "name": "estate"}


def hub(git_ops: Tree | None) -> Tree:
    """The management cluster, seen a second time."""
    return edited({SPEC + "gitOpsRef": git_ops, "metadata.resourceVersion": "2"}, laptop())


def test_a_workload_cluster_names_the_gitops_of_its_management_cluster() -> None:
    accepted = ask(edited({SPEC + "gitOpsRef": FLUX}), None, hub(FLUX))
    assert accepted.allowed, accepted.message
    assert [warning.partition(":")[0] for warning in accepted.warnings] == ["spec.gitOpsRef"]


@pytest.mark.parametrize(
    ("theirs", "ours", "found"),
    [
        (FLUX, {"kind": "FluxConfig", "name": "own"}, "found FluxConfig own; allowed: FluxConfig estate"),
        (None, FLUX, "found FluxConfig estate; allowed: nothing"),
        (FLUX, {"kind": "ConfigMap", "name": "estate"}, "found ConfigMap; allowed: FluxConfig or GitOpsConfig"),
    ],
)
def test_gitops_of_its_own_is_refused(theirs: Tree | None, ours: Tree, found: str) -> None:
    response = ask(edited({SPEC + "gitOpsRef": ours}), None, hub(theirs))
    assert not response.allowed
    assert found in response.message


def test_a_reference_to_gitops_that_stays_is_not_judged_again() -> None:
    old = edited({SPEC + "gitOpsRef": FLUX})
    assert ask(edited({SPEC + "kubernetesVersion": "1.36"}, old), old, laptop()).allowed


def test_a_workload_cluster_manages_no_other() -> None:
    field = SPEC + "managementCluster.name"
    orchard = garden("orchard")
    refused = ask(edited({field: "orchard"}), None, orchard).message
    assert refused == (
        'Cluster "garden" is refused: spec.managementCluster.name: "orchard" is not the management cluster, '
        'which is Cluster default/laptop; name "laptop"; found orchard; allowed: laptop'
    )
    assert "found orchard; allowed: laptop" in ask(edited({field: "orchard"}), paused(garden()), orchard).message
    coming = naming(edited({"metadata.name": "hub"}, laptop()))
    assert ask(edited({field: "hub"}), None, coming).allowed, "its record may come yet"
    stored = edited({field: "orchard"})
    assert ask(edited({GROUP + "count": 3}, stored), stored, orchard).allowed, "a name that stays is not judged again"


CILIUM: Tree = {"cilium": {"policyEnforcementMode": "always"}}


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({"kindnetd": {}}, CILIUM, False),
        (CILIUM, {"kindnetd": {}}, False),
        (CILIUM, {"cilium": {}}, True),
        ({"cilium": {}}, {"cilium": {"skipUpgrade": True}}, True),
    ],
)
def test_the_plugin_of_the_network_stays_and_its_settings_may_change(old: Tree, new: Tree, allowed: bool) -> None:
    before = edited({NETWORK + "cniConfig": old})
    answer = ask(edited({NETWORK + "cniConfig": new}), before)
    assert answer.allowed == allowed
    if not allowed:
        assert [cause.field for cause in answer.causes] == [NETWORK + "cniConfig"]
        assert next(iter(old)) in answer.message


def test_the_plugin_may_be_written_in_the_other_way() -> None:
    before = edited({NETWORK + "cniConfig": None, NETWORK + "cni": "kindnetd"})
    assert ask(edited({NETWORK + "cniConfig": {"kindnetd": {}}}), before).allowed
