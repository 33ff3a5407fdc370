"""Schema validation, all problems at once: unknown fields, types, enumerations, patterns, limits.

Stricter than an API server, which prunes unknown fields or warns about them: they are usually typing errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any

import jsonschema_rs
from msgspec.structs import replace

from espalier.api.definitions.structural import Schema, metadata_schema, object_schema
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.text import paths, patterns
from espalier.api.text.violations import Violation, nearest_name, shown
from espalier.api.trees import json_trees

MOST_NAMED = 40
"""The maximum number of allowed fields that are listed for an unknown one."""


def violations(kind: type[KubeObject], tree: Tree) -> list[Violation]:
    """All violations of the schema of `kind` in an object, in the order of the fields. Null means absent."""
    return _violations_in(_full_schema(kind), _validator(kind), tree)


TOO_MANY = "too many items"
"""Message for a list that is longer than its schema allows."""

MOST_TOLD = 100
"""Limit of reported unknown fields, and of other violations: each costs a millisecond, and input is untrusted."""


class Part:
    """A part of objects whose schema is not in their CRD, because others define it."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._validator = jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions())

    def violations(self, value: Tree, field: str) -> list[Violation]:
        """All violations in the value of this field."""
        broken = _violations_in(self._schema, self._validator, value)
        return [replace(violation, field=".".join(filter(None, [field, violation.field]))) for violation in broken]


def _violations_in(schema: Schema, validator: jsonschema_rs.Draft202012Validator, tree: Tree) -> list[Violation]:
    tree = json_trees.without_nulls(tree)
    unknown = islice(_unknown_fields(schema, tree, ()), MOST_TOLD)
    errors = sorted(islice(validator.iter_errors(tree), MOST_TOLD), key=_rank)
    told = [*unknown, *(_violation(error, tree) for error in errors)]
    first: dict[str, Violation] = {}
    for violation in told:
        first.setdefault(violation.field, violation)
    return sorted(first.values(), key=lambda violation: violation.field)


_RANKS = ("type", "anyOf", "enum", "pattern")
"""Rules that say most about a value: of a field, the first of them that it breaks is told, for it is one fault."""


def _rank(error: jsonschema_rs.ValidationError) -> int:
    return _RANKS.index(error.kind.name) if error.kind.name in _RANKS else len(_RANKS)


@cache
def _full_schema(kind: type[KubeObject]) -> Schema:
    schema = object_schema(kind)
    return {**schema, "properties": {**schema["properties"], "metadata": metadata_schema()}}


@cache
def _validator(kind: type[KubeObject]) -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(_full_schema(kind), pattern_options=jsonschema_rs.RegexOptions())


def preserved_fields(kind: type[KubeObject], spec: Any) -> dict[str, str]:
    """The fields of a spec that a kind does not declare but keeps, as those of another product: by field, the declared
    name that it resembles, or nothing."""
    unknown = _unknown_fields(object_schema(kind)["properties"]["spec"], spec, ("spec",), with_preserved=True)
    return {
        violation.field: violation.message.partition('"')[2].partition('"')[0]
        for violation in islice(unknown, MOST_TOLD)
    }


def _unknown_fields(
    schema: Schema, value: Any, path: tuple[paths.PathStep, ...], *, with_preserved: bool = False
) -> Iterator[Violation]:
    """`with_preserved`: also those that objects with properties keep."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _unknown_fields(schema.get("items", {}), item, (*path, index), with_preserved=with_preserved)
    if not isinstance(value, dict) or schema.get("type") != "object":
        return
    properties: dict[str, Schema] = schema.get("properties", {})
    others: Schema | None = schema.get("additionalProperties")
    for key, item in value.items():
        if key in properties:
            yield from _unknown_fields(properties[key], item, (*path, key), with_preserved=with_preserved)
        elif others is not None:
            yield from _unknown_fields(others, item, (*path, key), with_preserved=with_preserved)
        elif not schema.get("x-kubernetes-preserve-unknown-fields") or (with_preserved and properties):
            yield _unknown(key, item, properties, path)


def _unknown(key: str, value: Any, properties: dict[str, Schema], path: tuple[paths.PathStep, ...]) -> Violation:
    nearest = nearest_name(key, list(properties))
    if nearest:
        message = f'unknown field; did you mean "{nearest}"?'
    elif properties:
        message = "unknown field; remove it"
    else:
        message = "unknown field; nothing may be set here"
    allowed = ", ".join(sorted(properties)) if len(properties) <= MOST_NAMED else ""
    return Violation(paths.render((*path, key)), shown(value), allowed, message)


def _violation(error: jsonschema_rs.ValidationError, tree: Tree) -> Violation:
    value = _at(tree, error.instance_path)
    path = list(error.instance_path)
    detail = error.kind.as_dict()
    limit = detail.get("limit")
    match error.kind.name:
        case "required":
            return Violation(
                paths.render([*path, detail["property"]]), "nothing", "", "required field is missing; set it"
            )
        case "type":
            return _wrong_type(paths.render(path), value, error)
        case "anyOf":
            return Violation(paths.render(path), shown(value), "an integer or a string", "wrong type")
        case "enum":
            options = [str(option) for option in detail["options"] if option != ""]
            nearest = nearest_name(value, options) if isinstance(value, str) else None
            message = f'unsupported value; did you mean "{nearest}"?' if nearest else "unsupported value"
            return Violation(paths.render(path), shown(value), ", ".join(options), message)
        case "pattern":
            allowed = patterns.words(detail["pattern"]) or f"text that matches {detail['pattern']}"
            return Violation(paths.render(path), shown(value), allowed, patterns.WRONG_FORM)
        case "minimum":
            return Violation(paths.render(path), shown(value), f"{limit} or more", "too small")
        case "maximum":
            return Violation(paths.render(path), shown(value), f"{limit} or less", "too large")
        case "minLength":
            return Violation(paths.render(path), shown(value), f"{limit} characters or more", "too short")
        case "maxLength":
            return Violation(paths.render(path), shown(value), f"{limit} characters or less", "too long")
        case "minItems":
            return Violation(paths.render(path), shown(value), f"{limit} items or more", "too few items")
        case "maxItems" | "maxProperties":
            return Violation(paths.render(path), shown(value), f"{limit} items or less", TOO_MANY)
    return Violation(paths.render(path), shown(value), "", error.message)


_UNQUOTED = {
    "integer": re.compile("-?[0-9]{1,18}"),
    "number": re.compile(r"-?[0-9]{1,18}(\.[0-9]{1,18})?"),
    "boolean": re.compile("true|false"),
}
"""A text that would be a value of the type without its quotes."""

_TYPES = {
    "object": "a map of fields",
    "array": "a list",
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
}


LOST_DIGITS = (
    "YAML reads 1.30 as the number 1.3, and Flux's postBuild substitution takes quotes away: there, the variable "
    "itself needs them"
)
"""Why a version has become a number, or lost its last zero."""


def _wrong_type(field: str, value: Any, error: jsonschema_rs.ValidationError) -> Violation:
    wanted = str(error.kind.as_dict()["types"][0])
    message = "wrong type"
    if wanted == "string" and isinstance(value, bool | int | float):
        message = "wrong type; put the value in quotes"
        if isinstance(value, float) and field.endswith("ersion"):
            message += f" ({LOST_DIGITS})"
    elif wanted in _UNQUOTED and isinstance(value, str) and _UNQUOTED[wanted].fullmatch(value):
        message = "wrong type; write the value without quotes"
    elif wanted == "array":
        message = 'wrong type; write each item on a line of its own that begins with "- "'
    return Violation(field, f"{shown(value)} ({_type_name(value)})", _TYPES[wanted], message)


def _type_name(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case list():
            return "a list"
        case dict():
            return "a map of fields"
    return "null"


def _at(tree: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        tree = tree[step]
    return tree
