"""Numbers as somebody may have written them into annotations."""

from __future__ import annotations

import pytest

from espalier.api.gardener.numbers import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("7", 7),
        ("9" * 16, 10**16 - 1),
        ("", None),
        ("x", None),
        (" 7", None),
        ("+7", None),
        ("-1", None),
        ("1.0", None),
        ("1e1", None),
        ("7\n", None),
        ("9" * 17, None),
        ("\N{SUPERSCRIPT TWO}", None),
        ("\N{FULLWIDTH DIGIT SEVEN}", None),
        ("\N{ARABIC-INDIC DIGIT THREE}", None),
        (None, None),
    ],
)
def test_digits_of_ascii_alone_are_a_number(text: str | None, number: int | None) -> None:
    assert whole_number(text) == number
