"""Prints files, functions, parameter lists and names of tests that stick out: a mirror for their authors, not a gate.

With `tests` as argument, each name of a test that is too long.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LINES_OF_A_FILE, LINES_OF_A_FUNCTION, PARAMETERS, LETTERS_OF_A_TEST = 400, 60, 8, 50


def report() -> list[str]:
    rows: list[tuple[int, str]] = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        text, name = path.read_text(), path.relative_to(ROOT)
        if (lines := text.count("\n")) > LINES_OF_A_FILE:
            rows.append((lines, f"{lines:5} lines       {name}"))
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            parameters = len(node.args.args) + len(node.args.kwonlyargs)
            if length > LINES_OF_A_FUNCTION:
                rows.append((length, f"{length:5} lines       {name}:{node.lineno} {node.name}"))
            if parameters > PARAMETERS:
                rows.append((parameters, f"{parameters:5} parameters  {name}:{node.lineno} {node.name}"))
    return [text for _, text in sorted(rows, reverse=True)]


def long_names() -> list[str]:
    """Names of tests, the longest first."""
    rows = [
        (len(node.name), f"{len(node.name):5} letters     {path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    ]
    return [text for length, text in sorted(rows, reverse=True) if length > LETTERS_OF_A_TEST]


if __name__ == "__main__":
    if sys.argv[1:] == ["tests"]:
        print("\n".join(long_names()))
    else:
        print("\n".join(report()) or "nothing sticks out")
        print(f"{len(long_names()):5} names of tests have more than {LETTERS_OF_A_TEST} letters: `sizes.py tests`")
