"""Merge patches: what they lead to, and that none is made where nothing differs."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.merge_patch import difference

NAMES = st.sampled_from("abc")
LEAVES = st.one_of(st.integers(0, 2), st.text("xy", max_size=1), st.booleans(), st.lists(st.integers(0, 1), max_size=2))
TREES: st.SearchStrategy[dict[str, Any]] = st.recursive(
    st.dictionaries(NAMES, LEAVES, max_size=3), lambda inner: st.dictionaries(NAMES, LEAVES | inner, max_size=3)
)


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, as it is written there."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@given(TREES, TREES)
def test_difference_leads_exactly_to_the_target(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    patch = difference(current, wanted, exact=True)
    assert merged(current, patch) == wanted
    assert difference(merged(current, patch), wanted, exact=True) == {}


@given(TREES, TREES)
def test_difference_touches_nothing_that_was_not_named(current: dict[str, Any], wanted: dict[str, Any]) -> None:
    result = merged(current, difference(current, wanted))
    assert difference(result, wanted) == {}
    assert {name: result[name] for name in current if name not in wanted} == {
        name: value for name, value in current.items() if name not in wanted
    }


def test_none_removes_field_and_only_one_that_is_there() -> None:
    assert difference({"a": 1, "b": {"c": 2}}, {"a": None, "b": {"c": None}}) == {"a": None, "b": {"c": None}}
    assert difference({}, {"a": None}) == {}


def test_null_fields_within_lists_are_no_difference() -> None:
    wanted = {"a": [{"b": None, "c": [{"d": None}]}, None]}
    patch = difference({}, wanted)
    assert patch == {"a": [{"c": [{}]}, None]}
    assert difference(patch, wanted) == {}
