"""Defaults of a schema: a default that violates its own schema would break every object without the field."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.meta import Tree
from espalier.apiserver.schema import rules
from espalier.apiserver.schema.pruning import Pruner
from espalier.apiserver.schema.validation import validator_of
from espalier.apiserver.wire import failures
from espalier.kube.errors import StatusCause
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply.structure import node_of

_JUNCTORS = ("allOf", "anyOf", "oneOf")
_INNER = "value"


def problems(schema: Tree, root: str) -> Iterator[StatusCause]:
    """Violations of the defaults of a structural schema, at any depth."""
    if "default" in schema:
        yield from _default_problems(schema, f"{root}.default")
    for junctor in _JUNCTORS:
        for index, part in enumerate(schema.get(junctor) or ()):
            yield from _forbidden(part, f"{root}.{junctor}[{index}]")
    if isinstance(schema.get("not"), dict):
        yield from _forbidden(schema["not"], f"{root}.not")
    for field, part in _parts(schema, root):
        yield from problems(part, field)


def _parts(schema: Tree, root: str) -> Iterator[tuple[str, Tree]]:
    for name, part in (schema.get("properties") or {}).items():
        yield f"{root}.properties[{name}]", part
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{root}.{name}", schema[name]


def _forbidden(schema: Tree, root: str) -> Iterator[StatusCause]:
    """Violations: defaults are not allowed inside of alternatives."""
    if "default" in schema:
        yield failures.forbidden_field(f"{root}.default", "must be undefined to be structural")
    for field, part in _parts(schema, root):
        yield from _forbidden(part, field)


def _default_problems(schema: Tree, field: str) -> Iterator[StatusCause]:
    given = schema["default"]
    wrapped: Tree = {"type": "object", "properties": {_INNER: schema}}
    value: Tree = {_INNER: msgspec.json.decode(encode_json(given))}
    node = node_of(wrapped)
    pruner = Pruner(node, typed=False)
    pruner.object(value, node)
    if pruner.unknown:
        yield failures.invalid(field, given, "must not have unknown fields")
        return
    causes: list[StatusCause] = validator_of(schema).causes(value[_INNER]) if _INNER in value else []
    yield from (failures.cause(cause.reason, _joined(field, cause.field), cause.message) for cause in causes)
    if causes:
        return
    rule_node = rules.rules_of(wrapped)
    if not rule_node.has_no_rules:
        for broken in rules.broken(rule_node, value, None, node, settled=False):
            inner = broken.cause.field.removeprefix(_INNER)
            yield failures.cause(broken.cause.reason, f"{field}{inner}", broken.cause.message)


def _joined(field: str, inner: str) -> str:
    return field if not inner else f"{field}{inner}" if inner.startswith("[") else f"{field}.{inner}"
