"""A table of what plain scalars mean; that kubectl agrees is seen in tests/envtest/test_yaml_of_kubectl.py."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.trees.scalars import Scalar, resolve

MEANINGS: dict[str, Scalar] = {
    "y": True,
    "Yes": True,
    "on": True,
    "TRUE": True,
    "n": False,
    "No": False,
    "off": False,
    "~": None,
    "": None,
    "Null": None,
    "yEs": "yEs",
    "tRUE": "tRUE",
    "12:30:45": "12:30:45",
    "52:54:00:12:34:56": "52:54:00:12:34:56",
    "2026-01-02": "2026-01-02",
    "2026-01-02T03:04:05Z": "2026-01-02T03:04:05Z",
    "1e3": 1000,
    "1.30": 1.3,
    "3.0": 3,
    "1.": 1,
    ".5": 0.5,
    "1e-7": 1e-7,
    "1e21": 1e21,
    "0x1F": 31,
    "0x_1F": 31,
    "0o17": 15,
    "017": 15,
    "0_7": 7,
    "08": 8,
    "1_000": 1000,
    "+12": 12,
    "-_1": -1,
    "-0b11": -3,
    "0b12": "0b12",
    "_1": "_1",
    "v1.35.4": "v1.35.4",
    "1.35.4": "1.35.4",
    "10.96.0.0/12": "10.96.0.0/12",
    "8e2026": "8e2026",
    "-": "-",
    ".": ".",
}


@pytest.mark.parametrize(("text", "meaning"), MEANINGS.items())
def test_a_plain_scalar_means_what_it_means_to_kubectl(text: str, meaning: Scalar) -> None:
    value = resolve(text)
    assert (type(value), value) == (type(meaning), meaning)


@pytest.mark.parametrize("text", [".inf", "-.INF", ".NaN"])
def test_numbers_that_json_cannot_say_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="quotes"):
        resolve(text)


@given(st.integers() | st.booleans() | st.none() | st.floats(allow_nan=False, allow_infinity=False))
def test_json_scalars_keep_their_value(value: float | None) -> None:
    assert resolve(json.dumps(value)) == value
