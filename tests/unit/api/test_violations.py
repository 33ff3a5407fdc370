"""Violations as sentences: what was found stands in them, in one line, never at full length, and without power."""

from __future__ import annotations

import string

from hypothesis import given
from hypothesis import strategies as st

from espalier.api.text import redaction
from espalier.api.text.printable import printable, quoted
from espalier.api.text.violations import Violation

MILLION = "x" * 1_000_000
TEXTS = st.text(alphabet=[*string.printable, "\x1b", "\x9b", "\u202e", "…", "é"], max_size=600)


@given(TEXTS, TEXTS, TEXTS, TEXTS)
def test_sentence_is_one_line_of_printable_characters(field: str, value: str, allowed: str, message: str) -> None:
    text = str(Violation(field, value, allowed, message))
    assert printable(text) == text
    assert "\n" not in text


def test_values_of_a_megabyte_are_not_quoted_whole() -> None:
    text = str(Violation(f"spec.labels[{MILLION}]", MILLION, MILLION, f'"{MILLION}" does not exist'))
    assert len(text) < 4000
    assert "found xxx" in text
    assert "… (1000000 characters)" in text


def test_cut_quotation_shows_no_part_of_a_secret() -> None:
    secret = "c4n4ry-" * 100
    sentence = Violation("spec.proxyConfiguration.httpProxy", f"proxy {secret}", "", "not an address").sentence
    assert "c4n4ry" in sentence
    assert "c4n4ry" not in redaction.concealed(sentence, {secret, "another-secret"})
    assert redaction.concealed(quoted(f"{'a' * 300} c4n4ry-", 200), {secret}).startswith("aaa")
