"""Versions go one minor at a time for machines too: what they have not reached yet holds up what comes after."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.clusters.report.validity import problem
from tests.support.objects import made_clusters as made
from tests.support.objects.eksa_versions import KUBERNETES, VERSION, refused
from tests.support.objects.observed_clusters import datacenter, scope
from tests.support.servers.admission_reviews import CONTROL_PLANE, GROUP, ask, edited, paused

V34, V35, V36 = "v1.34.4-eks-1-34-1", "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"


def at(version: str, **edits: Any) -> Tree:
    return edited({KUBERNETES: version} | edits)


def machine_set(version: str, replicas: int = 2, being: int = 0) -> Tree:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineSet",
        "metadata": {
            "name": f"garden-md-0-{version}",
            "namespace": "eksa-system",
            "uid": version,
            "resourceVersion": "9",
            "labels": {
                "cluster.x-k8s.io/cluster-name": "garden",
                "cluster.x-k8s.io/deployment-name": "garden-md-0",
            },
        },
        "spec": {
            "clusterName": "garden",
            "selector": {},
            "replicas": replicas,
            "template": {
                "spec": {
                    "clusterName": "garden",
                    "version": version,
                    "bootstrap": {},
                    "infrastructureRef": {"apiGroup": "i", "kind": "DockerMachineTemplate", "name": "t"},
                }
            },
        },
        "status": {"replicas": being},
    }


def made_at(version: str, control_plane: Tree | None = None, generation: int = 2, **spec: Any) -> list[Tree]:
    """The objects made for the cluster, whose versions were set a moment ago."""
    status = {"observedGeneration": generation} | (control_plane or {})
    objects = made.objects(version=version, control_plane=status, **spec)
    for tree in objects:
        tree["metadata"]["generation"] = generation
    return objects


BEHIND = {"version": V34, "upToDateReplicas": 0}


def test_a_further_minor_waits_for_the_control_plane() -> None:
    blamed = refused(ask(at("1.36"), at("1.35"), *made_at("1.35", BEHIND)))
    assert blamed == {
        "spec.kubernetesVersion": "the control plane still has machines with Kubernetes 1.34; wait until all of them "
        "run 1.35; found 1.36; allowed: 1.35"
    }
    one_left = {"version": "", "versions": [{"version": V34, "replicas": 1}, {"version": V35, "replicas": 2}]}
    assert "still has machines with Kubernetes 1.34" in str(
        refused(ask(at("1.36"), at("1.35"), *made_at("1.35", one_left)))
    )
    assert ask(at("1.36"), at("1.35"), *made_at("1.35")).allowed


def test_control_plane_without_version_is_waited_for() -> None:
    blamed = refused(ask(at("1.36"), at("1.35"), *made_at("1.34")))
    assert "control plane still has machines with Kubernetes 1.34" in blamed["spec.kubernetesVersion"]
    assert "group md-0 still has machines with Kubernetes 1.34" in blamed["spec.kubernetesVersion"]


def test_a_report_that_is_not_current_allows_nothing() -> None:
    blamed = refused(ask(at("1.36"), at("1.35"), *made_at("1.35", {"observedGeneration": 1})))
    assert "its status is outdated" in blamed["spec.kubernetesVersion"]
    assert ask(
        at("1.36"), at("1.35"), *made_at("1.35", {"observedGeneration": 0}, generation=1)
    ).allowed  # being created


@pytest.mark.parametrize("nonsense", ["nonsense", "1", "v1.x.4", "-1"])
def test_invalid_version_allows_and_breaks_nothing(nonsense: str) -> None:
    """Only a hand writes that there."""
    reported = made_at("1.35", {"version": nonsense})
    assert "its status is outdated" in refused(ask(at("1.36"), at("1.35"), *reported))["spec.kubernetesVersion"]
    assert ask(at("1.35", **{GROUP + "count": 5}), at("1.35"), *reported).allowed
    rolling = [machine_set(V35), machine_set(nonsense)]
    assert "group md-0" in refused(ask(at("1.36"), at("1.35"), *made_at("1.35"), *rolling))["spec.kubernetesVersion"]
    asked = made_at("1.35")
    for tree in asked:
        if tree["kind"] == "KubeadmControlPlane":
            tree["spec"]["version"] = nonsense
    assert ask(at("1.36"), at("1.35"), *asked).allowed


def test_further_minor_waits_for_each_group_of_workers() -> None:
    rolling = [machine_set(V35), machine_set(V34, 0, being=1)]
    blamed = refused(ask(at("1.36"), at("1.35"), *made_at("1.35"), *rolling))
    assert blamed == {
        "spec.kubernetesVersion": "group md-0 still has machines with Kubernetes 1.34; wait until all of them run "
        "1.35; found 1.36; allowed: 1.35"
    }
    gone = [machine_set(V35), machine_set(V34, 0, being=0)]
    assert ask(at("1.36"), at("1.35"), *made_at("1.35"), *gone).allowed


def test_group_with_version_of_its_own_is_judged_by_it() -> None:
    own = GROUP + "kubernetesVersion"
    old, new = at("1.36", **{own: "1.35"}), at("1.36", **{own: "1.36"})
    objects = made_at("1.36", workerNodeGroupConfigurations=old["spec"]["workerNodeGroupConfigurations"])
    assert ask(new, old, *objects, machine_set(V35)).allowed
    blamed = refused(ask(new, old, *objects, machine_set(V35), machine_set(V34)))
    assert "group md-0 still has machines with Kubernetes 1.34" in blamed[own]


def test_control_plane_does_not_outrun_its_workers() -> None:
    own = {GROUP + "kubernetesVersion": "1.34"}
    old, new = at("1.35", **own), at("1.36", **own)
    objects = made_at("1.35", workerNodeGroupConfigurations=old["spec"]["workerNodeGroupConfigurations"])
    assert ask(new, old, *objects, machine_set(V34)).allowed
    blamed = refused(ask(new, old, *objects, machine_set(V34), machine_set("v1.33.9-eks-1-33-9")))
    assert "group md-0 still has machines with Kubernetes 1.33; wait until all of them run 1.34" in str(blamed)


@pytest.mark.parametrize(
    "edits", [{}, {GROUP + "count": 5}, {CONTROL_PLANE + "labels": {"a": "b"}}, {VERSION: "v0.26.0"}], ids=str
)
def test_all_else_goes_on_in_the_middle_of_an_upgrade(edits: dict[str, Any]) -> None:
    objects = [*made_at("1.35", BEHIND), machine_set(V34)]
    assert ask(edited(edits, at("1.35")), at("1.35"), *objects).allowed
    skipped = made_at("1.34")  # 1.36 was written while nobody could refuse it
    assert ask(edited(edits, at("1.36")), at("1.36"), *skipped).allowed


def test_invalid_stored_cluster_waits_to_be_fixed() -> None:
    tree = at("1.36")
    result = problem(scope(tree, datacenter(), *made_at("1.34")))
    assert result is not None
    assert result.reason == Reason.CLUSTER_INVALID
    assert (
        "the control plane still has machines with Kubernetes 1.34; wait until all of them run 1.35" in result.message
    )
    assert ask(at("1.35"), tree, *made_at("1.34")).allowed
    assert problem(scope(at("1.35"), datacenter(), *made_at("1.34"))) is None
    assert problem(scope(at("1.36"), datacenter(), *made_at("1.36", {"version": V35}))) is None  # under way already


def unfinished(version: str, **edits: Any) -> Tree:
    tree = edited({VERSION: version, "status": {"observedGeneration": 6}} | edits)
    tree["metadata"]["generation"] = 7
    return tree


def test_release_goes_a_minor_on_from_finished_change() -> None:
    half = unfinished("v0.25.0")
    assert refused(ask(edited({VERSION: "v0.26.0"}, half), half, *made_at("1.35"))) == {
        "spec.eksaVersion": "the last change of the cluster, with release v0.25.0, is still in progress; wait until it "
        "is Ready; found v0.26.0; allowed: releases of v0.25"
    }
    assert not ask(edited({VERSION: "v0.26.0"}, paused(half)), paused(half), *made_at("1.35")).allowed
    assert ask(edited({VERSION: "v0.25.1"}, half), half, *made_at("1.35")).allowed
    assert ask(edited({GROUP + "count": 9}, half), half, *made_at("1.35")).allowed
    done = unfinished("v0.25.0", status={"observedGeneration": 7})
    assert ask(edited({VERSION: "v0.26.0"}, done), done, *made_at("1.35")).allowed


def test_cluster_without_objects_may_change_release() -> None:
    half = unfinished("v0.25.0")
    assert ask(edited({VERSION: "v0.26.0"}, half), half).allowed
