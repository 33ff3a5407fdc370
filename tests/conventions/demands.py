"""`python -m tests.conventions.demands docs/proposals.md` writes that page: demands, and the tests marked with them.

`@pytest.mark.demand("L1", L3="virtual machines")`: the test shows L1, and of L3 the part about virtual machines.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PROPOSALS: Mapping[str, Mapping[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""The proposals by their letters: document, demands, notes, why some have no test (`untested`), and an introduction.

A note stands behind the tests: what they leave out, or the decision or page about it.
"""
_MARK = "pytest.mark.demand"


class Shown(NamedTuple):
    """A test that shows a demand, or a part of it."""

    path: str
    name: str
    part: str
    in_every_run: bool
    """True where `make test` runs at least a variant of it."""


@cache
def marked(root: Path = ROOT) -> Mapping[str, Sequence[Shown]]:
    """The tests that show each demand: those that show all of it first, each by path and line."""
    by_demand: defaultdict[str, list[Shown]] = defaultdict(list)
    for path in sorted((root / "tests").rglob("test_*.py")):
        if f"@{_MARK}(" in (text := path.read_text()):
            for demand, shown in _of_module(ast.parse(text), path.relative_to(root).as_posix()):
                by_demand[demand].append(shown)
    return {demand: sorted(tests, key=lambda test: test.part != "") for demand, tests in by_demand.items()}


def _of_module(tree: ast.Module, path: str) -> Iterator[tuple[str, Shown]]:
    module_marks = [
        ast.unparse(mark)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        for mark in (node.value.elts if isinstance(node.value, ast.List) else (node.value,))
    ]
    for test in tree.body:
        if not isinstance(test, ast.FunctionDef | ast.AsyncFunctionDef) or not test.name.startswith("test_"):
            continue
        marks = {*module_marks, *map(ast.unparse, test.decorator_list)}
        in_every_run = marks.isdisjoint(("pytest.mark.nodes", "pytest.mark.soak"))
        for call in test.decorator_list:
            if isinstance(call, ast.Call) and ast.unparse(call.func) == _MARK:
                parts = {ast.literal_eval(demand): "" for demand in call.args}
                parts |= {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
                for demand, part in parts.items():
                    yield demand, Shown(path, test.name, part, in_every_run)


def page() -> str:
    """The page, as Markdown."""
    return "\n".join(_lines(marked())) + "\n"


def _lines(shown: Mapping[str, Sequence[Shown]]) -> Iterator[str]:
    yield from (
        "# Requirements of the proposals, and the tests that show them",
        "",
        "Each demand has a row: the tests that show it or a part of it, and what they leave out; or why there is none. "
        "`make pages` generates this page from `tests/conventions/demands.toml` and the marks of tests "
        "(`@pytest.mark.demand`).",
    )
    for letter, proposal in PROPOSALS.items():
        yield from ("", f"## {letter}: {proposal['document']}", "")
        if introduction := proposal.get("introduction"):
            yield from (introduction, "")
        yield from ("| id | demand | shown by |", "|---|---|---|")
        reasons = {**proposal["notes"], **proposal["untested"]}
        for demand, text in proposal["demands"].items():
            cells = [*_tests(shown.get(demand, ())), *([reasons[demand]] if demand in reasons else [])]
            yield f"| {demand} | {text} | {'; '.join(cells)} |"


def _tests(shown: Sequence[Shown]) -> Iterator[str]:
    """The tests of a row, those of a part together."""
    by_part: defaultdict[str, list[str]] = defaultdict(list)
    for test in shown:
        by_part[test.part].append(f"`{test.path}::{test.name}`")
    for part, names in by_part.items():
        yield (f"{part}: " if part else "") + ", ".join(names)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
