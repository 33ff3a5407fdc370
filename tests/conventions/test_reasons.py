"""Each reason that controllers give has prose: what it means, and whether time helps, is never left open.

Those of clusters and in-place upgrades are constants in `espalier/api/eksa/vocabulary/reasons.py`, those of Gardener's
kinds in `espalier/api/gardener/vocabulary/reasons.py`: there with sections, and a module gives the reasons of its
sections.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

import pytest

from espalier.api.definitions import reference
from espalier.api.definitions.reference import Remedy
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.gardener.vocabulary import condition_types as gardener_conditions
from espalier.api.gardener.vocabulary import operations
from espalier.api.gardener.vocabulary import reasons as of_gardener
from espalier.clusters.design import names
from espalier.runtime.controllers import outcome, reconciler
from espalier.upgrades.group import controller as group_upgrade
from espalier.upgrades.node import containers as node_steps
from espalier.upgrades.node import controller as node_upgrade

SOURCE = Path(__file__).parents[2] / "src" / "espalier"
PACKAGES = ("clusters", "upgrades")
OUTCOMES = {"Wait": 0, "Fault": 0, "_condition": 2, "_unknown": 0, "Condition": 2}
"""Who takes a reason, at which place; by keyword it is called `reason`."""

NOWHERE = 99
OUTCOMES_OF_GARDENER = {
    "Wait": 0,
    "Fault": 0,
    "Overdue": 0,
    "Condition": 2,
    "Need": 1,
    "Verdict": 1,
    "_invalid": 0,
    "_unhealthy": 2,
    "_unknown": 1,
    "_report_wait": 1,
    "not_restorable": 0,
    "is_restorable": 0,
    "OperationFailed": NOWHERE,
    "__init__": NOWHERE,
}
SECTIONS: Mapping[str, tuple[str, ...]] = {
    "etcdbackup": (),
    "shoots": (),
    "shoots/etcd": (of_gardener.ETCD,),
    "shoots/extension": (of_gardener.EXTENSION,),
    "shoots/flow": (of_gardener.TASK,),
    "shoots/garden/controller.py": (of_gardener.SHOOT, of_gardener.SEED, of_gardener.CONTROLLERS),
    "shoots/garden/orphaned_states.py": (of_gardener.STATE,),
    "shoots/garden/readiness.py": (of_gardener.SHOOT,),
    "shoots/garden/roles.py": (of_gardener.CONTROLLERS,),
    "shoots/gardenlet": (of_gardener.CONTROLLERS,),
    "shoots/gardenlet/backups/buckets.py": (of_gardener.BACKUPS,),
    "shoots/gardenlet/destination.py": (of_gardener.TASK,),
    "shoots/gardenlet/reports/health.py": (of_gardener.SHOOT,),
    "shoots/gardenlet/states/known_states.py": (of_gardener.STATE,),
    "shoots/gardenlet/states/other_kinds.py": (of_gardener.STATE,),
    "shoots/gardenlet/reports/remains.py": (of_gardener.SEED,),
    "shoots/gardenlet/reports/reach.py": (of_gardener.SEED, of_gardener.CONTROLLERS),
    "shoots/gardenlet/reconciling/status.py": (of_gardener.SHOOT,),
    "shoots/gardenlet/reconciling/steps.py": (of_gardener.TASK, of_gardener.CONTROLLERS),
    "shoots/gardenlet/tasks": (of_gardener.TASK,),
    "shoots/local_provider": (of_gardener.EXTENSION,),
    "shoots/machine_controller": (of_gardener.MACHINE,),
    "shoots/state": (of_gardener.STATE,),
}
"""The sections in which a package or module of Gardener gives reasons."""
PASSED_ON_TO = {of_gardener.MACHINE: of_gardener.EXTENSION, of_gardener.TASK: of_gardener.SHOOT}
"""Sections with reasons that modules of another one give."""
PASSED_ON_BY_RUNTIME = {"TooManyWrites"}
"""Names of errors below these packages that become reasons."""

CAMEL_CASE = re.compile(r"[A-Z][A-Za-z]*[a-z][A-Za-z]*$")
PASSED_ON = re.compile(
    r"\.reason$|^reason$|^_reason\w*\(|^\*|^type_?$|^_cut\(state\.waiting\.reason\)|step\.doing"
    r"|^in_one_line\(|^str\(error\.refusal\)|^error\.reason|^self\.reason"
)
"""Reasons that were given elsewhere, or are checked below: steps, and functions called `_reason`."""


def modules(*packages: str) -> Iterator[Path]:
    for package in packages:
        yield from sorted((SOURCE / package).rglob("*.py"))


def given(path: Path, outcomes: Mapping[str, int]) -> Iterator[tuple[int, str]]:
    """Line and reason of each that a module gives, or the expression that could not be resolved, in brackets."""
    module = importlib.import_module(".".join(("espalier", *path.relative_to(SOURCE).with_suffix("").parts)))
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            function = _resolved(node.func, module)
            if function in (outcome.outdated, reconciler.replanned):
                yield node.lineno, outcome.PLAN_OUTDATED
        for expression in _expressions(node, outcomes):
            for value in _values(expression, module):
                yield expression.lineno, value


def _expressions(node: ast.AST, outcomes: Mapping[str, int]) -> Iterator[ast.expr]:
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in outcomes and not _is_true(node):
            by_keyword = [keyword.value for keyword in node.keywords if keyword.arg == "reason"]
            starred = any(isinstance(arg, ast.Starred) for arg in node.args)
            place = outcomes[name]
            yield from by_keyword or ([] if starred else node.args[place : place + 1])
    if (
        isinstance(node, ast.FunctionDef)
        and node.name.startswith("_reason")
        and ast.unparse(node.returns or node) == "str"
    ):
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield from _branches(inner.value)
    if isinstance(node, ast.FunctionDef):
        yield from _of_signature(node)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and ast.unparse(target.elts[0]) == "reason":
                yield node.value.elts[0]


def _of_signature(function: ast.FunctionDef) -> Iterator[ast.expr]:
    """Of functions that return a reason and a sentence, and of those that have a default for a reason."""
    if function.returns is not None and ast.unparse(function.returns) == "tuple[str, str]":
        for inner in ast.walk(function):
            if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Tuple):
                first = inner.value.elts[0]
                is_literal = isinstance(first, ast.Constant) and CAMEL_CASE.match(str(first.value))
                if is_literal or (isinstance(first, ast.Attribute) and ast.unparse(first.value).endswith("Reason")):
                    yield first
    arguments = function.args
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        if argument.arg == "reason" and default is not None:
            yield default


def _is_true(call: ast.Call) -> bool:
    """True if a condition that is true is made: it needs no help."""
    statuses = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "status")]
    return any(isinstance(item, ast.Constant) and item.value == "True" for item in statuses)


def _branches(expression: ast.expr) -> Iterator[ast.expr]:
    if isinstance(expression, ast.IfExp):
        yield from _branches(expression.body)
        yield from _branches(expression.orelse)
    elif isinstance(expression, ast.BoolOp):
        for value in expression.values:
            yield from _branches(value)
    else:
        yield expression


def _values(expression: ast.expr, module: ModuleType) -> Iterator[str]:
    for branch in _branches(expression):
        text = ast.unparse(branch)
        if isinstance(branch, ast.Constant):
            if branch.value:
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


@pytest.mark.demand(L31="each reason that no time heals, by one table")
@pytest.mark.parametrize("path", list(modules(*PACKAGES)), ids=lambda path: str(path.relative_to(SOURCE)))
def test_reason_that_is_given_is_constant_with_prose(path: Path) -> None:
    """When this fails: add a constant to `api/eksa/vocabulary/reasons.py`, whose prose says whether time helps."""
    others = {reason: line for line, reason in given(path, OUTCOMES) if not isinstance(reason, Reason)}
    assert others == {}


def sections_of(path: Path) -> tuple[str, ...]:
    """The sections of a module, by its longest beginning."""
    name = path.relative_to(SOURCE).as_posix()
    return SECTIONS[
        max((section for section in SECTIONS if name == section or name.startswith(f"{section}/")), key=len)
    ]


@pytest.mark.parametrize("path", list(modules("shoots", "etcdbackup")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_reason_for_gardener_is_in_its_module_section(path: Path) -> None:
    """When this fails: add a constant to `api/gardener/vocabulary/reasons.py`, for a section that SECTIONS has for
    it."""
    others = {*gardener_conditions.Satisfied, outcome.PLAN_OUTDATED}
    outcomes = OUTCOMES_OF_GARDENER if path.is_relative_to(SOURCE / "shoots") else OUTCOMES
    sections = set(sections_of(path))
    unknown = {
        reason: line
        for line, reason in given(path, outcomes)
        if reason not in others
        and not (isinstance(reason, reference.Reason) and sections.intersection(reason.prose.kinds))
    }
    assert unknown == {}


def test_each_reason_of_the_tables_is_given() -> None:
    """When this fails: nothing gives the reason any longer; remove its row."""
    code = "\n".join(path.read_text() for path in modules("clusters", "upgrades", "providers", "clusterapi", "moving"))
    used = set(re.findall(r"\bReason\.([A-Z_]+)", code))
    failed = {f"{step}Failed" for step in reasons.STEPS}
    assert {item.value for item in Reason if item.name not in used} - failed == PASSED_ON_BY_RUNTIME
    code = "\n".join(path.read_text() for path in (*modules("shoots"), SOURCE / "api/gardener/garden/shoot.py"))
    used = set(re.findall(r"\b([A-Za-z]+Reason\.[A-Z_]+)", code))
    constants = [item for section in of_gardener.SECTIONS for item in section]
    unused = {constant.value for constant in constants if f"{type(constant).__name__}.{constant.name}" not in used}
    assert unused == {outcome.PLAN_OUTDATED}


def test_each_section_has_only_what_its_modules_give() -> None:
    """Or what they pass on, of another section or of the packages below."""
    results: dict[str, set[str]] = {kind: set() for kind in of_gardener.WHERE}
    for path in modules("shoots"):
        for kind in sections_of(path):
            results[kind] |= {reason for _, reason in given(path, OUTCOMES_OF_GARDENER)}
    for kind, name in PASSED_ON_TO.items():
        results[kind] |= results[name]
    told = {kind: {item.name for item in of_gardener.of_section(kind)} for kind in of_gardener.WHERE}
    left = {(kind, name) for kind in told for name in told[kind] - results[kind]}
    assert left == set()


def test_the_test_sees_what_it_should() -> None:
    """It resolves names and attributes, and sees literals and both branches."""
    seen = {reason for path in modules(*PACKAGES) for _, reason in given(path, OUTCOMES)}
    assert {
        "WaitingForKubeconfig",
        Reason.OBJECT_REFUSED,
        Reason.IN_PLACE_UPGRADE_IN_PROGRESS,
        "FieldsNotChangeableInPlace",
        "NodeTaken",
    } <= seen
    assert {"DefaultCNIRefused", "InPlaceUpgradeFailed", "ScalingUp", "NotYetCompared"} <= seen
    assert len(seen) > 60


def test_each_reason_has_one_row_and_a_meaning() -> None:
    assert len(reasons.BY_NAME) == len(reasons.REASONS)
    assert all(CAMEL_CASE.match(reason.name) and reason.meaning for reason in reasons.REASONS)


def test_passing_reason_has_a_limit_or_says_why_not() -> None:
    wrong = [
        reason.name
        for reason in reasons.REASONS
        if ((reason.limit is not None) + bool(reason.unlimited)) != (reason.remedy is Remedy.TIME)
    ]
    assert wrong == []


def test_reason_for_gardener_has_one_row_in_a_section() -> None:
    rows = [(reason.name, kind) for reason in of_gardener.REASONS for kind in reason.kinds]
    assert len(set(rows)) == len(rows)
    assert {kind for _, kind in rows} == of_gardener.WHERE.keys()
    assert all(CAMEL_CASE.match(reason.name) and reason.meaning for reason in of_gardener.REASONS)


def test_each_code_of_gardeners_errors_has_a_meaning() -> None:
    assert set(of_gardener.ERROR_CODES) == set(operations.ErrorCode)


def test_table_agrees_with_what_is_read_back_as_state() -> None:
    needing = {reason.name for reason in reasons.REASONS if reason.remedy in (Remedy.PERSON, Remedy.CHANGE)}
    assert not needing & group_upgrade.UNDER_WAY
    assert node_upgrade.QUIET | group_upgrade.UNDER_WAY | {Reason.PAUSED} <= reasons.BY_NAME.keys()
    assert set(reasons.STEPS) == node_steps.UNDER_WAY
    assert not needing & (node_steps.UNDER_WAY | node_steps.BEGINNING | node_steps.TRANSIENT)
    assert reasons.waiting_for_people(reasons.CLUSTER) == names.FAILURES


ONE_SUFFIX = {"NotFound": "Missing", "BeingDeleted": "Deleting", "CachesNotSynced": "CacheNotSynced"}
"""Pairs of which one is used, so that an alert on it is written once."""
OF_EKS_ANYWHERE = {"BundleNotFoundForCluster"}


def test_reasons_have_one_word_for_one_thing() -> None:
    names_ = {prose.name for prose in (*reasons.REASONS, *of_gardener.REASONS)} - OF_EKS_ANYWHERE
    assert [(name, ONE_SUFFIX[part]) for name in sorted(names_) for part in ONE_SUFFIX if part in name] == []
