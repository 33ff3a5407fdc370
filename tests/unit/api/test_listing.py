"""Lists in messages say how many parts they leave out, in one spelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import espalier
from espalier.api.text.listing import counted, first, merged

SOURCES = Path(espalier.__file__).parent


@pytest.mark.parametrize(
    ("parts", "most", "options", "expected"),
    [
        ([], 3, {}, ""),
        (["a", "b", "c"], 3, {}, "a, b, c"),
        (["a", "b", "c", "d", "e"], 3, {}, "a, b, c and 2 more"),
        (["a", "b"], 1, {"separator": "; "}, "a; and 1 more"),
        (["a", "b"], 1, {"separator": "\n", "of": "rights"}, "a\nand 1 more rights"),
        (["a", "b"], 0, {"of": "objects"}, "2 more objects"),
    ],
)
def test_what_a_list_leaves_out_is_counted(parts: list[str], most: int, options: dict[str, str], expected: str) -> None:
    assert first(parts, most, **options) == expected


_CUT_ELSEWHERE = re.compile(r"""[,;] ?["']\.join\([^()]*\[:\w|len\([^"\n]*\} more\b|", (\.\.\.|…)["'}]""")
"""A list that is cut without the helper: a joined slice, a number of others, or dots instead of the number."""

_OF_KUBERNETES = {"apiserver/builtin/printers.py", "simulator/capi/draining.py"}
"""Columns of Kubernetes' own tables and messages of Cluster API's drains, in their own spelling (`+ 2 more...`)."""


def test_no_list_is_cut_without_saying_how_much() -> None:
    cuts = [
        f"{path.relative_to(SOURCES)}:{at}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        if str(path.relative_to(SOURCES)) not in {"api/text/listing.py", *_OF_KUBERNETES}
        for at, line in enumerate(path.read_text().splitlines(), 1)
        if _CUT_ELSEWHERE.search(line)
    ]
    assert cuts == []


def test_equal_texts_about_objects_become_one() -> None:
    texts = [f"Machine {name}: no key: set it" for name in ("a", "b")] + ["alone", "Machine c: else", "alone"]
    assert merged(texts) == ["Machine a, Machine b: no key: set it", "alone", "Machine c: else"]
    assert merged(f"{name}: no key" for name in "abcdea") == ["a, b, c and 2 more: no key"]


def test_one_thing_has_no_plural() -> None:
    assert [counted(number, "object") for number in (0, 1, 2)] == ["0 objects", "1 object", "2 objects"]
