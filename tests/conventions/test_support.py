"""Helpers of tests stand in tests/support and need no module of tests."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
OF_TESTS = re.compile(r"^\s*(?:from|import) (tests\.(?!support\b)[\w.]+)", re.MULTILINE)


def test_support_imports_nothing_from_folders_of_tests() -> None:
    found = [
        f"{path.relative_to(TESTS)}: {module}"
        for path in sorted((TESTS / "support").rglob("*.py"))
        for module in OF_TESTS.findall(path.read_text())
    ]
    assert found == []
