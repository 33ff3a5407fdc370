"""Helpers of tests stand in tests/support: they need no module of tests, and no module of tests needs another."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
OF_TESTS = re.compile(r"^\s*(?:from|import) (tests\.(?!support\b)[\w.]+)", re.MULTILINE)
OF_A_TEST = re.compile(r"^\s*(?:from (tests[\w.]*\.test_\w+) import|import (tests[\w.]*\.test_\w+)\b)", re.MULTILINE)
AS_A_MODULE = re.compile(r"^\s*from (tests[\w.]*) import (?:\([^)#]*|[^(#\n]*)\b(test_\w+)", re.MULTILINE)


def test_support_imports_nothing_from_folders_of_tests() -> None:
    results = [
        f"{path.relative_to(TESTS)}: {module}"
        for path in sorted((TESTS / "support").rglob("*.py"))
        for module in OF_TESTS.findall(path.read_text())
    ]
    assert results == []


def test_no_module_imports_a_module_of_tests() -> None:
    results = [
        f"{path.relative_to(TESTS)}: {'.'.join(filter(None, module))}"
        for path in sorted(TESTS.rglob("*.py"))
        for pattern in (OF_A_TEST, AS_A_MODULE)
        for module in pattern.findall(path.read_text())
    ]
    assert results == []
