"""Objects of CRDs against the schema of their version, in the words of kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs
import msgspec

from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.apiserver.schema import formats
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply.structure import INT_OR_STRING, SCHEMAS

_KEYWORDS = frozenset(
    {
        "enum", "exclusiveMaximum", "exclusiveMinimum", "maxItems", "maxLength", "maxProperties", "maximum", "minItems",
        "minLength", "minProperties", "minimum", "multipleOf", "pattern", "required", "type", "uniqueItems",
    }
)  # fmt: skip
LEAST_INTEGER, MOST_INTEGER = -(2**63), 2**63 - 1
"""kube-apiserver reads larger numbers as floating-point numbers."""

_TYPE_NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", dict: "object", list: "array"}


class Validator:
    """A compiled schema."""

    def __init__(self, schema: Tree) -> None:
        self._validator = jsonschema_rs.Draft4Validator(
            json_schema(schema),
            formats=dict(formats.CHECKS),
            pattern_options=jsonschema_rs.RegexOptions(),
            validate_formats=True,
        )

    def causes(self, tree: Any) -> list[StatusCause]:
        """Violations of the schema, in the order of its rules."""
        if self._validator.is_valid(tree):
            return []
        return [cause for error in self._validator.iter_errors(tree) for cause in _causes(error, tree)]


def validator_of(schema: Tree) -> Validator:
    """The validator of a schema. Raises `ValueError` for an invalid schema.

    Cached: definitions are validated, served and updated, and their schemas seldom change.
    """
    return _validator(encode_json(schema))


@lru_cache(maxsize=SCHEMAS)
def _validator(schema: bytes) -> Validator:
    return Validator(msgspec.json.decode(schema))


def json_schema(schema: Tree) -> Tree:
    """The JSON schema (draft 4, as OpenAPI v3) that a structural schema means."""
    result: Tree = {name: value for name, value in schema.items() if name in _KEYWORDS}
    if schema.get(INT_OR_STRING):
        result["type"] = ["integer", "string"]
    if "integer" in result.get("type", ()):
        result = {"minimum": LEAST_INTEGER, "maximum": MOST_INTEGER, **result}
    if schema.get("nullable"):
        if "type" in result:
            types = result["type"]
            result["type"] = [*([types] if isinstance(types, str) else types), "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    if schema.get("format") in formats.CHECKS:
        result["format"] = schema["format"]
    if "properties" in schema:
        result["properties"] = {name: json_schema(part) for name, part in schema["properties"].items()}
    for name in ("items", "additionalProperties", "not"):
        if isinstance(schema.get(name), dict):
            result[name] = json_schema(schema[name])
    for name in ("allOf", "anyOf", "oneOf"):
        if name in schema:
            result[name] = [json_schema(part) for part in schema[name]]
    return result


def _causes(error: jsonschema_rs.ValidationError, tree: Tree) -> Iterator[StatusCause]:
    path = list(error.instance_path)
    field, value = paths.render(path), _at(tree, path)
    detail: dict[str, Any] = error.kind.as_dict()
    limit = detail.get("limit")
    where = f"{field} in body"

    def invalid(rule: str) -> StatusCause:
        return failures.invalid(field, value, f"{where} {rule}")

    match error.kind.name:
        case "required":
            yield failures.required(paths.render([*path, detail["property"]]))
        case "type":
            wanted = ",".join(type_ for type_ in detail["types"] if type_ != "null")
            yield _mistyped(field, _TYPE_NAMES.get(type(value), "null"), wanted)
        case "enum":
            yield failures.unsupported(field, value, [option for option in detail["options"] if option is not None])
        case "pattern":
            yield invalid(f"should match '{detail['pattern']}'")
        case "minimum" | "maximum" if limit in (LEAST_INTEGER, MOST_INTEGER):
            yield _mistyped(field, "number", "integer")
        case "minimum":
            yield invalid(f"should be greater than or equal to {limit}")
        case "maximum":
            yield invalid(f"should be less than or equal to {limit}")
        case "exclusiveMinimum":
            yield invalid(f"should be greater than {limit}")
        case "exclusiveMaximum":
            yield invalid(f"should be less than {limit}")
        case "multipleOf":
            yield invalid(f"should be a multiple of {detail.get('multiple_of', limit)}")
        case "minLength":
            yield invalid(f"should be at least {limit} chars long")
        case "maxLength":
            message = f"Too long: may not be more than {limit} bytes"
            yield failures.cause("FieldValueTooLong", field, message)
        case "minItems":
            yield failures.invalid(field, len(value), f"{where} should have at least {limit} items")
        case "minProperties":
            yield failures.invalid(field, len(value), f"{where} should have at least {limit} properties")
        case "maxItems" | "maxProperties":
            message = f"Too many: {len(value)}: must have at most {limit} items"
            yield failures.cause("FieldValueTooMany", field, message)
        case "format":
            message = f"Invalid value: {failures.shown(value)}: {where} must be of type {detail['format']}: "
            yield failures.cause("FieldValueTypeInvalid", field, message + failures.shown(value))
        case "oneOf" | "anyOf" | "not":
            yield failures.invalid(field, "", _combined(error.kind.name, field))
        case _:
            yield failures.invalid(field, value, error.message)


def _mistyped(field: str, value: str, wanted: str) -> StatusCause:
    message = f'Invalid value: "{value}": {field} in body must be of type {wanted}: "{value}"'
    return failures.cause("FieldValueTypeInvalid", field, message)


def _combined(rule: str, field: str) -> str:
    return {
        "oneOf": f'"{field}" must validate one and only one schema (oneOf)',
        "anyOf": f'"{field}" must validate at least one schema (anyOf)',
        "not": f'"{field}" must not validate the schema (not)',
    }[rule]


def _at(tree: Any, path: Sequence[str | int]) -> Any:
    for step in path:
        tree = tree[step]
    return tree
