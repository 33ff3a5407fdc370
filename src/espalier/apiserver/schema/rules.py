"""`x-kubernetes-validations` of custom resources: evaluates each CEL rule on each value that its schema describes.

Values are correlated with those of the previous object as in Kubernetes: fields and values of maps by name, items of
lists by key if the list type is map; items of other lists have no old value. A rule that an unchanged value breaks
causes a warning instead of an error (ratcheting), unless it is a transition rule (one that uses `oldSelf`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from espalier.api.meta import Tree
from espalier.api.text.printable import in_one_line
from espalier.apiserver.schema.expressions import cel, cel_values
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply.list_items import elements_of
from espalier.kube.server_side_apply.structure import SCHEMAS, Node

VALIDATIONS = "x-kubernetes-validations"
BLOCKING = frozenset(
    {"FieldValueNotSupported", "FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
"""Reasons of a schema's causes after which rules would stumble over the object's form."""

ROOT = "<nil>"
"""How Kubernetes writes the path of the object itself."""

NOT_CHECKED = failures.cause(
    "FieldValueInvalid",
    ROOT,
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)
_FIELD_STEP = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]")


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule. `path` is its `fieldPath`, relative to the schema that has the rule."""

    expression: cel.Expression
    message: str
    message_expression: cel.Expression | None
    reason: str
    path: str
    optional_old: bool

    @property
    def uses_old_self(self) -> bool:
        """True if the rule uses `oldSelf`, or its message does."""
        message = self.message_expression
        return self.expression.uses_old or (message is not None and message.uses_old)


@dataclass(slots=True)
class RuleNode:
    """A schema that has rules, or has schemas with rules below it."""

    schema: Tree
    rules: list[Rule] = field(default_factory=list)
    properties: dict[str, RuleNode] = field(default_factory=dict)
    values: RuleNode | None = None
    items: RuleNode | None = None

    @property
    def has_no_rules(self) -> bool:
        """True if there is no rule here nor below."""
        return not (self.rules or self.properties or self.values or self.items)


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A broken rule; `is_old` if it was broken before and the place is unchanged."""

    cause: StatusCause
    is_old: bool


def rules_of(schema: Tree) -> RuleNode:
    """The rules of an accepted schema; cached."""
    return _rules(encode_json(schema))


@lru_cache(maxsize=SCHEMAS)
def _rules(schema: bytes) -> RuleNode:
    return rule_node_of(msgspec.json.decode(schema))


def rule_node_of(schema: Tree, *, root: bool = True) -> RuleNode:
    """The rules of a schema that was accepted. Rules with functions that are missing here are left out."""
    rule_node = RuleNode(cel_values.with_object_fields(schema) if root else schema)
    for rule in schema.get(VALIDATIONS) or ():
        try:
            rule_node.rules.append(_rule(rule, rule_node.schema))
        except cel.Unsupported:
            continue
    for name, part in cel_values.fields(schema).items():
        below = rule_node_of(part, root=False)
        if not below.has_no_rules:
            rule_node.properties[name] = below
    for name in ("additionalProperties", "items"):
        if isinstance(schema.get(name), dict):
            below = rule_node_of(schema[name], root=False)
            if not below.has_no_rules:
                setattr(rule_node, "values" if name != "items" else name, below)
    return rule_node


def _rule(rule: Tree, schema: Tree) -> Rule:
    optional = bool(rule.get("optionalOldSelf"))
    message = rule.get("messageExpression")
    return Rule(
        expression=cel.compiled(rule["rule"], schema, optional_old=optional),
        message=(rule.get("message") or f"failed rule: {rule['rule']}").strip(),
        message_expression=cel.compiled(message, schema, optional_old=optional) if message else None,
        reason=rule.get("reason") or "FieldValueInvalid",
        path="".join(f".{step}" for step in field_path(rule.get("fieldPath") or "") or ()),
        optional_old=optional,
    )


def field_path(text: str) -> list[str] | None:
    """The steps of a rule's `fieldPath`, None when it is none."""
    steps, position = [], 0
    while position < len(text):
        match = _FIELD_STEP.match(text, position)
        if match is None:
            return None
        steps.append(match[1] or match[2].replace("\\'", "'").replace("\\\\", "\\"))
        position = match.end()
    return steps


BUDGET = 10_000_000
"""The cost limit of one object's rules, as in kube-apiserver; here a unit is about a seventh of a microsecond."""

_EVALUATION, _ITERATION, _MOST_ITERATIONS = 40, 6, 10_000
"""The cost of an evaluation and of each iteration in it, and the number of iterations that the library allows."""

_MAX_DEPTH = 4
"""The largest depth of nested loops for which costs differ: with more, any list of ten items may reach the limit."""

_OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


class _Exhausted(Exception):
    """The rules of an object exceed the cost limit; `broken` is the rule to report."""

    def __init__(self, broken: BrokenRule) -> None:
        super().__init__()
        self.broken = broken


class _Budget:
    """The remaining cost limit of one object's rules."""

    def __init__(self) -> None:
        self.left = BUDGET

    def spend(self, due: Sequence[Rule], value: Any, rule_node: RuleNode, path: str) -> None:
        """Charge the cost of rules before they are evaluated. Raises `_Exhausted`."""
        loops = [rule.expression.loops for rule in due if rule.expression.loops]
        self.left -= _EVALUATION * len(due)
        if loops:
            size = _size(value)
            self.left -= sum(_ITERATION * min(size ** min(depth, _MAX_DEPTH), _MOST_ITERATIONS) for depth in loops)
        if self.left < 0:
            shown = failures.shown(rule_node.schema.get("type") or "")
            message = f"Invalid value: {shown}: {_OUT_OF_BUDGET}"
            raise _Exhausted(BrokenRule(failures.cause("FieldValueInvalid", path or ROOT, message), is_old=False))


def _size(value: Any) -> int:
    """The number of values in a value, up to the iteration limit."""
    waiting, count = [value], 0
    while waiting and count < _MOST_ITERATIONS:
        count += 1
        match waiting.pop():
            case dict() as fields:
                waiting.extend(fields.values())
            case list() as items:
                waiting.extend(items)
    return count


def broken(
    rule_node: RuleNode, new: Tree, old: Tree | None, node: Node, *, settled: bool = False
) -> Iterator[BrokenRule]:
    """The rules that a valid object breaks, in the order of the schema.

    `settled`: the old one breaks none, so for identical parts only rules that use `oldSelf` are evaluated.
    """
    try:
        yield from _walk(rule_node, new, old, node, "", _Budget(), was_same=False, settled=settled)
    except _Exhausted as end:
        yield end.broken


def _walk(
    rule_node: RuleNode,
    new: Any,
    old: Any,
    node: Node | None,
    path: str,
    budget: _Budget,
    *,
    was_same: bool,
    settled: bool,
) -> Iterator[BrokenRule]:
    """`was_same`: a parent is unchanged, and so this value is too, though its predecessor may not be known."""
    if new is None:
        return
    same = was_same or (new == old and type(new) is type(old))
    due = [rule for rule in rule_node.rules if rule.expression.uses_old or not (settled and new is old)]
    if due:
        budget.spend(due, new, rule_node, path)
        yield from _evaluate(due, rule_node, new, old, node, path, same)
    if isinstance(new, dict):
        before = old if isinstance(old, dict) else {}
        for name, part in new.items():
            field_, inner = rule_node.properties.get(name), node.child(name) if node is not None else None
            below, where = (field_, f"{path}.{name}") if field_ is not None else (rule_node.values, f"{path}[{name}]")
            if below is not None:
                where = where.removeprefix(".")
                yield from _walk(below, part, before.get(name), inner, where, budget, was_same=same, settled=settled)
    elif isinstance(new, list) and rule_node.items is not None:
        inner = node.items if node is not None else None
        for index, (item, was) in enumerate(_pairs(new, old, node)):
            yield from _walk(
                rule_node.items, item, was, inner, f"{path}[{index}]", budget, was_same=same, settled=settled
            )


def _evaluate(
    due: list[Rule], rule_node: RuleNode, new: Any, old: Any, node: Node | None, path: str, same: bool
) -> Iterator[BrokenRule]:
    has_old = old is not None
    self_ = cel_values.value(new, rule_node.schema)
    uses_old_self = has_old and any(rule.uses_old_self for rule in due)
    was = cel_values.value(_aligned(old, new, node), rule_node.schema) if uses_old_self else None
    variables = cel.Variables(self_, was, has_old=has_old)
    for rule in due:
        if rule.expression.uses_old and not has_old and not rule.optional_old:
            continue
        try:
            if rule.expression.value(variables) is True:
                continue
        except cel.EvaluationError as error:
            shown = failures.shown(rule_node.schema.get("type") or "")
            message = f"Invalid value: {shown}: {error} evaluating rule: {rule.message}"
            cause = failures.cause("FieldValueInvalid", path or ROOT, message)
        else:
            cause = _cause(rule, _message(rule, variables), new, (path + rule.path).removeprefix(".") or ROOT)
        yield BrokenRule(cause, is_old=same and not rule.expression.uses_old)


def _message(rule: Rule, variables: cel.Variables) -> str:
    if rule.message_expression is not None:
        try:
            message = rule.message_expression.value(variables)
        except cel.EvaluationError:
            return rule.message
        is_fit = isinstance(message, str) and message.strip() and "\n" not in message
        if is_fit and len(message.encode()) <= _MAX_MESSAGE:
            return in_one_line(message.strip())
    return rule.message


_MAX_MESSAGE = 5 * 1024
"""The maximum bytes of the result of a `messageExpression`; longer ones are ignored, as in kube-apiserver."""


def _cause(rule: Rule, message: str, value: Any, where: str) -> StatusCause:
    is_scalar = not isinstance(value, dict | list)
    match rule.reason:
        case "FieldValueRequired":
            return failures.required(where, message)
        case "FieldValueForbidden":
            return failures.forbidden_field(where, message)
        case "FieldValueDuplicate":
            return (
                failures.duplicate(where, value) if is_scalar else failures.cause(rule.reason, where, "Duplicate value")
            )
    if is_scalar:
        return failures.invalid(where, value, message)
    return failures.cause(rule.reason, where, f"Invalid value: {message}")


def _pairs(new: list[Any], old: Any, node: Node | None) -> Iterator[tuple[Any, Any]]:
    """Items of a list with their predecessors, None where there is none."""
    before: dict[str, Any] = {}
    if node is not None and node.list_type == "map" and isinstance(old, list):
        before = elements_of(old, node)
    if not before or node is None:
        yield from ((item, None) for item in new)
        return
    for element, item in zip(elements_of(new, node), new, strict=False):
        yield item, before.get(element)


def _aligned(old: Any, new: Any, node: Node | None) -> Any:
    """The old value with the items of sets and maps in the order of the new ones, which has no meaning."""
    if node is None:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return {name: _aligned(part, new.get(name), node.child(name)) for name, part in old.items()}
    if isinstance(old, list) and isinstance(new, list) and node.list_type in ("set", "map"):
        before, after = elements_of(old, node), elements_of(new, node)
        order = [
            *(element for element in after if element in before),
            *(element for element in before if element not in after),
        ]
        return [_aligned(before[element], after.get(element), node.items) for element in order]
    return old
