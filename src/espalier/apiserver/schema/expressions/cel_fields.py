"""Checks the fields that an expression reads: declared in the schema, and convertible; and its constants.

The compiler checks types of values, but has no objects with declared fields. So the compiled expression (its protobuf
encoding) is compared with the schema here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import NamedTuple

from espalier.api.meta import Tree
from espalier.apiserver.schema.expressions import cel_values
from espalier.apiserver.wire.protobuf import Raw, raw_fields

# Numbers of fields in cel.expr.CheckedExpr, Expr and SourceInfo.
_REFERENCES, _ROOT, _INFO = 2, 4, 5
_OVERLOADS = 3
_CONSTANT, _STRING = 3, 6
_ID, _IDENT, _SELECT, _CALL, _LIST, _STRUCT, _COMPREHENSION = 2, 4, 5, 6, 7, 8, 9
_POSITIONS = 4
_TYPES: Mapping[int, str] = {1: "null", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}
"""Types of constants, by their fields in cel.expr.Constant."""


class FieldReferences(NamedTuple):
    """The fields of an expression. `errors` are about undeclared fields, in the compiler's words.

    `time_formats` are the formats of fields that are timestamps or durations, which can't be passed to an expression.
    `overloads` are the functions that are called, by type. Errors about constants count if there are no others.
    """

    errors: list[str]
    time_formats: set[str]
    overloads: set[str]


def check_fields(program: bytes, text: str, schema: Tree, accepts: Callable[[str, str], bool]) -> FieldReferences:
    """Check the fields that an expression reads, and by `accepts` texts that are the first argument of a function."""
    checked = _message(raw_fields(program), 2)
    walk = _Walk(text, lambda: _positions(_message(checked, _INFO)), accepts)
    walk.type_of(_message(checked, _ROOT), {"self": schema, "oldSelf": schema})
    return FieldReferences(walk.errors or walk.invalid_arguments, walk.time_formats, _overloads(checked))


def _overloads(checked: Raw) -> set[str]:
    references = (_message(entry, 2) for entry in _messages(checked, _REFERENCES))
    return {name.decode() for each in references for name in each.get(_OVERLOADS, ()) if isinstance(name, bytes)}


def _positions(info: Raw) -> Mapping[int, int]:
    """The positions of an expression's parts. Only decoded for errors, because there are many."""
    pairs = _messages(info, _POSITIONS)
    return {_number(pair, 1): _number(pair, 2) for pair in pairs}


class _Walk:
    def __init__(
        self, text: str, positions: Callable[[], Mapping[int, int]], accepts: Callable[[str, str], bool]
    ) -> None:
        self.errors: list[str] = []
        self.invalid_arguments: list[str] = []
        self.time_formats: set[str] = set()
        self._text = text
        self._positions = positions
        self._accepts = accepts

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
        entries = _messages(_message(node, _STRUCT), 2)
        for parts in (
            _messages(_message(node, _LIST), 1),
            [key for entry in entries for key in _messages(entry, 3)],
            [value for entry in entries for value in _messages(entry, 4)],
        ):
            self._check_constants(parts)
            for part in parts:
                self.type_of(part, schemas)
        return None

    def _check_constants(self, parts: list[Raw]) -> None:
        """Constants of a list, or of a map, are of one type in Kubernetes."""
        types = [next(map(_TYPES.get, _message(part, _CONSTANT)), None) for part in parts]
        constants = list(takewhile(bool, types))
        for part, type_ in zip(parts, constants, strict=False):
            if type_ != constants[0]:
                self.errors.append(self._error(part, f"expected type '{constants[0]}' but found '{type_}'"))

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
        self.errors.append(self._error(node, f"undefined field '{name}'"))
        return None

    def _call(self, call: Raw, schemas: Mapping[str, Tree]) -> Tree | None:
        function, arguments = _text(call, 2), _messages(call, 3)
        parts = [self.type_of(part, schemas) for part in (*_messages(call, 1), *arguments)]
        constant = _message(arguments[0], _CONSTANT) if arguments else {}
        if _STRING in constant and not self._accepts(function, _text(constant, _STRING)):
            self.invalid_arguments.append(self._error(arguments[0], f"invalid {function} argument"))
        if function == "_[_]" and parts and parts[0]:
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

    def _error(self, node: Raw, message: str) -> str:
        offset = self._positions().get(_number(node, _ID), 0)
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
