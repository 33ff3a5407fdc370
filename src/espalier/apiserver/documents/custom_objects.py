"""Objects of CRDs against the schema and the rules of their version, and against their previous state.

Unchanged violations do not fail a write, but cause warnings.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.trees import json_trees
from espalier.apiserver.schema import rules
from espalier.apiserver.schema.registry import ServedKind
from espalier.kube.errors import StatusCause
from espalier.kube.server_side_apply.list_items import element_of, elements_of
from espalier.kube.server_side_apply.structure import Node


class ValidationResult(NamedTuple):
    """Violations and warnings of a write; `is_valid` if no rule is broken, not even an unchanged one."""

    causes: list[StatusCause]
    warnings: list[str]
    is_valid: bool


def validate(kind: ServedKind, new: Tree, before: Tree | None, *, settled: bool = False) -> ValidationResult:
    """The verdict on a new custom object. `settled`: the previous one has no violations."""
    causes = kind.validator.causes(new)
    ratcheted = [cause for cause in causes if before is not None and _is_unchanged(cause, new, before, kind.node)]
    causes = [cause for cause in causes if cause not in ratcheted]
    broken = _broken(kind, new, before, causes, settled=settled)
    old = [rule.cause for rule in broken if rule.is_old]
    return ValidationResult(
        [*causes, *(rule.cause for rule in broken if not rule.is_old)],
        [f"{cause.field}: {cause.message}" for cause in (*ratcheted, *old)],
        not old,
    )


def _broken(
    kind: ServedKind, new: Tree, before: Tree | None, causes: Sequence[StatusCause], *, settled: bool
) -> list[rules.BrokenRule]:
    if kind.rules.has_no_rules:
        return []
    if any(cause.reason in rules.BLOCKING for cause in causes):
        return [rules.BrokenRule(rules.NOT_CHECKED, is_old=False)]
    return list(rules.broken(kind.rules, new, before, kind.node, settled=settled))


def _is_unchanged(cause: StatusCause, new: Tree, old: Tree, node: Node) -> bool:
    """True if the field of a cause, or a parent of it, is unchanged."""
    after: Any = new
    before: Any = old
    below: Node | None = node
    if (steps := paths.parsed(cause.field)) is None:
        return False
    for step in steps:
        if isinstance(after, dict) and isinstance(before, dict):
            if step not in after or step not in before:
                return False
            after, before = after[step], before[step]
            below = below.child(str(step)) if below is not None else None
        elif isinstance(after, list) and isinstance(before, list) and isinstance(step, int):
            if below is None or below.list_type != "map" or step >= len(after):
                return False
            counterpart = elements_of(before, below).get(element_of(after[step], below))
            if counterpart is None:
                return False
            after, before, below = after[step], counterpart, below.items
        else:
            return False
        if json_trees.same(after, before):
            return True
    return False
