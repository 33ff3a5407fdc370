"""Decisions of the plan: made once for each state of a cluster's objects."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from espalier.api.kinds import KubeObject
from espalier.clusters.act.step import decisions_of
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import decisions, plan
from espalier.clusters.plan.plan import Change
from espalier.kube.objects import Object
from tests.support.objects.made_clusters import made, objects


def test_steps_and_report_share_decisions() -> None:
    scope = made(objects=objects())
    assert decisions_of(replace(scope, is_left_alone=True)) is decisions_of(scope)


def test_decisions_are_made_anew_after_a_write() -> None:
    scope = made(objects=objects(), kubernetesVersion="1.36")
    first = decisions_of(scope)
    kinds = [change.resource.kind for change in first.changes(first.control_plane)]
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
    assert any(isinstance(change, Change) for change in other.changes(other.control_plane))


def test_only_what_changed_is_compared_again(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = made(objects=objects())
    compared: list[str] = []

    def change(wanted: KubeObject, live: Object | None) -> Change | None:
        compared.append(wanted.kind)
        return compare(wanted, live)

    compare = plan.change
    monkeypatch.setattr(plan, "change", change)
    first = decisions_of(scope)
    assert first.changes(first.control_plane) == []
    assert len(compared) == len(first.control_plane)
    compared.clear()
    edited = objects()
    control_plane = next(item for item in edited if item["kind"] == "KubeadmControlPlane")
    control_plane["spec"]["replicas"] = 5
    after = decisions_of(scope.with_capi_objects(made(objects=edited).capi_objects))
    [element] = after.changes(after.control_plane)
    assert element.fields == ("spec.replicas",)
    assert after.changes(after.control_plane) == [element]
    assert compared == ["KubeadmControlPlane"]


def test_an_object_that_is_gone_is_compared_again() -> None:
    scope = made(objects=objects())
    first = decisions_of(scope)
    assert first.changes(first.control_plane) == []
    after = decisions_of(scope.with_capi_objects(ClusterAPIObjects()))
    assert len(after.changes(after.control_plane)) == len(after.control_plane)


def test_nothing_is_decided_without_a_render_input() -> None:
    assert decisions.of(replace(made(objects=objects()), render_input=None)) is None
