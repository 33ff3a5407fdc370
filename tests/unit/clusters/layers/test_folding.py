"""Folding layers into the base changes no output of any release that is still supported."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import semver
from hypothesis import given
from hypothesis import strategies as st

from espalier.clusters.design.layers import LAYERS, Layer, chosen, folding
from espalier.clusters.design.layers.layer import BASE, Function
from espalier.clusters.design.rendered import Rendered
from tests.support.objects.render_inputs import CASES, text

LATER = semver.Version(0, 28, 0)
"""A manager that supports v0.26 to v0.28: in it the layers of v0.25 are due."""


@pytest.mark.demand("I34")
def test_due_layers_fold_and_leave_supported_clusters() -> None:
    due = folding.due(LAYERS, LATER)
    assert [layer.name for layer in due] == ["tls-min-version", "cni-updates"]
    after = folding.folded(LAYERS, LATER)
    assert [layer.name for layer in after] == [
        "base",
        "half-unhealthy",
        "short-lived-tokens",
        "images-by-digest",
        "cgroup-v1",
        "provider-settings",
        "registry-mirrors",
    ]
    for case in CASES:
        assert text(case, version="v0.26.0", layers=after) == text(case, version="v0.26.0")


def test_unsupported_clusters_would_change() -> None:
    """And the proof that the comparison above can fail."""
    after = folding.folded(LAYERS, LATER)
    assert text("docker", version="v0.24.2", layers=after) != text("docker", version="v0.24.2")


@pytest.mark.parametrize(
    ("newest", "names"),
    [
        ("0.26.0", []),
        ("0.27.9", []),
        ("0.28.0", ["tls-min-version", "cni-updates"]),
        (
            "0.29.0",
            [
                "tls-min-version",
                "cni-updates",
                "half-unhealthy",
                "short-lived-tokens",
                "images-by-digest",
                "cgroup-v1",
                "provider-settings",
                "registry-mirrors",
            ],
        ),
    ],
)
def test_layer_lives_for_skew_window_and_one_minor(newest: str, names: list[str]) -> None:
    assert [layer.name for layer in folding.due(LAYERS, semver.Version.parse(newest))] == names


def test_folding_twice_is_folding_once() -> None:
    once = folding.folded(LAYERS, LATER)
    assert folding.folded(once, LATER) == once


VERSIONS = st.builds(semver.Version, st.just(0), st.integers(0, 5), st.integers(0, 3))


def function(number: int) -> Function:
    def same(rendered: Rendered) -> Rendered:
        return rendered

    same.__name__ = f"function_{number}"
    return same


@st.composite
def tables(draw: st.DrawFn) -> list[Layer]:
    made = [
        Layer(f"layer-{number}", version, "", functions=(function(number),), is_patch=draw(st.booleans()))
        for number, version in enumerate(sorted(draw(st.lists(VERSIONS, max_size=6))))
        if version > BASE
    ]
    return [Layer("base", BASE, ""), *made]


@pytest.mark.demand("I34")
@given(tables(), VERSIONS, VERSIONS, st.data())
def test_no_table_changes_a_supported_cluster(
    table: list[Layer], newest: semver.Version, version: semver.Version, data: st.DataObject
) -> None:
    consents = data.draw(st.sets(st.sampled_from([layer.name for layer in table])))

    def applied(layers: tuple[Layer, ...] | list[Layer]) -> list[Callable[[Rendered], Rendered]]:
        return [item for layer in chosen(layers, version, consents) for item in layer.functions]

    is_supported = version.major == newest.major and newest.minor - folding.WINDOW <= version.minor
    if is_supported and version <= newest:
        assert applied(folding.folded(table, newest)) == applied(table)


def test_routine_tells_what_is_due_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert folding.main(["v0.27.0"]) == 0
    assert folding.main(["v0.28.1"]) == 1
    assert folding.main(["soon"]) == 2
    output = capsys.readouterr()
    assert "v0.27.0: no layer is due" in output.out
    assert "layers to fold: tls-min-version (v0.25.0), cni-updates (v0.25.1)" in output.out
    assert (
        "parts of the base then: tls_min_version.set_tls_min_version, cni_updates.roll_a_tenth_at_a_time" in output.out
    )
    assert "found soon, expected a release like v0.27.0" in output.err
