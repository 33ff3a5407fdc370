"""Which fields the rules of a CRD read: a rule about a field that is wrong itself says nothing of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from espalier.api.definitions.structural import object_schema
from espalier.api.kinds import KubeObject
from espalier.api.text import paths
from espalier.api.text.violations import Violation
from espalier.cli.clusters.manifests import documents

_READ = re.compile(r"\bself((?:\.[A-Za-z_]\w*)+)")
_MISSPELT = re.compile(r'^unknown field; did you mean "([^"]+)"')


class _Rule(NamedTuple):
    at: tuple[paths.PathStep | None, ...]
    """The part whose fields it reads; None is any item of a list."""
    field: tuple[paths.PathStep, ...]
    message: str
    reads: frozenset[tuple[paths.PathStep, ...]]


def without_consequences(
    kind: type[KubeObject], refused: Sequence[Violation], known: Sequence[Violation]
) -> list[Violation]:
    """The refusals by rules of one object, without those of rules that read a field which is refused itself, or is
    `known` to be wrong or misspelt. Of two rules that read the field of each other, both remain.
    """
    wrong = [*(violation.field for violation in known), *filter(None, map(_meant, known))]
    reads = [_reads(kind, violation) for violation in refused]
    remaining = []
    for violation, fields in zip(refused, reads, strict=True):
        others = [
            other.field
            for other, of_other in zip(refused, reads, strict=True)
            if not _related(violation.field, of_other)
        ]
        if not any(_related(field, fields) for field in (*wrong, *others) if field and field != violation.field):
            remaining.append(violation)
    return remaining


def _meant(known: Violation) -> str:
    """The field that a misspelt one stands for; empty for any other problem."""
    match, steps = _MISSPELT.match(known.message), paths.parsed(known.field)
    return paths.render((*steps[:-1], match[1])) if match is not None and steps else ""


def _related(field: str, fields: Sequence[str]) -> bool:
    return any(documents.is_within(field, other) or documents.is_within(other, field) for other in fields)


def _reads(kind: type[KubeObject], violation: Violation) -> list[str]:
    """The fields that the rules with this message read, apart from the one that they are about."""
    steps = paths.parsed(violation.field) or ()
    fields = []
    for rule in _rules(kind):
        about = steps[: len(rule.at) + len(rule.field)]
        is_there = len(about) == len(rule.at) + len(rule.field) and all(
            wanted in (None, step) for wanted, step in zip((*rule.at, *rule.field), about, strict=True)
        )
        if is_there and rule.message == violation.message:
            fields += [paths.render((*steps[: len(rule.at)], *read)) for read in rule.reads]
    return [field for field in fields if not _related(field, [violation.field])]


@cache
def _rules(kind: type[KubeObject]) -> tuple[_Rule, ...]:
    return tuple(_walk(object_schema(kind), ()))


def _walk(schema: Mapping[str, Any], at: tuple[paths.PathStep | None, ...]) -> Iterator[_Rule]:
    for rule in schema.get("x-kubernetes-validations") or ():
        field = paths.parsed(rule.get("fieldPath", "").removeprefix(".")) or ()
        message = Violation.of("", rule.get("message", "")).message
        reads = frozenset(_existing(schema, read.split(".")[1:]) for read in _READ.findall(rule["rule"]))
        yield _Rule(at, tuple(field), message, reads - {()})
    for name, part in (schema.get("properties") or {}).items():
        yield from _walk(part, (*at, name))
    if isinstance(items := schema.get("items"), dict):
        yield from _walk(items, (*at, None))


def _existing(schema: Mapping[str, Any], names: Sequence[str]) -> tuple[paths.PathStep, ...]:
    """The names as far as they are fields: what follows is a function."""
    steps: list[paths.PathStep] = []
    for name in names:
        properties = schema.get("properties") or {}
        if name not in properties:
            break
        steps.append(name)
        schema = properties[name]
    return tuple(steps)
