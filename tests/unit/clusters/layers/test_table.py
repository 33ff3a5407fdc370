"""The layers of this build: each with its own story, in order, and none of them older than it may become."""

from __future__ import annotations

import copy
from itertools import pairwise

import msgspec
import pytest

from espalier.clusters.design import cni
from espalier.clusters.design.layers import LAYERS, cgroup_v1, folding, images_by_digest, registry_mirrors, release
from espalier.clusters.design.render.layered import base, rendered
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import plan
from tests.support.histories.golden_stories import compare_with_golden
from tests.support.objects.render_inputs import (
    CASES,
    DIGESTS,
    MIRRORED,
    OLD_GROUPS,
    RELEASED,
    difference,
    documents,
    render_input,
    text,
)

NAMES = [layer.name for layer in LAYERS]
OWN_CASES = {
    cgroup_v1.LAYER.name: [OLD_GROUPS],
    images_by_digest.LAYER.name: [DIGESTS],
    registry_mirrors.LAYER.name: [MIRRORED],
}
"""Of layers that change nothing of the usual ones."""


@pytest.mark.parametrize("case", CASES)
def test_the_base_layer_has_a_golden_story(case: str) -> None:
    compare_with_golden(f"layers/base-{case}", text(case, layers=LAYERS[:1]))


@pytest.mark.demand("I5", "I31")
@pytest.mark.parametrize("number", range(1, len(LAYERS)), ids=NAMES[1:])
def test_each_layer_has_a_golden_story_of_its_changes(number: int) -> None:
    cases = OWN_CASES.get(NAMES[number], CASES)
    changed = difference(LAYERS[:number], LAYERS[: number + 1], cases)
    assert changed, "a layer that changes nothing is none"
    compare_with_golden(f"layers/{LAYERS[number].name}", changed)


def test_layers_are_ordered_by_release_with_own_names() -> None:
    assert all(item.since <= other.since for item, other in pairwise(LAYERS))
    assert len(set(NAMES)) == len(LAYERS)


def test_every_layer_belongs_to_release_of_this_build() -> None:
    """One of a later release would be nobody's, and would change clusters once that release comes."""
    newest = release(RELEASED[0])
    assert newest is not None
    assert all(layer.since <= newest for layer in LAYERS)


@pytest.mark.demand("I34")
def test_no_layer_is_older_than_its_lifetime() -> None:
    """When this fails: `python -m espalier.clusters.design.layers.folding` says what to fold."""
    newest = release(RELEASED[0])
    assert newest is not None
    assert folding.due(LAYERS, newest) == ()


@pytest.mark.demand("I31")
@pytest.mark.parametrize("layer", LAYERS, ids=NAMES)
@pytest.mark.parametrize("case", CASES)
def test_a_layer_changes_nothing_of_what_it_is_given(case: str, layer: object) -> None:
    """Or it would change what other clusters get: manifests share parts."""
    chosen = next(item for item in LAYERS if item is layer)
    made = render_input(case, layers=LAYERS[:1])
    before = base(made)
    unchanged = copy.deepcopy(documents(before))
    for function in chosen.functions:
        function(before)
    spec = msgspec.json.encode(made.spec)
    for default in chosen.defaults:
        default(made.spec)
    assert documents(before) == unchanged
    assert msgspec.json.encode(made.spec) == spec
    assert documents(base(made)) == unchanged


@pytest.mark.parametrize("case", CASES)
def test_planned_objects_are_those_of_the_layers(case: str) -> None:
    made = render_input(case)
    planned = [*plan.control_plane(made, ClusterAPIObjects()), *plan.worker_groups(made, ClusterAPIObjects())]
    trees = [*map(msgspec.to_builtins, planned), *(manifest.body for manifest in cni.objects(made))]
    kinds = sorted((tree["kind"], tree["metadata"]["name"], msgspec.json.encode(tree)) for tree in trees)
    wanted = documents(rendered(made))
    assert kinds == sorted((tree["kind"], tree["metadata"]["name"], msgspec.json.encode(tree)) for tree in wanted)
