"""docs/proposals.md names tests that are there, and each demand once."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = re.findall(r"^\| ([A-Z][0-9]+) \| .* \| (.*) \|$", (ROOT / "docs" / "proposals.md").read_text(), re.MULTILINE)

WITHOUT_A_TEST = ("not yet", "not built", "out of scope", "nothing to show", "`docs/", "`CHANGELOG.md`")


@cache
def functions_of(path: str) -> dict[str, bool]:
    """The functions of a file; True for one of which `make test` runs at least a variant."""
    tree = ast.parse((ROOT / path).read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        node.name: all(ast.unparse(decorator) != "pytest.mark.soak" for decorator in node.decorator_list)
        for node in functions
    }


def test_every_demand_stands_once_with_tests_that_there_are_or_not_yet() -> None:
    assert ROWS
    demands = [demand for demand, _ in ROWS]
    assert len(set(demands)) == len(demands)
    for demand, shown in ROWS:
        named = re.findall(r"`(tests/[^`:]+)::(test_[^`]+)`", shown)
        assert named or any(reason in shown for reason in WITHOUT_A_TEST), demand
        for path, name in named:
            assert name in functions_of(path), f"{demand}: {path}::{name}"
        assert not named or any(functions_of(path)[name] for path, name in named), f"{demand}: `make test` shows it not"


def test_the_demands_of_all_five_proposals_are_there() -> None:
    last = {"L": 72, "V": 32, "I": 37, "U": 76, "G": 82}
    demanded = {f"{letter}{number}" for letter, end in last.items() for number in range(1, end + 1)}
    assert demanded <= {demand for demand, _ in ROWS}
