"""A live object holds what was rendered, whatever an API server adds to it; and nothing else counts as held."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.shoots.gardenlet.comparison import holds

values = st.recursive(
    st.none() | st.integers(2, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


def with_defaults(wanted: Any) -> Any:
    """As an API server stores it: each map has a field more."""
    if isinstance(wanted, dict):
        return {**{name: with_defaults(inner) for name, inner in wanted.items()}, "default": 1}
    if isinstance(wanted, list):
        return [with_defaults(inner) for inner in wanted]
    return wanted


@given(values)
def test_defaults_change_nothing(wanted: Any) -> None:
    assert holds(wanted, wanted)
    assert holds(with_defaults(wanted), wanted)


@given(values, values)
def test_object_holds_another_if_it_only_adds_fields(live: Any, wanted: Any) -> None:
    def without_others(live: Any, wanted: Any) -> Any:
        if isinstance(live, dict) and isinstance(wanted, dict):
            return {name: without_others(live[name], wanted[name]) for name in live if name in wanted}
        if isinstance(live, list) and isinstance(wanted, list) and len(live) == len(wanted):
            return [without_others(item, other) for item, other in zip(live, wanted, strict=True)]
        return live

    assert holds(live, wanted) == (without_others(live, wanted) == wanted)


@pytest.mark.parametrize(
    ("live", "wanted"),
    [({}, {"a": None}), ({"a": [1, 2]}, {"a": [1]}), ({"a": [{"b": 1}]}, {"a": [{"b": 2}]}), ("a", {}), ({}, [])],
)
def test_less_or_other_is_not_held(live: Any, wanted: Any) -> None:
    assert not holds(live, wanted)
