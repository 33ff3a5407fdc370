"""Text that is written as YAML is read back as the same text, whatever it looks like."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from espalier.api.trees import yaml_text
from tests.support.objects.yaml_readers import READERS

AMBIGUOUS = [
    *["1e3", "1234e56", "1E-7", "1.5e3", ".5e3", "8e2026", "0o17", "-0O17", "0_7", "08", "-.5", "+.5", "1_000", "-_1"],
    *["y", "N", "yes", "OFF", "null", "~", "", "=", "<<", "0x1F", "0X1f", "0b11", "-0B11", ".inf", "-.INF", ".NaN"],
    *["12:30:45", "1:30.5", "2026-01-02", "2026-01-02T03:04:05Z", "1.30", "3.0", "1.", ".5", "1e_3", "1_e3", "0x_1F"],
]
PIECES = st.sampled_from([*"0123789.eExXoObB_:-+ynYN~=<", "inf", "nan", "null", "true", "2026-01"])
NUMBERS = st.lists(PIECES, max_size=6).map("".join)
LINES = st.text(st.sampled_from("a \t\n\r#:-é\x85\u2028\ufeff"))
TEXTS = NUMBERS | LINES | st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
OTHER_BREAKS = re.compile("[\x85\u2028\u2029\ufeff]")
"""Line breaks of YAML 1.1 that are none of 1.2, and the mark of byte order."""


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("text", AMBIGUOUS)
def test_text_like_a_number_is_read_as_text(text: str, reader: str) -> None:
    tree = {text: [text]}
    assert READERS[reader](yaml_text.dump(tree)) == tree


@settings(max_examples=300)
@example(text="a\n\u2028b", blocks=True, allow_unicode=True, width=80)
@given(text=TEXTS, blocks=st.booleans(), allow_unicode=st.booleans(), width=st.sampled_from([80, 120, 2**16]))
def test_each_text_is_read_as_the_same_text(text: str, blocks: bool, allow_unicode: bool, width: int) -> None:
    tree = {text: [text, {"a": text}]}
    written = yaml_text.dump(tree, blocks=blocks, allow_unicode=allow_unicode, width=width)
    assert {name: read(written) for name, read in READERS.items()} == dict.fromkeys(READERS, tree)
    assert not OTHER_BREAKS.search(written)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.floats(-1e9, 1e9), st.lists))
def test_numbers_are_read_as_the_same_numbers(value: object) -> None:
    assert READERS["PyYAML"](yaml_text.dump({"a": value})) == {"a": value}


@pytest.mark.parametrize("text", ["v1.35.4", "1.35.4", "10.96.0.0/12", "08:00:27:aa:bb:cc", "1a2b3c", "e3", "_", "a_1"])
def test_plain_text_is_not_quoted(text: str) -> None:
    assert yaml_text.dump({"a": text}) == f"a: {text}\n"


def test_a_shared_value_is_written_twice() -> None:
    shared = ["x"]
    assert yaml_text.dump({"a": shared, "b": shared}) == "a:\n- x\nb:\n- x\n"
