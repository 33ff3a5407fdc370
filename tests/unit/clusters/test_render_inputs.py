"""Render inputs that are kept from one reconcile to the next."""

from __future__ import annotations

from msgspec.structs import replace

from espalier.api.resource import Key
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.observe.cached.render_inputs import RenderInputs
from tests.support.objects.render_inputs import render_input


def of(name: str, **changed: object) -> RenderInput:
    made = render_input("docker")
    return replace(made, key=Key("default", name), spec=replace(made.spec, **changed))


def test_an_equal_render_input_is_shared() -> None:
    latest = RenderInputs()
    first = latest.shared(of("garden"))
    assert latest.shared(of("garden")) is first


def test_a_changed_render_input_takes_its_place() -> None:
    latest = RenderInputs()
    first = latest.shared(of("garden"))
    changed = of("garden", kubernetes_version="1.36")
    assert latest.shared(changed) is changed
    assert latest.shared(of("garden")) is not first


def test_clusters_share_nothing() -> None:
    latest = RenderInputs()
    assert latest.shared(of("garden")) is not latest.shared(of("meadow"))


def test_the_number_of_render_inputs_is_bounded() -> None:
    latest = RenderInputs(size=2)
    first = latest.shared(of("a"))
    second = latest.shared(of("b"))
    assert latest.shared(of("a")) is first, "the latest of the two now"
    latest.shared(of("c"))
    assert latest.shared(of("a")) is first
    assert latest.shared(of("b")) is not second


def test_a_deleted_cluster_leaves_no_render_input() -> None:
    latest = RenderInputs()
    first = latest.shared(of("garden"))
    latest.forget(first.key)
    assert latest.shared(of("garden")) is not first
