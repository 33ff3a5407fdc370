"""Drift: whatever somebody changed of our objects, by object and field, and what reverts it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.clusters.design import cni
from espalier.clusters.design.drift.drift_policy import Policy, policy
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan import drift
from espalier.clusters.plan.drift import BEING_DELETED, MISSING, NOT_PART_OF_CLUSTER, Drift, InstalledCNI
from espalier.clusters.plan.plan import Change, Removal
from espalier.clusters.report import synced
from tests.support.objects.made_clusters import made, objects, settled
from tests.support.objects.observed_clusters import applied, as_object

KCP = "KubeadmControlPlane eksa-system/garden"
GROUP = "MachineDeployment eksa-system/garden-md-0"


def drifts(scope: Scope) -> list[Drift]:
    assert scope.render_input is not None
    return drift.of_capi_objects(
        scope.render_input, scope.capi_objects, cni.content_hash(cni.objects(scope.render_input))
    )


def messages(scope: Scope) -> list[str]:
    return [str(item) for item in drifts(scope)]


def of_kind(trees: list[Tree], kind: str, name: str = "") -> Tree:
    return next(tree for tree in trees if tree["kind"] == kind and tree["metadata"]["name"].endswith(name))


def edited(kind: str, edit: Callable[[Tree], object], name: str = "") -> Scope:
    """The example, made, with one object edited by hand."""
    trees = objects()
    edit(of_kind(trees, kind, name))
    return made(objects=trees, status=settled())


def without(*kinds: str) -> Scope:
    return made(objects=[tree for tree in objects() if tree["kind"] not in kinds], status=settled())


def at(path: str, value: Any) -> Callable[[Tree], object]:
    """Sets a field."""

    def edit(tree: Tree) -> None:
        *way, last = path.split(".")
        for step in way:
            tree = tree[step]
        tree[last] = value

    return edit


def test_nothing_is_reported_about_a_cluster_in_order() -> None:
    assert messages(made(objects=objects(), status=settled())) == []


@pytest.mark.parametrize(
    ("kind", "edit", "expected", "replaces"),
    [
        ("KubeadmControlPlane", at("spec.replicas", 5), f"{KCP}: spec.replicas", False),
        ("KubeadmControlPlane", at("spec.version", "v1.34.0"), f"{KCP}: spec.version", True),
        (
            "KubeadmControlPlane",
            at("spec.kubeadmConfigSpec.clusterConfiguration.imageRepository", "example.com"),
            f"{KCP}: spec.kubeadmConfigSpec.clusterConfiguration.imageRepository",
            True,
        ),
        (
            "KubeadmControlPlane",
            at("spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag", "v0"),  # Cluster API changes that in place
            f"{KCP}: spec.kubeadmConfigSpec.clusterConfiguration.dns.imageTag",
            False,
        ),
        ("MachineDeployment", at("spec.replicas", 9), f"{GROUP}: spec.replicas", False),
        ("MachineDeployment", at("spec.template.spec.version", "v1"), f"{GROUP}: spec.template.spec.version", True),
        (
            "Cluster",
            at("spec.clusterNetwork.pods.cidrBlocks", ["10.9.0.0/16"]),
            "Cluster eksa-system/garden: spec.clusterNetwork.pods.cidrBlocks",
            False,
        ),
        (
            "DockerCluster",
            at("spec.loadBalancer.imageTag", "v0"),
            "DockerCluster eksa-system/garden: spec.loadBalancer.imageTag",
            False,
        ),
        (
            "MachineHealthCheck",
            at("spec.checks.nodeStartupTimeoutSeconds", 1),
            "MachineHealthCheck eksa-system/garden-kcp-unhealthy: spec.checks.nodeStartupTimeoutSeconds",
            False,
        ),
        (
            "KubeadmConfigTemplate",
            at("spec.template.spec.joinConfiguration.nodeRegistration.criSocket", "/x"),
            "KubeadmConfigTemplate eksa-system/garden-md-0-1: "
            "spec.template.spec.joinConfiguration.nodeRegistration.criSocket",
            False,  # machines are made of a template once; its name is what they are compared with
        ),
        (
            "DockerMachineTemplate",
            at("spec.template.spec.customImage", "example.com/other:1"),
            "DockerMachineTemplate eksa-system/garden-control-plane-1: spec.template.spec.customImage",
            False,
        ),
        (
            "Cluster",
            at("metadata.annotations", {}),
            f"Cluster eksa-system/garden: metadata.annotations[{metadata_keys.CNI_ANNOTATION}]",
            False,
        ),
    ],
)
def test_edit_is_named_with_field_and_consequence(
    kind: str, edit: Callable[[Tree], object], expected: str, replaces: bool
) -> None:
    (item,) = drifts(edited(kind, edit))
    assert str(item) == expected
    assert item.replaces_machines is replaces
    assert isinstance(item.remedy, Change | InstalledCNI)


def test_removed_own_label_is_drift_an_added_is_not() -> None:
    trees = objects()
    of_kind(trees, "MachineHealthCheck")["metadata"]["labels"]["mine"] = "too"
    assert messages(made(objects=trees, status=settled())) == []
    ours = "cluster.x-k8s.io/cluster-name"
    of_kind(trees, "KubeadmControlPlane")["metadata"]["labels"][ours] = "other"
    assert messages(made(objects=trees, status=settled())) == [f"{KCP}: metadata.labels[{ours}]"]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("KubeadmControlPlane", [f"{KCP} {MISSING}"]),
        ("MachineDeployment", [f"{GROUP} {MISSING}"]),
        ("DockerCluster", [f"DockerCluster eksa-system/garden {MISSING}"]),
        ("KubeadmConfigTemplate", [f"KubeadmConfigTemplate eksa-system/garden-md-0-1 {MISSING}"]),
        (
            "DockerMachineTemplate",
            [f"DockerMachineTemplate eksa-system/garden-{item}-1 {MISSING}" for item in ("control-plane", "md-0")],
        ),
        (
            "MachineHealthCheck",
            [f"MachineHealthCheck eksa-system/garden-{item}-unhealthy {MISSING}" for item in ("kcp", "md-0-worker")],
        ),
    ],
)
def test_deleted_object_is_missing_and_created_again(kind: str, expected: list[str]) -> None:
    scope = without(kind)
    assert messages(scope) == expected
    assert not any(item.replaces_machines for item in drifts(scope))


def test_moved_reference_differs_from_an_edit() -> None:
    trees = objects()
    evil = copy.deepcopy(of_kind(trees, "DockerMachineTemplate", "control-plane-1"))
    evil["metadata"] |= {"name": "evil", "uid": "evil"}
    evil["spec"]["template"]["spec"]["customImage"] = "example.com/evil:1"
    of_kind(trees, "KubeadmControlPlane")["spec"]["machineTemplate"]["spec"]["infrastructureRef"]["name"] = "evil"
    (item,) = drifts(made(objects=[*trees, evil], status=settled()))
    assert str(item) == f"{KCP}: spec.machineTemplate.spec.infrastructureRef.name"
    assert item.replaces_machines
    assert isinstance(item.remedy, Change)
    reference = item.remedy.body["spec"]["machineTemplate"]["spec"]["infrastructureRef"]
    assert reference["name"] == "garden-control-plane-1"


def test_template_of_another_part_is_not_its_own() -> None:
    """Machines of the control plane and workers may well be made of the same."""
    trees = objects()
    result, other = (of_kind(trees, "DockerMachineTemplate", name)["spec"] for name in ("control-plane-1", "md-0-1"))
    assert result == other
    of_kind(trees, "DockerMachineTemplate", "md-0-1")["spec"]["template"]["spec"]["customImage"] = "example.com/other:1"
    assert messages(made(objects=trees, status=settled())) == [
        "DockerMachineTemplate eksa-system/garden-md-0-1: spec.template.spec.customImage"
    ]


def test_surplus_objects_are_reported_and_go_away() -> None:
    trees = objects()
    more = copy.deepcopy(of_kind(trees, "MachineDeployment"))
    more["metadata"] |= {"name": "garden-more", "uid": "more"}
    spare = copy.deepcopy(of_kind(trees, "KubeadmConfigTemplate"))
    spare["metadata"] |= {"name": "garden-spare", "uid": "spare"}
    result, other = drifts(made(objects=[*trees, more, spare], status=settled()))
    assert str(result) == f"MachineDeployment eksa-system/garden-more {NOT_PART_OF_CLUSTER}"
    assert str(other) == f"KubeadmConfigTemplate eksa-system/garden-spare {NOT_PART_OF_CLUSTER}"
    assert isinstance(result.remedy, Removal)
    assert isinstance(other.remedy, Removal)


def test_object_being_deleted_is_reported_and_awaited() -> None:
    moment = "2026-01-01T00:00:00Z"
    (item,) = drifts(edited("MachineDeployment", at("metadata.deletionTimestamp", moment)))
    assert (str(item), item.remedy) == (f"{GROUP} {BEING_DELETED}", None)


def test_deleted_cluster_api_cluster_gets_no_objects() -> None:
    trees = [tree for tree in objects() if tree["kind"] != "MachineDeployment"]
    of_kind(trees, "Cluster")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    scope = made(objects=trees, status=settled())
    assert [item.remedy for item in drifts(scope)] == [None, None]
    assert messages(scope) == [f"{GROUP} {MISSING}", f"Cluster eksa-system/garden {BEING_DELETED}"]


def workload(edit: Callable[[Tree], object]) -> list[str]:
    """The drift of the CNI when its DaemonSet is edited."""
    scope = made(objects=objects())
    assert scope.render_input is not None
    manifests = cni.objects(scope.render_input)
    stored = [applied(manifest.body) for manifest in manifests]
    edit(of_kind(stored, "DaemonSet"))
    return [str(manifest) for manifest in drift.of_manifests(manifests, [as_object(tree) for tree in stored])]


def test_the_objects_of_the_cni_are_compared_too() -> None:
    where = "DaemonSet kube-system/kindnet of the workload cluster"
    assert workload(lambda _tree: None) == []
    assert workload(at("spec.updateStrategy.type", "OnDelete")) == [f"{where}: spec.updateStrategy.type"]
    scope = made(objects=objects())
    assert scope.render_input is not None
    manifests = cni.objects(scope.render_input)
    gone = drift.of_manifests(manifests, [None for _ in manifests])
    assert [item.how for item in gone] == [MISSING] * len(manifests)


CHEAP = Drift("A", "spec.a", InstalledCNI(""))
DEAR = Drift("B", "spec.b", InstalledCNI(""), replaces_machines=True)
HOPELESS = Drift("C", BEING_DELETED, None)


@pytest.mark.parametrize(
    ("value", "corrected"),
    [
        (None, []),
        ("report", []),
        ("correct", [CHEAP]),
        ("correct-machines", [CHEAP, DEAR]),
        ("please", []),
    ],
)
def test_the_annotation_says_what_is_brought_back(value: str | None, corrected: list[Drift]) -> None:
    annotations = {} if value is None else {metadata_keys.DRIFT_ANNOTATION: value}
    assert drift.correctable([CHEAP, DEAR, HOPELESS], policy(annotations)) == corrected


def condition(drifts: list[Drift], wish: str = "", failure: str = "", version: str = "v0.26.0") -> Condition:
    annotations = {metadata_keys.DRIFT_ANNOTATION: wish} if wish else {}
    scope = made(objects=objects(), status=settled(), annotations=annotations, eksaVersion=version)
    return synced.seen(scope, drifts, failure, {}, {})


def test_a_cluster_without_drift_is_synced() -> None:
    result = condition([])
    assert (result.status, result.reason) == ("True", Satisfied.AS_RENDERED)
    assert result.message == "all objects are as release v0.26.0 renders them"


def test_drift_is_named_and_what_helps_is_said() -> None:
    result = condition([CHEAP])
    assert (result.status, result.reason) == ("False", Reason.DRIFTED)
    assert result.message == f"A: spec.a; to correct it, set annotation {metadata_keys.DRIFT_ANNOTATION}=correct"
    price = f"to correct it, set annotation {metadata_keys.DRIFT_ANNOTATION}=correct-machines, which replaces machines"
    assert condition([CHEAP, DEAR]).message == f"A: spec.a; B: spec.b; {price}"
    assert condition([DEAR], "correct").message == (
        f"B: spec.b; {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT_MACHINES} corrects that by replacing machines"
    )
    assert "allowed are report, correct, correct-machines" in condition([CHEAP], "please").message


def test_silent_workload_cluster_is_unknown() -> None:
    result = condition([], failure="Unreachable")
    assert (result.status, result.reason) == ("Unknown", Reason.WORKLOAD_CLUSTER_UNREACHABLE)
    assert condition([CHEAP], failure="Unreachable").status == "False"


def test_patch_is_offered_to_older_clusters() -> None:
    assert "patch short-lived-tokens is available: " in condition([], version="v0.25.1").message
    assert "patch" not in condition([]).message


def test_a_long_list_is_cut_at_an_object() -> None:
    message = condition([Drift(f"Kind n/{number}", "spec." + "x" * 100, None) for number in range(500)]).message
    assert len(message) < synced.LONGEST + 300
    assert "more objects" in message


def test_objects_of_others_are_not_compared() -> None:
    """Their names are those that this cluster needs, so correcting would take them away."""
    trees = objects()
    labels = of_kind(trees, "KubeadmControlPlane")["metadata"]["labels"]
    labels["cluster.anywhere.eks.amazonaws.com/cluster-namespace"] = "team-b"
    scope = made(objects=trees, status=settled())
    assert scope.capi_objects.taken
    assert "KubeadmControlPlane" in synced.incomparable(scope)
    condition = synced.unseen(scope)
    assert condition is not None
    assert (condition.status, condition.reason) == ("Unknown", Reason.NOT_COMPARABLE)


def test_unrenderable_cluster_can_not_be_compared() -> None:
    scope = replace(
        made(objects=objects(), status=settled()), render_input=None, problem="Kubernetes 1.29 is not there"
    )
    assert synced.incomparable(scope) == "the cluster can't be rendered: Kubernetes 1.29 is not there"
