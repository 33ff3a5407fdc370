"""The release that a Cluster gets which names none: once, and never over what somebody names meanwhile."""

from __future__ import annotations

from typing import Any

from espalier.api.meta import Tree
from espalier.clusters.passing import Pass
from espalier.clusters.steps import choose_release
from espalier.clusters.validity import problem
from espalier.runtime.outcome import Continue, Outcome, Wait
from tests.unit.clusters.made import objects
from tests.unit.clusters.passes import step
from tests.unit.clusters.seen import example


def chosen(*trees: Tree) -> tuple[Outcome, list[Tree], Pass]:
    """How the step ends among these objects, what it writes, and its pass."""
    return step(choose_release, trees)


def without_release(**spec: Any) -> list[Tree]:
    trees = example(**spec)
    del trees[0]["spec"]["eksaVersion"]
    return trees


def test_a_new_cluster_gets_that_of_its_management_cluster_unless_somebody_was_faster() -> None:
    trees = without_release()
    outcome, written, _ = chosen(*trees)
    assert isinstance(outcome, Wait)
    assert outcome.reason == "ReleaseChosen"
    (patch,) = written
    assert patch["spec"] == {"eksaVersion": "v0.26.0"}
    seen = trees[0]["metadata"]
    assert patch["metadata"] == {"uid": seen["uid"], "resourceVersion": seen["resourceVersion"]}


def test_a_cluster_that_has_machines_never_gets_one() -> None:
    """Somebody took its release away: which one it had is not known here, and another would roll its machines."""
    outcome, written, p = chosen(*without_release(), *objects())
    assert outcome == Continue()
    assert written == []
    found = problem(p.scope)
    assert found is not None
    assert found.reason == "EksaVersionInvalid"
    assert "name the release" in found.message
