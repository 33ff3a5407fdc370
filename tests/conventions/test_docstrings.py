"""Docstrings begin with the thing or the verb (docs/style.md)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUESTION = re.compile(r'"""(What|Whether)\b.*')


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_none_begins_as_a_question(folder: str) -> None:
    results = [
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for match in QUESTION.finditer(path.read_text())
    ]
    assert results == []
