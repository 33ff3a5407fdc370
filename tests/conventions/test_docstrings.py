"""Docstrings begin with the thing or the verb (docs/style.md)."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "espalier"
QUESTION = re.compile(r'"""(What|Whether)\b.*')


def test_none_begins_as_a_question() -> None:
    found = [
        f"{path.relative_to(SOURCE)}: {match.group()}"
        for path in sorted(SOURCE.rglob("*.py"))
        for match in QUESTION.finditer(path.read_text())
    ]
    assert found == []
