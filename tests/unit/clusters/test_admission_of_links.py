"""Admission of GitOps, of other management clusters and of the pod network."""

from __future__ import annotations

import pytest

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusters.design.names import labels
from espalier.clusters.observe.rules import messages
from espalier.providers.registry import PROVIDERS
from tests.support.objects.observed_clusters import NAMESPACE, example, laptop, naming
from tests.support.providers.git_repositories import GIT, HUB, flux
from tests.support.servers.admission_reviews import (
    GROUP,
    NETWORK,
    SPEC,
    ask,
    edited,
    garden,
    paused,
)

FLUX = {"kind": "FluxConfig", "name": "estate"}


def hub(git_ops: Tree | None) -> Tree:
    """The management cluster, seen a second time."""
    return edited({SPEC + "gitOpsRef": git_ops, "metadata.resourceVersion": "2"}, laptop())


@pytest.mark.demand(
    "L45",
    L8="identity providers are refused, GitOps is warned of",
    L43="that nothing is written to Git is warned of",
    L46="a warning says so",
)
def test_workload_cluster_names_gitops_of_its_manager() -> None:
    accepted = ask(edited({SPEC + "gitOpsRef": FLUX}), None, hub(FLUX))
    assert accepted.allowed, accepted.message
    assert [warning.partition(":")[0] for warning in accepted.warnings] == ["spec.gitOpsRef"]


@pytest.mark.demand("L45")
@pytest.mark.parametrize(
    ("theirs", "ours", "text"),
    [
        (None, FLUX, "found FluxConfig estate; allowed: nothing"),
        (FLUX, {"kind": "ConfigMap", "name": "estate"}, "found ConfigMap; allowed: FluxConfig or GitOpsConfig"),
    ],
)
def test_gitops_of_its_own_is_refused(theirs: Tree | None, ours: Tree, text: str) -> None:
    response = ask(edited({SPEC + "gitOpsRef": ours}), None, hub(theirs))
    assert not response.allowed
    assert text in response.message


OWN = {"kind": "FluxConfig", "name": "own"}
OTHERS: list[tuple[Tree, str]] = [
    ({}, ""),
    ({"branch": "main", "systemNamespace": "flux-system", "clusterConfigPath": "clusters/laptop"}, ""),
    ({"github": HUB | {"personal": False}}, ""),
    ({"branch": "next"}, "spec.branch;"),
    ({"github": HUB | {"repository": "undisclosed"}, "systemNamespace": "flux"}, "spec.systemNamespace, spec.github."),
    ({"github": None, "git": GIT}, "spec.git.repositoryUrl, spec.git.sshKeyAlgorithm, spec.github.owner"),
]


@pytest.mark.parametrize(("content", "differs"), OTHERS)
def test_gitops_of_its_own_has_the_same_content(content: Tree, differs: str) -> None:
    spec = {name: value for name, value in ({"github": HUB} | content).items() if value is not None}
    own = flux("own", NAMESPACE) | {"spec": spec}
    ours = edited({SPEC + "gitOpsRef": OWN})
    response = ask(ours, None, hub(FLUX), flux("estate", "default"), own)
    assert response.allowed is not bool(differs)
    assert differs in response.message
    assert "undisclosed" not in response.message
    if differs:
        assert "found FluxConfig own; allowed: FluxConfig estate" in response.message
    earlier = {"kind": "GitOpsConfig", "spec": {"flux": {"github": HUB}}}
    of_earlier = hub(FLUX | {"kind": "GitOpsConfig"})
    assert ask(ours, None, of_earlier, flux("estate", "default") | earlier, own).allowed is not bool(differs)


def test_gitops_of_its_own_may_follow_its_cluster() -> None:
    """A manifest may name the Cluster first: the controller waits for the other, and compares."""
    assert ask(edited({SPEC + "gitOpsRef": OWN}), None, hub(FLUX), flux("estate", "default")).allowed


@pytest.mark.demand("L45")
def test_unchanged_gitops_reference_is_not_rejudged() -> None:
    old = edited({SPEC + "gitOpsRef": FLUX})
    assert ask(edited({SPEC + "kubernetesVersion": "1.36"}, old), old, laptop()).allowed


@pytest.mark.demand(L9="refused")
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


def test_cluster_of_the_configmap_is_told_from_another() -> None:
    message = messages.no_management_cluster("garden", Key(NAMESPACE, "laptop"), names_others=False)
    assert message.startswith(
        '"garden" is not the management cluster; ConfigMap eksa-system/management-cluster names the management cluster '
    )


CILIUM: Tree = {"cilium": {"policyEnforcementMode": "always"}}


@pytest.mark.demand(L10="another CNI is refused, as by EKS Anywhere")
@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ({"kindnetd": {}}, CILIUM, False),
        (CILIUM, {"kindnetd": {}}, False),
        (CILIUM, {"cilium": {}}, True),
        ({"cilium": {}}, {"cilium": {"skipUpgrade": True}}, True),
    ],
)
def test_network_plugin_stays_but_its_settings_change(old: Tree, new: Tree, allowed: bool) -> None:
    before = edited({NETWORK + "cniConfig": old})
    answer = ask(edited({NETWORK + "cniConfig": new}), before)
    assert answer.allowed == allowed
    if not allowed:
        assert [cause.field for cause in answer.causes] == [NETWORK + "cniConfig"]
        assert next(iter(old)) in answer.message


def test_the_plugin_may_be_written_in_the_other_way() -> None:
    before = edited({NETWORK + "cniConfig": None, NETWORK + "cni": "kindnetd"})
    assert ask(edited({NETWORK + "cniConfig": {"kindnetd": {}}}), before).allowed


KINDNETD: Tree = {NETWORK + "cniConfig": {"kindnetd": {}}}
NAMED: Tree = {NETWORK + "cniConfig": None, NETWORK + "cni": "kindnetd"}


def of_provider(name: str) -> Tree:
    """The Cluster of a provider's example, which has Cilium."""
    return next(tree for tree in example(f"{name}.yaml") if tree["kind"] == "Cluster")


def test_kindnetd_is_for_machines_that_are_containers() -> None:
    assert [kind for kind, item in PROVIDERS.items() if item.has_kindnetd] == ["DockerDatacenterConfig"]


@pytest.mark.parametrize("provider", ["vsphere", "tinkerbell", "nutanix", "cloudstack", "snow"])
def test_kindnetd_on_other_machines_is_refused(provider: str) -> None:
    assert ask(of_provider(provider)).allowed
    for edits, field in ((KINDNETD, NETWORK + "cniConfig.kindnetd"), (NAMED, NETWORK + "cni")):
        answer = ask(edited(edits, of_provider(provider)))
        assert [cause.field for cause in answer.causes] == [field]
        assert "set spec.clusterNetwork.cniConfig.cilium" in answer.message


@pytest.mark.parametrize("edits", [KINDNETD, NAMED])
def test_existing_cluster_with_kindnetd_may_change(edits: Tree) -> None:
    stored = edited(edits, of_provider("vsphere"))
    bigger = ask(edited({GROUP + "count": 3}, stored), stored)
    assert bigger.allowed, bigger.message
    rewritten = ask(edited({NETWORK + "cni": None} | KINDNETD, stored), stored)
    assert rewritten.allowed, rewritten.message


def test_kindnetd_is_refused_in_a_pause_as_well() -> None:
    stored = paused(of_provider("vsphere"))
    assert [cause.field for cause in ask(edited(KINDNETD, stored), stored).causes] == [NETWORK + "cniConfig.kindnetd"]


def test_record_is_not_asked_for_its_plugin() -> None:
    record = edited(
        {SPEC + "clusterNetwork": edited(KINDNETD, of_provider("vsphere"))["spec"]["clusterNetwork"]}, laptop()
    )
    assert not [cause for cause in ask(record).causes if cause.field.startswith(NETWORK)]


def test_moved_cluster_keeps_kindnetd() -> None:
    moved = edited(KINDNETD, of_provider("vsphere"))
    key = Key(NAMESPACE, moved["metadata"]["name"])
    there: Tree = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Cluster",
        "metadata": {
            "name": key.name,
            "namespace": "eksa-system",
            "resourceVersion": "1",
            "uid": "made",
            "labels": labels(key),
        },
        "spec": {},
    }
    assert ask(moved, None, there).allowed
