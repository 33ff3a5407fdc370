"""Validation of a definition's CEL rules, in kube-apiserver's words. Costs are not estimated."""

from __future__ import annotations

from collections.abc import Generator, Iterator

from espalier.api.meta import Tree
from espalier.apiserver.schema.expressions import cel, cel_values
from espalier.apiserver.schema.rules import VALIDATIONS, field_path
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.server_side_apply.structure import LIST_TYPE


def problems(schema: Tree, root: str) -> Iterator[StatusCause]:
    """Violations of the rules of a structural schema."""
    metadata = schema.get("properties", {}).get("metadata", {}).get("properties", {})
    yield from _below(
        cel_values.with_object_fields(schema), root, "", frozenset(f".metadata.{name}" for name in metadata)
    )


def unsupported_features(schema: Tree) -> set[str]:
    """Unsupported features of Kubernetes that the rules of a schema need: names, mostly of functions."""
    return _unsupported_in(cel_values.with_object_fields(schema))


def _unsupported_in(schema: Tree) -> set[str]:
    names: set[str] = set()
    for rule in schema.get(VALIDATIONS) or ():
        for text in (rule["rule"], rule.get("messageExpression")):
            try:
                if text:
                    cel.compiled(text, schema, optional_old=bool(rule.get("optionalOldSelf")))
            except cel.Unsupported as error:
                names.update(error.names)
    for part in _parts(schema).values():
        names |= _unsupported_in(part)
    return names


def _parts(schema: Tree) -> dict[str, Tree]:
    """The schemas below a schema by the names of their places."""
    parts = {f"properties[{name}]": part for name, part in schema.get("properties", {}).items()}
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            parts[name] = schema[name]
    return parts


def _below(schema: Tree, where: str, lost: str, declared: frozenset[str] = frozenset()) -> Iterator[StatusCause]:
    """`lost` is the list above whose items have no known predecessor; `declared` are paths into metadata."""
    for index, rule in enumerate(schema.get(VALIDATIONS) or ()):
        yield from _rule(rule, schema, f"{where}.{VALIDATIONS}[{index}]", lost, declared)
    for name, part in _parts(schema).items():
        loses = name == "items" and schema.get(LIST_TYPE) != "map"
        yield from _below(part, f"{where}.{name}", lost or (where if loses else ""))


def _rule(rule: Tree, schema: Tree, where: str, lost: str, declared: frozenset[str]) -> Iterator[StatusCause]:
    text, message = str(rule.get("rule") or ""), rule.get("message")
    path = rule.get("fieldPath")
    if not text.strip():
        yield failures.required(f"{where}.rule", "rule is not specified")
        return
    if isinstance(message, str) and "\n" in message.strip():
        yield failures.invalid(f"{where}.message", message, "must not contain line breaks")
    if message is not None and not message.strip():
        yield failures.invalid(f"{where}.message", message, "message must be non-empty if specified")
    if "\n" in text.strip() and not message:
        yield failures.required(f"{where}.message", "message must be specified if rule contains line breaks")
    if path and path not in declared and not _is_field(schema, path):
        yield failures.invalid(f"{where}.fieldPath", path, "must be a valid path")
    yield from _compile_problems(rule, schema, where, lost)


def _compile_problems(rule: Tree, schema: Tree, where: str, lost: str) -> Iterator[StatusCause]:
    expression = yield from _compiled(rule, "rule", schema, where, "compilation", "cel expression", "bool")
    if expression is None:
        return
    if expression.uses_old and lost:
        detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {lost}"
        yield failures.invalid(f"{where}.rule", rule["rule"], detail)
    if rule.get("optionalOldSelf") and not expression.uses_old:
        yield failures.invalid(f"{where}.optionalOldSelf", True, "may not be set if oldSelf is not used in rule")
    if rule.get("messageExpression"):
        field = "messageExpression"
        yield from _compiled(rule, field, schema, where, f"{field} compilation", field, "string")


def _compiled(
    rule: Tree, field: str, schema: Tree, where: str, compilation: str, subject: str, result: str
) -> Generator[StatusCause, None, cel.Expression | None]:
    """The expression in a field, of which `result` is the type; None if it can't be compiled."""
    try:
        expression = cel.compiled(rule[field], schema, optional_old=bool(rule.get("optionalOldSelf")))
    except cel.Unsupported:
        return None
    except cel.Malformed as error:
        yield _invalid(f"{where}.{field}", rule, f"{compilation} failed: {error}")
        return None
    if expression.type not in (result, "dyn"):
        yield _invalid(f"{where}.{field}", rule, f"{subject} must evaluate to a {result}")
    return expression


def _invalid(where: str, rule: Tree, detail: str) -> StatusCause:
    shown = {
        "Rule": rule["rule"],
        "Message": rule.get("message") or "",
        "MessageExpression": rule.get("messageExpression") or "",
        "Reason": rule.get("reason"),
        "FieldPath": rule.get("fieldPath") or "",
        "OptionalOldSelf": rule.get("optionalOldSelf"),
    }
    return failures.invalid(where, shown, detail)


def _is_field(schema: Tree, text: str) -> bool:
    steps = field_path(text)
    if not steps or (steps[0] == "metadata" and len(steps) > 1):
        return False  # rules can read the names, but `fieldPath` may only be a declared field
    for step in steps:
        below = cel_values.fields(schema).get(str(step)) or schema.get("additionalProperties")
        if not isinstance(below, dict):
            return False
        schema = below
    return True
