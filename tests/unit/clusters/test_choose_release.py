"""The release that a Cluster gets which names none: once, and never over what somebody names meanwhile."""

from __future__ import annotations

from typing import Any

import pytest

from espalier.api.meta import Tree
from espalier.clusters.act.context import ClusterContext
from espalier.clusters.act.step import ClusterStep
from espalier.clusters.act.steps import choose_release, take_release
from espalier.clusters.report.validity import problem
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait
from tests.support.objects.made_clusters import objects
from tests.support.objects.observed_clusters import example, laptop, naming
from tests.support.objects.reconciles import step


def chosen(*trees: Tree) -> tuple[Outcome, list[Tree], ClusterContext]:
    """How the step ends among these objects, what it writes, and its reconcile."""
    return step(ClusterStep(choose_release, take_release), trees)


def without_release(**spec: Any) -> list[Tree]:
    trees = example(**spec)
    del trees[0]["spec"]["eksaVersion"]
    return trees


def test_new_cluster_gets_the_release_of_its_manager() -> None:
    trees = without_release()
    outcome, written, _ = chosen(*trees)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "ReleaseChosen"
    (patch,) = written
    assert patch["spec"] == {"eksaVersion": "v0.26.0"}
    seen = trees[0]["metadata"]
    assert patch["metadata"] == {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}


@pytest.mark.demand(V10="by the controller")
def test_a_cluster_that_has_machines_never_gets_one() -> None:
    """Somebody took its release away: which one it had is not known here, and another would roll its machines."""
    outcome, written, p = chosen(*without_release(), *objects())
    assert outcome == Continue()
    assert written == []
    result = problem(p.scope)
    assert result is not None
    assert result.reason == "EksaVersionInvalid"
    assert "set a release" in result.message


@pytest.mark.parametrize(
    "spec",
    [
        {"eksaVersion": "v0.25.1"},
        {"bundlesRef": {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "b", "namespace": "eksa-system"}},
        {"managementCluster": {"name": "garden"}},
    ],
    ids=["a release", "Bundles", "a cluster that manages itself"],
)
def test_a_named_release_stays(spec: dict[str, Any]) -> None:
    trees = without_release()
    trees[0]["spec"] |= spec
    outcome, written, _ = chosen(*trees, naming(laptop()))
    assert (outcome, written) == (Continue(), [])


def test_no_release_is_chosen_without_record() -> None:
    record = laptop()
    record["metadata"]["resourceVersion"] = "2"
    del record["spec"]["eksaVersion"]
    outcome, written, _ = chosen(*without_release(), record)
    assert written == []
    assert isinstance(outcome, Wait)
    assert outcome.reason == "EksaVersionInvalid"
    assert 'management cluster "laptop" has no eksaVersion to inherit' in outcome.message
    elsewhere = naming(laptop()) | {"data": {"namespace": "default", "name": "gone"}}
    outcome, written, _ = chosen(*without_release(managementCluster={"name": "gone"}), elsewhere)
    assert written == []
    assert isinstance(outcome, Wait)
    assert outcome.reason == "ManagementClusterRefInvalid"
