"""Converts objects for CEL expressions: the fields that the schema declares, under escaped names.

Kubernetes' rules: undeclared fields are hidden, null is absent, `metadata` has only the names.
"""

from __future__ import annotations

import base64
import binascii
import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from espalier.api.meta import Tree
from espalier.kube.server_side_apply.structure import EMBEDDED

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


def with_object_fields(schema: Tree) -> Tree:
    """The schema of an object, with the fields that every object has."""
    return {**schema, "properties": {**schema.get("properties", {}), **_OBJECT}}


def fields(schema: Tree) -> dict[str, Tree]:
    """The schemas of an object's fields."""
    if schema.get(EMBEDDED):
        schema = with_object_fields(schema)
    properties: dict[str, Tree] = schema.get("properties", {})
    return properties


@cache
def escaped(name: str) -> str | None:
    """A field's escaped name in CEL; None when it can't be accessed."""
    if name in _RESERVED:
        return f"__{name}__"
    text = _ESCAPED.sub(lambda match: _ESCAPES[match[0]], name)
    return text if _IDENTIFIER.fullmatch(text) else None


TIMES = frozenset({"date", "date-time", "duration"})
"""Formats of timestamps and durations. The library converts single values, lists and maps of them, but not fields of
objects, which stay strings: rules that read such a field are not evaluated."""


def value(tree: Any, schema: Tree, *, inside: bool = False) -> Any:
    """Convert a valid value of this schema for expressions; `inside` an object."""
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
        raise ValueError(f"{text!r} is not a duration")
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(text))
    try:
        return timedelta(seconds=-seconds if text.startswith("-") else seconds)
    except OverflowError:
        raise ValueError(f"{text!r} is longer than a duration can be") from None
