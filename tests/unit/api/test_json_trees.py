"""JSON of strangers: what is too deep is said to be, by whomever it is decoded, and nothing else is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.trees.json_trees import MOST_LEVELS, TooDeep, decode, decoder, require_flat

values = st.recursive(
    st.none() | st.text() | st.sampled_from(['"[{', "\\", '\\"', "]}", "é"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)


def nested(levels: int, inside: Any = None) -> Any:
    tree = inside
    for level in range(levels):
        tree = [tree] if level % 2 else {"[{": tree}
    return tree


@given(values)
def test_json_up_to_the_allowed_depth_is_decoded(value: Any) -> None:
    text = json.dumps([*nested(60, ["[" * 200, "\\" * 200, '\\"[[' * 99]), value]).encode()
    assert decode(text) == json.loads(text)


@given(values)
def test_one_level_too_many_is_refused(value: Any) -> None:
    require_flat(json.dumps(nested(MOST_LEVELS, "[" * 500)).encode())
    with pytest.raises(TooDeep, match=f"more than {MOST_LEVELS} levels"):
        decode(json.dumps([value, nested(MOST_LEVELS)]).encode())


@pytest.mark.parametrize("levels", [990, 5_000, 1_000_000])
@pytest.mark.parametrize("type_", [Any, msgspec.Raw, dict[str, msgspec.Raw]])
def test_too_deep_json_is_reported_as_such(levels: int, type_: Any) -> None:
    text = b'{"a":' + b"[" * levels + b"]" * levels + b"}"
    with pytest.raises(TooDeep):
        decode(text, type_)
    if levels > 1000:  # how far it follows depends on who asks
        with pytest.raises(TooDeep):
            decoder(type_)(text)


def test_a_part_that_was_left_undecoded_is_a_text_too() -> None:
    part = msgspec.json.decode(b'{"a": {"b": [1]}}', type=dict[str, msgspec.Raw])["a"]
    assert decode(part) == {"b": [1]}
    deep = msgspec.Raw(b"[" * 5000 + b"]" * 5000)
    with pytest.raises(TooDeep):
        decode(deep)
