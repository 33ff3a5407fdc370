"""JSON with the errors of Go's decoder, which are part of kube-apiserver's responses."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from espalier.api.text import quantities
from espalier.api.trees import json_trees

MAX_SHOWN = 30
"""The maximum bytes of a body in messages."""

MAX_NUMBER = 1000
"""The maximum digits of a number in messages."""

_GO_TYPES: dict[type, str] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "bool",
    list: "array",
    dict: "object",
}
_HEAD = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
_PLACE = re.compile(r"\(byte (\d+)\)")
_LARGE = re.compile(rb"(?<![0-9.])-?[1-9][0-9]{308,}|(?<![0-9.])-?[0-9]+(?:\.[0-9]+)?[eE]\+?[0-9]{3,}")
"""A number that may be beyond a float64."""

QUANTITY, TIME, MICRO_TIME = "Quantity", "Time", "MicroTime"
CHECKED = frozenset({QUANTITY, TIME, MICRO_TIME})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_LAYOUTS = {TIME: "2006-01-02T15:04:05Z07:00", MICRO_TIME: "2006-01-02T15:04:05.000000Z07:00"}
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/\r\n]")
_QUANTITIES = r"quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"


class Malformed(ValueError):
    """The bytes are no JSON."""


class OutOfRange(Malformed):
    """A number is beyond a float64."""


def decoded(body: bytes) -> Any:
    """Decode JSON. Raises `Malformed` with Go's message."""
    try:
        return json_trees.decode(body)
    except json_trees.TooDeep as error:
        raise Malformed(str(error)) from error
    except msgspec.ValidationError as error:
        number = _LARGE.search(body)
        shown = number[0][:MAX_NUMBER].decode() if number is not None else ""
        raise OutOfRange(f"json: cannot unmarshal number {shown} into Go value of type float64") from error
    except msgspec.MsgspecError as error:
        raise Malformed(_problem(body, str(error))) from error


def _problem(body: bytes, message: str) -> str:
    place = _PLACE.search(message)
    if place is None or int(place[1]) >= len(body):
        return "unexpected end of JSON input"
    character = chr(body[int(place[1])])
    where = "after top-level value" if "trailing" in message else "looking for beginning of value"
    return f"invalid character {character!r} {where}"


def text_problem(value: Any, struct: str) -> str:
    """The error of Go's decoder for a string of bytes, a quantity or a time; empty when it is valid."""
    text = str(value)
    if struct == QUANTITY:
        return "" if quantities.QUANTITY.fullmatch(text) else _QUANTITIES
    if struct in _LAYOUTS:
        if not text or _TIME.fullmatch(text):
            return ""
        return f'parsing time "{text}" as "{_LAYOUTS[struct]}": cannot parse "{text}" as "2006"'
    return _base64_problem(text)


def _base64_problem(text: str) -> str:
    """The position of the first invalid base64 byte (RFC 4648, padded; line breaks are ignored)."""
    bare = text.rstrip("=\r\n")
    wrong = _NOT_BASE64.search(bare)
    padding = text[len(bare) :].count("=")
    length = len(bare.replace("\r", "").replace("\n", ""))
    if wrong is not None:
        place = wrong.start()
    elif length % 4 == 1 or (length + padding) % 4:
        place = length // 4 * 4 if not padding else len(text)
    elif padding > 2:
        place = len(bare)
    else:
        return ""
    return f"illegal base64 data at input byte {place}"


def type_name(value: object) -> str:
    """Go's name of a value's type."""
    return _GO_TYPES.get(type(value), "null")


def mistyped(value: object, wanted: str) -> str:
    """The error for a value that a Go type does not accept."""
    shown = f"number {value}" if isinstance(value, float) and "int" in wanted else type_name(value)
    return f"json: cannot unmarshal {shown} into Go {wanted}"


def head_problem(tree: object) -> str:
    """Why apiVersion and kind of an object can't be decoded; empty when they can."""
    if not isinstance(tree, dict):
        return mistyped(tree, f"value of type {_HEAD}")
    for name in ("apiVersion", "kind"):
        if not isinstance(tree.get(name, ""), str) and tree[name] is not None:
            return mistyped(tree[name], f"struct field .{name} of type string")
    return ""


def summary(body: bytes) -> str:
    """The beginning of a body, as messages show it."""
    if not body:
        return "<empty>"
    more = " ..." if len(body) > MAX_SHOWN else ""
    part = body[:MAX_SHOWN]
    return (part.decode("utf-8", "replace") if body[:1] == b"{" else part.hex()) + more


def duplicate_fields(body: bytes) -> list[str]:
    """Duplicate fields of an object, by path; empty when the body is not JSON."""
    duplicates: list[str] = []

    def pairs(members: list[tuple[str, Any]]) -> dict[str, Any]:
        tree: dict[str, Any] = {}
        for name, value in members:
            if name in tree:
                tree.setdefault(_DUPLICATES, []).append(name)
            tree[name] = value
        return tree

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            duplicates.extend(f"{path}{name}" for name in value.pop(_DUPLICATES, ()))
            for name, part in value.items():
                walk(part, f"{path}{name}.")
        elif isinstance(value, list):
            for index, part in enumerate(value):
                walk(part, f"{path.removesuffix('.')}[{index}].")

    try:
        walk(json.loads(body, object_pairs_hook=pairs), "")
    except (ValueError, RecursionError):
        return []
    return duplicates


_DUPLICATES = "\0twice"
