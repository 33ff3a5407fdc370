"""Objects as CEL expressions see them: the fields that their schema declares, under names that CEL can spell.

The rules are Kubernetes': fields without a declaration are not seen, null is absent, of `metadata` only the names.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from espalier.api.meta import Tree
from espalier.apiserver.structure import EMBEDDED

_RESERVED = frozenset(
    [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ]
)
_ESCAPES = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED = re.compile(r"__|[./-]")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TEXT: Tree = {"type": "string"}
_OBJECT: Tree = {
    "apiVersion": _TEXT,
    "kind": _TEXT,
    "metadata": {"type": "object", "properties": {"name": _TEXT, "generateName": _TEXT}},
}
_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION = re.compile(r"[+-]?(?:\d+(?:\.\d*)?(?:ns|us|µs|μs|ms|s|m|h))+")
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|µs|μs|ms|s|m|h)")


def whole(schema: Tree) -> Tree:
    """The schema of an object with what every object has."""
    return {**schema, "properties": {**schema.get("properties", {}), **_OBJECT}}


def fields(schema: Tree) -> dict[str, Tree]:
    """The schemas of an object's fields."""
    if schema.get(EMBEDDED):
        schema = whole(schema)
    properties: dict[str, Tree] = schema.get("properties", {})
    return properties


@cache
def escaped(name: str) -> str | None:
    """A field's name in CEL; None when it has none, and can't be reached."""
    if name in _RESERVED:
        return f"__{name}__"
    text = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return text if _IDENTIFIER.fullmatch(text) else None


TIMES = frozenset({"date", "date-time", "duration"})
"""Formats of text that is a moment or a span. The library takes these by themselves, in lists and in maps, but not in
objects, where they stay text: rules that name such a field are not evaluated."""


def value(tree: Any, schema: Tree, *, inside: bool = False) -> Any:
    """What an expression over a valid value of this schema is given; `inside` an object."""
    match tree:
        case dict() if isinstance(schema.get("additionalProperties"), dict):
            return {name: value(part, schema["additionalProperties"], inside=inside) for name, part in tree.items()}
        case dict():
            declared = fields(schema)
            seen = {}
            for name, part in tree.items():
                as_seen = escaped(name) if name in declared and part is not None else None
                if as_seen is not None:
                    seen[as_seen] = value(part, declared[name], inside=True)
            return seen
        case list():
            items = schema.get("items") or {}
            return [value(item, items, inside=inside) for item in tree]
        case str() if "format" in schema and not (inside and schema["format"] in TIMES):
            return _formatted(tree, schema["format"])
        case int() if schema.get("type") == "number":
            return float(tree)
    return tree


def _formatted(text: str, format_: str) -> Any:
    try:
        match format_:
            case "date-time" | "date":
                return datetime.fromisoformat(text if format_ == "date-time" else f"{text}T00:00:00+00:00")
            case "duration":
                return duration(text)
            case "byte":
                return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        pass  # formats that Kubernetes does not check, it does not convert either
    return text


def duration(text: str) -> timedelta:
    """A duration like 1h30m. Raises `ValueError`."""
    if not _DURATION.fullmatch(text):
        raise ValueError(f"{text!r} is no duration")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is longer than a duration can be") from None
