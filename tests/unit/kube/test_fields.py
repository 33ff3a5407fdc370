"""Sets of fields obey the laws of sets, and FieldsV1 says exactly one of them."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube import fields
from espalier.kube.fields import FieldSet

ELEMENTS = st.sampled_from(["f:a", "f:b", "f:spec", 'k:{"name":"x"}', 'k:{"name":"y"}', 'v:"x"', "v:1", "i:0"])
PATHS = st.frozensets(st.lists(ELEMENTS, min_size=1, max_size=4).map(tuple), max_size=12)


def set_of(paths: frozenset[tuple[str, ...]]) -> FieldSet:
    result: FieldSet = {}
    for path in paths:
        below: FieldSet = {}
        for element in reversed(path):
            below = {element: below}
        result = fields.union(result, below)
    return result


def paths_of(names: FieldSet) -> frozenset[tuple[str, ...]]:
    return frozenset(fields.paths(names))


@given(PATHS)
def test_a_set_holds_the_paths_it_was_made_of(paths: frozenset[tuple[str, ...]]) -> None:
    names = set_of(paths)
    assert paths_of(names) == paths
    assert bool(names) == bool(paths)


@given(PATHS)
def test_serializing_and_parsing_give_the_same(paths: frozenset[tuple[str, ...]]) -> None:
    raw = fields.serialize(set_of(paths))
    assert paths_of(fields.parse(raw)) == paths
    assert fields.serialize(fields.parse(raw)) == raw
    assert fields.parse(json.loads(raw)) == fields.parse(raw)


@given(PATHS, PATHS)
def test_the_algebra_is_that_of_sets(first: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> None:
    a, b = set_of(first), set_of(other)
    assert paths_of(fields.union(a, b)) == first | other
    assert paths_of(fields.intersection(a, b)) == first & other
    assert paths_of(fields.difference(a, b)) == first - other
    assert (a, b) == (set_of(first), set_of(other)), "arguments stay as they are"


@given(PATHS, PATHS)
def test_equal_sets_are_equal_values(first: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> None:
    united = fields.union(set_of(first), set_of(other))
    assert united == fields.union(set_of(other), set_of(first))
    assert fields.union(fields.difference(united, set_of(other)), fields.intersection(united, set_of(other))) == united


@given(PATHS, PATHS)
def test_fields_below_go_with_it(first: frozenset[tuple[str, ...]], other: frozenset[tuple[str, ...]]) -> None:
    left = {path for path in first if not any(path[: len(gone)] == gone for gone in other)}
    assert paths_of(fields.without_below(set_of(first), set_of(other))) == left


def test_keys_are_read_in_any_form() -> None:
    loose = b'{"f:ports":{"k:{\\"protocol\\": \\"TCP\\", \\"port\\":80}":{".":{},"f:port":{}}}}'
    assert fields.serialize(fields.parse(loose)) == (
        b'{"f:ports":{"k:{\\"port\\":80,\\"protocol\\":\\"TCP\\"}":{".":{},"f:port":{}}}}'
    )


@pytest.mark.parametrize("wrong", [b"[]", b"no", b'{"x:a":{}}', b'{"f:a":1}', b'{"k:nope":{}}'])
def test_an_invalid_set_is_refused(wrong: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        fields.parse(wrong)


def test_invalid_managed_fields_are_left_out() -> None:
    entries = b'[{"manager":"a","operation":"Apply"},{"manager":1},3]'
    assert [(entry.manager, encoded) for entry, encoded in fields.entries(entries)] == [
        ("a", b'{"manager":"a","operation":"Apply"}')
    ]


def test_set_owns_fields_and_their_parents() -> None:
    owned: FieldSet = {"f:spec": {"f:endpoint": {"f:host": {}}, "f:count": {}}}
    assert fields.owns(owned, "spec", "count")
    assert fields.owns(owned, "spec", "endpoint")
    assert not fields.owns(owned, "spec", "count", "inner")
    assert not fields.owns(owned, "status")
    assert not fields.owns({}, "spec")
