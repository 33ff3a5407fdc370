"""Decisions of the plan: made once for each state of a cluster's objects."""

from __future__ import annotations

from msgspec.structs import replace

from espalier.clusters.act.step import decisions_of
from espalier.clusters.plan import decisions
from espalier.clusters.plan.plan import Change
from tests.support.objects.made_clusters import made, objects


def test_steps_and_report_share_decisions() -> None:
    scope = made(objects=objects())
    assert decisions_of(replace(scope, is_left_alone=True)) is decisions_of(scope)


def test_decisions_are_made_anew_after_a_write() -> None:
    scope = made(objects=objects(), kubernetesVersion="1.36")
    first = decisions_of(scope)
    kinds = [one.resource.kind for one in first.changes(first.control_plane)]
    assert kinds == ["DockerMachineTemplate", "KubeadmControlPlane"]
    written = made(objects=objects(version="1.36"), kubernetesVersion="1.36").capi_objects
    after = decisions_of(scope.with_capi_objects(written))
    assert after.changes(after.control_plane) == []
    assert first.changes(first.control_plane), "they are those of the state before"


def test_decisions_are_those_of_the_render_input() -> None:
    scope = made(objects=objects())
    changed = made(objects=objects(), kubernetesVersion="1.36")
    assert decisions_of(scope).changes(decisions_of(scope).control_plane) == []
    other = decisions_of(replace(scope, render_input=changed.render_input))
    assert any(isinstance(one, Change) for one in other.changes(other.control_plane))


def test_nothing_is_decided_without_a_render_input() -> None:
    assert decisions.of(replace(made(objects=objects()), render_input=None)) is None
