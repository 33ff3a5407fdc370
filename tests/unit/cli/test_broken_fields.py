"""Whatever is written into a field, a manifest is refused or taken: one fault is one error, in words."""

from __future__ import annotations

import copy
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from espalier.api.meta import Tree
from espalier.api.text.violations import ManifestError, Problem
from espalier.cli.clusters.manifests import documents, examination
from tests.support.providers.every_provider import KINDS, SAMPLES

VALUES = (
    {"a": 1},
    ["a"],
    7,
    -1,
    "",
    None,
    "x" * 5000,
    "no-such-word",
    "a b;c\td",
    "ssh-rsa garbage",
    "10 Gi",
)
"""Of a wrong type, empty, too long, unknown, or of a wrong form."""

WITH_USERS = [kind for kind in KINDS if any(tree["spec"].get("users") for tree in SAMPLES[kind].trees())]
_REGULAR_EXPRESSION = re.compile(r"[\\^]|\[[A-Za-z0-9]-|[.][*]|\(\?|regex|matches ")
_FEW, _MANY = 4, 150
"""Cases of each provider in every run, and in `make soak`: all would take ten minutes for each."""

Path_ = tuple[str | int, ...]
Case = tuple[int, Path_, Any]
"""The place of an object, a path in it, and a value."""


def _fields(part: Any, path: Path_) -> Iterator[Path_]:
    """All fields of a part that are set, and the part itself."""
    yield path
    entries: Iterator[tuple[Any, Any]] = iter(())
    if isinstance(part, dict):
        entries = iter(part.items())
    elif isinstance(part, list):
        entries = iter(enumerate(part))
    for step, value in entries:
        yield from _fields(value, (*path, step))


def _cases(trees: Sequence[Tree]) -> list[Case]:
    return [
        (place, path, value)
        for place, tree in enumerate(trees)
        for path in (*_fields(tree.get("spec"), ("spec",)), *(("metadata", name) for name in ("name", "namespace")))
        for value in VALUES
    ]


def _with(trees: Sequence[Tree], case: Case) -> list[Tree]:
    place, path, value = case
    changed = copy.deepcopy(list(trees))
    at: Any = changed[place]
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = copy.deepcopy(value)
    return changed


def _judged(trees: Sequence[Tree], folder: Path) -> tuple[Sequence[Problem], list[str]]:
    """Problems and warnings of a manifest."""
    file = folder / "manifest.yaml"
    file.write_text(yaml.safe_dump_all(trees))
    try:
        parsed, problems, _ = documents.examined([str(file)], several=True)
        result = examination.alone(parsed, problems, None, "team-a")
    except ManifestError as error:
        return error.problems, []
    assert not [text for text in result.warnings if documents.is_about_refused(parsed, text, result.problems)]
    return result.problems, result.warnings


def _check(provider: str, cases: Sequence[Case], folder: Path) -> None:
    trees = SAMPLES[provider].trees()
    problems, _ = _judged(trees, folder)
    assert problems == []
    for case in cases:
        problems, warnings = _judged(_with(trees, case), folder)
        fields = Counter((problem.line, problem.violation.field) for problem in problems)
        assert [field for field, number in fields.items() if number > 1] == [], (case, problems)
        texts = [*(problem.violation.message + problem.violation.allowed for problem in problems), *warnings]
        assert [text for text in texts if _REGULAR_EXPRESSION.search(text)] == [], case


@pytest.mark.parametrize("provider", KINDS)
def test_a_broken_field_is_one_error_in_words(provider: str, tmp_path: Path) -> None:
    cases = _cases(SAMPLES[provider].trees())
    _check(provider, random.Random(provider).sample(cases, _FEW), tmp_path)


@pytest.mark.soak
@pytest.mark.parametrize("provider", KINDS)
def test_many_broken_fields_are_one_error_each(provider: str, tmp_path: Path) -> None:
    cases = _cases(SAMPLES[provider].trees())
    _check(provider, random.Random(f"{provider} at length").sample(cases, _MANY), tmp_path)


@pytest.mark.parametrize("provider", WITH_USERS)
def test_a_wrong_key_is_refused_and_not_warned_of(provider: str, tmp_path: Path) -> None:
    """A warning that nobody can log in beside the refusal would tell it twice."""
    trees = SAMPLES[provider].trees()
    for tree in trees:
        for user in tree["spec"].get("users") or []:
            user["sshAuthorizedKeys"] = ["ssh-rsa garbage"]
    problems, warnings = _judged(trees, tmp_path)
    assert {problem.violation.field for problem in problems} == {"spec.users[0].sshAuthorizedKeys"}
    assert [text for text in warnings if "log in" in text] == []
