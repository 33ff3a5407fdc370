"""Names are the field's nouns: a reader of `found` or `one` must look up what it holds, of `Step` which one it is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "espalier"
BANNED = frozenset({"found", "kept", "one", "rivals", "said", "strangers", "whole"})
VIOLATIONS = {
    ("api/eksa/parts/fields.py", "found"),
    ("api/kinds.py", "found"),
    ("api/text/violations.py", "found"),
    ("providers/tinkerbell/hardware/inventory.py", "found"),
}
"""Violations have the part `found`, also in the JSON of `espalier validate`; what makes them names it the same."""
NOUNS = frozenset({"Context", "Observer", "Report", "Step", "Tools"})
"""Each names one thing; others are qualified, as `ClusterContext`."""


def bound(tree: ast.AST) -> Iterator[str]:
    """The names that a module, its classes and functions bind."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.alias(asname=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                yield name


def banned(tree: ast.AST) -> set[str]:
    return {name for name in bound(tree) if name.strip("_").lower() in BANNED}


def defined(tree: ast.Module) -> Iterator[str]:
    """The names of classes and of what is assigned to, as aliases of types, at the top of a module."""
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


@cache
def files() -> list[tuple[str, set[str], set[str]]]:
    """Each file with its banned names, and with the nouns that it defines."""
    trees = ((path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text())) for path in SOURCE.rglob("*.py"))
    return sorted((path, banned(tree), {*defined(tree)} & NOUNS) for path, tree in trees)


def test_no_name_of_the_source_is_banned() -> None:
    names = {(path, name) for path, names, _ in files() for name in names}
    assert sorted(names - VIOLATIONS) == []
    assert sorted(VIOLATIONS - names) == []


def test_no_name_of_tests_is_banned() -> None:
    paths = [path for folder in ("tests", "benchmarks", "packaging") for path in (ROOT / folder).rglob("*.py")]
    names = {str(path.relative_to(ROOT)): banned(ast.parse(path.read_text())) for path in paths}
    assert {path: present for path, present in names.items() if present} == {}


@pytest.mark.parametrize("noun", sorted(NOUNS))
def test_frequent_noun_names_one_thing(noun: str) -> None:
    defining = [path for path, _, nouns in files() if noun in nouns]
    assert len(defining) <= 1, defining


@pytest.mark.parametrize(
    "code",
    [
        "found = 1",
        "found: int",
        "(found := 1)",
        "_found = 1",
        "FOUND = 1",
        "self.found = 1",
        "for at, found in {}: pass",
        "[found for found in ()]",
        "with open(path) as found: pass",
        "import os as found",
        "lambda found: 0",
        "def found(): pass",
        "async def found(): pass",
        "class Found: pass",
        "def read(*, found): pass",
        "try: pass\nexcept OSError as found: pass",
        "match 1:\n case [found, *_]: pass",
        "match 1:\n case [*found]: pass",
        "match 1:\n case {**found}: pass",
    ],
)
def test_each_way_to_bind_a_banned_name_is_seen(code: str) -> None:
    assert {name.strip("_").lower() for name in banned(ast.parse(code))} == {"found"}


def test_use_of_a_banned_name_is_no_binding() -> None:
    assert not banned(ast.parse("violation.found + call(found=1) + one"))


@pytest.mark.parametrize("code", ["class Step: pass", "Step = int", "Step: TypeAlias = int"])
def test_each_way_to_define_a_noun_is_seen(code: str) -> None:
    assert [*defined(ast.parse(code))] == ["Step"]


LONGEST = 50
"""Characters of a test's name: a subject and what happens. More is a story, whose place is the docstring."""


def names_of_tests() -> Iterator[tuple[str, str]]:
    """The tests of all folders, with their files."""
    tests = Path(__file__).parents[1]
    for path in sorted(tests.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield str(path.relative_to(tests)), node.name


def test_names_of_tests_are_short() -> None:
    assert [(path, name) for path, name in names_of_tests() if len(name) > LONGEST] == []
