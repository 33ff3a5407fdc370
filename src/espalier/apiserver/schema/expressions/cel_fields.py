"""Checks the fields that an expression reads: declared in the schema, and convertible.

The compiler checks types of values, but has no objects with declared fields. So the compiled expression (its protobuf
encoding) is compared with the schema here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from espalier.api.meta import Tree
from espalier.apiserver.schema.expressions import cel_values
from espalier.apiserver.wire.protobuf import Raw, raw_fields

# Numbers of fields in cel.expr.CheckedExpr, Expr and SourceInfo.
_INFO, _ROOT = 5, 4
_ID, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 4, 5, 6, 7, 8, 9
_POSITIONS = 4


class FieldReferences(NamedTuple):
    """The fields of an expression. `errors` are about undeclared fields, in the compiler's words.

    `time_formats` are the formats of fields that are timestamps or durations, which can't be passed to an expression.
    """

    errors: list[str]
    time_formats: set[str]


def check_fields(program: bytes, text: str, schema: Tree) -> FieldReferences:
    """Check the fields that an expression reads."""
    checked = _message(raw_fields(program), 2)
    walk = _Walk(text, lambda: _positions(_message(checked, _INFO)))
    walk.type_of(_message(checked, _ROOT), {"self": schema, "oldSelf": schema})
    return FieldReferences(walk.errors, walk.time_formats)


def _positions(info: Raw) -> Mapping[int, int]:
    """The positions of an expression's parts. Only decoded for errors, because there are many."""
    pairs = _messages(info, _POSITIONS)
    return {_number(pair, 1): _number(pair, 2) for pair in pairs}


class _Walk:
    def __init__(self, text: str, positions: Callable[[], Mapping[int, int]]) -> None:
        self.errors: list[str] = []
        self.time_formats: set[str] = set()
        self._text = text
        self._positions = positions

    def type_of(self, node: Raw, schemas: Mapping[str, Tree]) -> Tree | None:
        """The schema of an expression's result, if known. `schemas` are the schemas of its variables."""
        if _IDENT in node:
            return schemas.get(_text(_message(node, _IDENT), 1))
        if _SELECT in node:
            return self._field(node, schemas)
        if _CALL in node:
            return self._call(_message(node, _CALL), schemas)
        if _COMPREHENSION in node:
            self._comprehension(_message(node, _COMPREHENSION), schemas)
        for container in (_LIST, _STRUCT):
            for part in _messages(_message(node, container), 1 if container == _LIST else 2):
                for inner in [part] if container == _LIST else [*_messages(part, 3), *_messages(part, 4)]:
                    self.type_of(inner, schemas)
        return None

    def _field(self, node: Raw, schemas: Mapping[str, Tree]) -> Tree | None:
        select = _message(node, _SELECT)
        schema, name = self.type_of(_message(select, 1), schemas), _text(select, 2)
        if schema is None or schema.get("type") != "object":
            return None
        if isinstance(schema.get("additionalProperties"), dict):
            values: Tree = schema["additionalProperties"]
            return values
        for field, part in cel_values.fields(schema).items():
            if cel_values.escaped(field) == name:
                self.time_formats |= cel_values.TIMES & {part.get("format", "")}
                return part
        self.errors.append(self._error(self._positions().get(_number(node, _ID), 0), f"undefined field '{name}'"))
        return None

    def _call(self, call: Raw, schemas: Mapping[str, Tree]) -> Tree | None:
        parts = [self.type_of(part, schemas) for part in (*_messages(call, 1), *_messages(call, 3))]
        if _text(call, 2) in ("_[_]",) and parts and parts[0]:
            inner = parts[0].get("items") or parts[0].get("additionalProperties")
            return inner if isinstance(inner, dict) else None
        return None

    def _comprehension(self, loop: Raw, schemas: Mapping[str, Tree]) -> None:
        over = self.type_of(_message(loop, 2), schemas)
        items = over.get("items") if over else None
        name = _text(loop, 1)
        inside = {key: schema for key, schema in schemas.items() if key != name}
        if isinstance(items, dict):
            inside[name] = items
        for part in (4, 5, 6, 7):
            self.type_of(_message(loop, part), inside)

    def _error(self, offset: int, message: str) -> str:
        before = self._text[:offset]
        line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
        shown = self._text.split("\n")[line - 1]
        return f"ERROR: <input>:{line}:{column + 1}: {message}\n | {shown}\n | {'.' * column}^"


def _messages(raw: Raw, number: int) -> list[Raw]:
    return [raw_fields(value) for value in raw.get(number, ()) if isinstance(value, bytes)]


def _message(raw: Raw, number: int) -> Raw:
    messages = _messages(raw, number)
    return messages[-1] if messages else {}


def _number(raw: Raw, number: int) -> int:
    value = raw.get(number, [0])[-1]
    return value if isinstance(value, int) else 0


def _text(raw: Raw, number: int) -> str:
    value = raw.get(number, [b""])[-1]
    return value.decode() if isinstance(value, bytes) else ""
