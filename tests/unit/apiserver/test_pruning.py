"""Unchanged tidy objects need no walk: with and without it, the result is the same."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from espalier.apiserver.fields import patches
from espalier.apiserver.schema.pruning import Pruner
from espalier.kube.server_side_apply.structure import node_of

PART = {"id": {"type": "string"}, "n": {"type": "integer", "default": 1}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "size": {"type": "string", "default": "small"},
        "maybe": {"type": "string", "nullable": True},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"on": {"type": "boolean", "default": True}, "name": {"type": "string"}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "properties": {"id": {"type": "string"}, "n": {"type": "integer", "default": 1}},
            },
        },
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
NODE = node_of(SCHEMA)

SCALARS = st.none() | st.booleans() | st.sampled_from([0, 1, 1.0, "", "a", "small"])
NAMES = st.sampled_from(["size", "maybe", "nested", "map", "parts", "free", "on", "name", "a", "id", "n", "unknown"])
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4), max_leaves=12
)
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=6)


@pytest.mark.soak
@given(OBJECTS, OBJECTS, st.booleans())
def test_passing_by_what_was_tidy_changes_nothing(first: dict[str, Any], patch: dict[str, Any], typed: bool) -> None:
    Pruner(NODE, typed=typed).object(first, NODE)
    # What something is wrong with is not stored.
    assume(Pruner(NODE, typed=typed).__dict__ == looked_at(first, typed=typed).__dict__)
    shared, apart = patches.merge(first, patch), msgspec.json.decode(msgspec.json.encode(patches.merge(first, patch)))
    short, full = Pruner(NODE, typed=typed), Pruner(NODE, typed=typed)
    short.object(shared, NODE, valid=first)
    full.object(apart, NODE)
    assert msgspec.json.encode(shared) == msgspec.json.encode(apart)
    assert short.__dict__ == full.__dict__


def looked_at(tree: dict[str, Any], *, typed: bool) -> Pruner:
    pruner = Pruner(NODE, typed=typed)
    pruner.object(msgspec.json.decode(msgspec.json.encode(tree)), NODE)
    return pruner


def test_unchanged_parts_are_skipped() -> None:
    valid = {"nested": {"on": True, "unknown": 1}}
    pruner = Pruner(NODE, typed=True)
    pruner.object({"size": "a", **valid}, NODE, valid=valid)
    assert pruner.unknown == []
    pruner.object({"size": "a", **valid}, NODE)
    assert pruner.unknown == ["nested.unknown"]
