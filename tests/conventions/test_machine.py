"""The machine is no input of tests: its disk, locale, time zone, terminal and proxies."""

from __future__ import annotations

import ast
from pathlib import Path

TESTS = Path(__file__).parents[1]
FILES = sorted(TESTS.rglob("test_*.py"))


def given_with_folders(source: str) -> list[str]:
    """Properties whose examples each leave a folder until the end of the run."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and any(ast.unparse(one).startswith("given(") for one in node.decorator_list)
        and any(one.arg.startswith("tmp_path") for one in node.args.args)
    ]


def test_examples_of_properties_leave_no_folders() -> None:
    """Thousands of them would be kept. They use `tempfile.TemporaryDirectory`."""
    left = {file.name: names for file in FILES if (names := given_with_folders(file.read_text()))}
    assert left == {}


def test_a_property_with_a_folder_is_found() -> None:
    source = "@given(st.integers())\ndef test_it(number: int, tmp_path_factory: object) -> None: ...\n"
    assert given_with_folders(source) == ["test_it"]
