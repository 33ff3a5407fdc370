"""Each reason that controllers give is in the table: whether time helps is never left open."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from espalier.api.eksa import reasons
from espalier.api.reference import Helps
from espalier.clusters import in_place, names, synced
from espalier.upgrades import names as upgrade_names
from espalier.upgrades.group import controller as group_upgrade
from espalier.upgrades.node import containers as node_steps
from espalier.upgrades.node import controller as node_upgrade

SOURCE = Path(__file__).parents[2] / "src" / "espalier"
PACKAGES = ("clusters", "upgrades")
OUTCOMES = {"Wait": 0, "Fault": 0, "_condition": 2, "_unknown": 0, "Condition": 2}
"""Who takes a reason, at which place; by keyword it is called `reason`."""
CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z]+[a-z]*)*$")
PASSED_ON = re.compile(r"\.reason$|^reason$|^_reason\w*\(|^\*|^type_?$|^_cut\(state\.waiting\.reason\) or|step\.doing")
"""Reasons that were given elsewhere, or are checked below: steps, and functions called `_reason`."""


def modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((SOURCE / package).rglob("*.py"))


def given(path: Path) -> Iterator[tuple[int, str]]:
    """Line and reason of each that a module gives, or the expression that could not be resolved, in brackets."""
    module = importlib.import_module(".".join(("espalier", *path.relative_to(SOURCE).with_suffix("").parts)))
    for node in ast.walk(ast.parse(path.read_text())):
        for expression in _expressions(node):
            for value in _values(expression, module):
                yield expression.lineno, value


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in OUTCOMES and not _is_true(node):
            by_keyword = [one.value for one in node.keywords if one.arg == "reason"]
            starred = any(isinstance(one, ast.Starred) for one in node.args)
            place = OUTCOMES[name]
            yield from by_keyword or ([] if starred else node.args[place : place + 1])
    if (
        isinstance(node, ast.FunctionDef)
        and node.name.startswith("_reason")
        and ast.unparse(node.returns or node) == "str"
    ):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _branches(inner.value)


def _is_true(call: ast.Call) -> bool:
    """True if a condition that is true is made: it needs no help."""
    said = [*call.args, *(one.value for one in call.keywords if one.arg == "status")]
    return any(isinstance(one, ast.Constant) and one.value == "True" for one in said)


def _branches(expression: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expression, ast.IfExp):
        yield from _branches(expression.body)
        yield from _branches(expression.orelse)
    else:
        yield expression


def _values(expression: ast.expr, module: ModuleType) -> Iterator[str]:
    for branch in _branches(expression):
        text = ast.unparse(branch)
        if isinstance(branch, ast.Constant):
            yield str(branch.value)
        elif isinstance(branch, ast.Name | ast.Attribute) and not PASSED_ON.search(text):
            value = _resolved(branch, module)
            yield value if isinstance(value, str) else f"<{text}>"
        elif not PASSED_ON.search(text):
            yield f"<{text}>"


def _resolved(expression: ast.Name | ast.Attribute, module: object) -> object:
    if isinstance(expression, ast.Name):
        return getattr(module, expression.id, None)
    if isinstance(expression.value, ast.Name | ast.Attribute):
        return getattr(_resolved(expression.value, module), expression.attr, None)
    return None


@pytest.mark.parametrize("path", list(modules()), ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_reason_that_is_given_is_in_the_table(path: Path) -> None:
    """When this fails: add a row to `espalier/api/eksa/reasons.py`, which says whether time helps."""
    unknown = {reason: line for line, reason in given(path) if reason not in reasons.BY_NAME}
    assert unknown == {}


def test_the_test_sees_what_it_should() -> None:
    """It resolves names and attributes, and sees literals and both branches."""
    seen = {reason for path in modules() for _, reason in given(path)}
    assert {"WaitingForKubeconfig", names.OBJECT_REFUSED, in_place.UPGRADING, "Refused", "NodeTaken"} <= seen
    assert {"DefaultCNIRefused", "InPlaceUpgradeFailed", "ScalingUp", "NotYetCompared"} <= seen
    assert len(seen) > 60


def test_each_reason_has_one_row_and_a_meaning() -> None:
    assert len(reasons.BY_NAME) == len(reasons.REASONS)
    assert all(CAMEL_CASE.match(one.name) and one.meaning for one in reasons.REASONS)


def test_the_table_agrees_with_what_is_read_back_as_state() -> None:
    needing = {one.name for one in reasons.REASONS if one.helps is not Helps.TIME}
    assert not needing & group_upgrade.UNDER_WAY
    assert node_upgrade.QUIET | group_upgrade.UNDER_WAY | {upgrade_names.PAUSED} <= reasons.BY_NAME.keys()
    assert set(reasons.STEPS) == node_steps.UNDER_WAY
    assert not needing & (node_steps.UNDER_WAY | node_steps.BEGINNING | node_steps.PASSING)
    assert reasons.waiting_for_people(reasons.CLUSTER) == names.FAILURES
    assert {synced.AS_RENDERED} & reasons.BY_NAME.keys() == set()
