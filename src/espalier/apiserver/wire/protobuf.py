"""Decodes protobuf bodies of built-in kinds to JSON.

Typed clients of client-go (and so `kubectl create`, leader election, kube-controller-manager) send protobuf without
negotiation. They accept JSON as response, so responses are always JSON.

The numbers of fields are in data/protobuf-v1.json, made by tests/support/servers/protobuf_fields.py. A body is the
prefix `k8s\\0` and a message that names the kind and holds the object's bytes.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube.objects import encode_json

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
PREFIX = b"k8s\x00"

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
MAX_DEPTH = 100
"""Messages inside one another: more is an attack (a schema may contain itself)."""

Value = int | bytes
Raw = dict[int, list[Value]]
"""The values of each field of a message, undecoded, in the order in which they came."""


class Malformed(ValueError):
    """The bytes are not a valid message of their kind."""


class Field(NamedTuple):
    """A field of a message. `shape` is empty, `[]`, `map` or `=` (the fields of the message belong to this one)."""

    name: str
    type: str
    shape: str
    omitempty: bool


def tree_of(body: bytes) -> Tree:
    """The object in a body. Raises `Malformed`."""
    if not body.startswith(PREFIX):
        raise Malformed("it does not begin with the prefix of Kubernetes' protobuf")
    try:
        unknown = raw_fields(body[len(PREFIX) :])
        kind = raw_fields(_bytes(unknown, 1))
        api_version, name = _bytes(kind, 1).decode(), _bytes(kind, 2).decode()
        content = _bytes(unknown, 2)
        definition = _definition(api_version, name)
        return {"apiVersion": api_version, "kind": name, **_message(definition, content, 0)}
    except (IndexError, UnicodeDecodeError, TypeError, struct.error, msgspec.DecodeError) as error:
        raise Malformed(str(error)) from error


@cache
def _messages() -> Mapping[str, Mapping[int, Field]]:
    text = files("espalier.apiserver").joinpath("data", "protobuf-v1.json").read_bytes()
    messages = msgspec.json.decode(text, type=dict[str, dict[int, str]])
    return {name: {number: _field(type_) for number, type_ in fields.items()} for name, fields in messages.items()}


def _field(text: str) -> Field:
    name, _, described = text.removesuffix("?").partition(" ")
    for shape in ("[]", "map ", "="):
        if described.startswith(shape):
            return Field(name, described.removeprefix(shape), shape.strip(), text.endswith("?"))
    return Field(name, described, "", text.endswith("?"))


@cache
def _definitions() -> Mapping[tuple[str, str], str]:
    """Names of messages by group, and by version and kind. The last label but two is the first one of the group."""
    kinds = {}
    for name in _messages():
        *_, group, version, kind = name.split(".")
        kinds["" if group == "core" else group, f"{version} {kind}"] = name
    return kinds


def _definition(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    named = f"{version} {kind}"
    definition = _definitions().get((group.partition(".")[0], named)) or _definitions().get(("meta", named))
    if definition is None:
        raise Malformed(f"{kind} of {api_version} is not supported as protobuf")
    return definition


def raw_fields(content: bytes) -> Raw:
    """The fields of a message by their numbers. Raises `Malformed`, and `IndexError` when a number is cut off."""
    fields: Raw = {}
    position, end = 0, len(content)
    while position < end:
        tag, position = _varint(content, position)
        value: Value
        wire = tag & 7
        if wire == VARINT:
            value, position = _varint(content, position)
        else:
            if wire == BYTES:
                size, position = _varint(content, position)
            elif wire in (FIXED64, FIXED32):
                size = 8 if wire == FIXED64 else 4
            else:
                raise Malformed(f"unknown wire type {wire}")
            value = content[position : position + size]
            if len(value) != size:
                raise Malformed("it ends within a field")
            position += size
        fields.setdefault(tag >> 3, []).append(value)
    return fields


def _varint(content: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = content[position]
        value |= (byte & 0x7F) << shift
        position += 1
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise Malformed("a number is too long")


def _bytes(raw: Raw, number: int) -> bytes:
    value = raw.get(number, [b""])[-1]
    if not isinstance(value, bytes):
        raise Malformed(f"field {number} is a number")
    return value


def _message(name: str, content: bytes, depth: int) -> Tree:
    if depth > MAX_DEPTH:
        raise Malformed("it is nested too deeply")
    tree: Tree = {}
    fields = _messages()[name]
    for number, values in raw_fields(content).items():
        field = fields.get(number)
        if field is None:
            continue  # of a newer version of the kind: as unknown as an unknown field in JSON
        if field.shape == "=":
            tree |= _message(field.type, _last_bytes(values), depth + 1)
            continue
        value = _shaped(field, values, depth)
        if value is not None and not (field.omitempty and _is_zero(value)):
            tree[field.name] = value
    return tree


def _is_zero(value: Any) -> bool:
    """True for values that JSON omits."""
    return not value


def _shaped(field: Field, values: list[Value], depth: int) -> Any:
    if field.shape == "[]":
        return [_value(field.type, packed, depth) for value in values for packed in _unpacked(field.type, value)]
    if field.shape == "map":
        entries = (raw_fields(value) for value in values if isinstance(value, bytes))
        return {_bytes(entry, 1).decode(): _value(field.type, entry.get(2, [b""])[-1], depth) for entry in entries}
    return _value(field.type, values[-1], depth)


def _unpacked(type_: str, value: Value) -> Iterator[Value]:
    """Numbers of a list may be packed into one field."""
    if type_ in ("int", "bool") and isinstance(value, bytes):
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            yield number
    else:
        yield value


def _value(type_: str, value: Value, depth: int) -> Any:
    basic = _BASIC.get(type_)
    if basic is not None:
        return basic(value)
    if not isinstance(value, bytes):
        raise Malformed(f"{type_} is given as a number")
    special = SPECIAL.get(type_)
    return special(value, depth) if special is not None else _message(type_, value, depth + 1)


def _text(value: Value) -> str:
    return _last_bytes([value]).decode()


def _integer(value: Value) -> int:
    if isinstance(value, bytes):
        raise Malformed("a number is given as bytes")
    return value - (1 << 64) if value >= 1 << 63 else value


def _double(value: Value) -> float:
    number: float = struct.unpack("<d", _last_bytes([value]))[0]
    return int(number) if number.is_integer() else number


def _last_bytes(values: list[Value]) -> bytes:
    value = values[-1]
    if not isinstance(value, bytes):
        raise Malformed("bytes are given as a number")
    return value


_BASIC: Mapping[str, Callable[[Value], Any]] = MappingProxyType(
    {
        "string": _text,
        "bool": lambda value: bool(_integer(value)),
        "int": _integer,
        "double": _double,
        "bytes": lambda value: base64.b64encode(_last_bytes([value])).decode(),
    }
)


def _number(raw: Raw, number: int) -> int:
    return _integer(raw.get(number, [0])[-1])


def _time(content: bytes, depth: int) -> str | None:
    moment = _moment(content)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _micro_time(content: bytes, depth: int) -> str | None:
    moment = _moment(content)
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _moment(content: bytes) -> datetime | None:
    if not content:
        return None
    raw = raw_fields(content)
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(
            seconds=_number(raw, 1), microseconds=_number(raw, 2) // 1000
        )
    except OverflowError as error:
        raise Malformed("a time is out of range") from error


def _quantity(content: bytes, depth: int) -> str:
    return _bytes(raw_fields(content), 1).decode()


def _int_or_string(content: bytes, depth: int) -> int | str:
    raw = raw_fields(content)
    return _bytes(raw, 3).decode() if _number(raw, 1) else _number(raw, 2)


def _json(content: bytes, depth: int) -> Any:
    text = _bytes(raw_fields(content), 1)
    return json_trees.decode(text) if text else None


def _duration(content: bytes, depth: int) -> str:
    return f"{_number(raw_fields(content), 1) / 1e9:g}s"


_SCHEMAS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1."
_SCHEMA = f"{_SCHEMAS}JSONSchemaProps"


def _schema_or_bool(content: bytes, depth: int) -> Any:
    raw = raw_fields(content)
    return _message(_SCHEMA, _bytes(raw, 2), depth + 1) if 2 in raw else bool(_number(raw, 1))


def _schema_or_list(content: bytes, depth: int) -> Any:
    raw = raw_fields(content)
    if 1 in raw:
        return _message(_SCHEMA, _bytes(raw, 1), depth + 1)
    return [_message(_SCHEMA, _last_bytes([item]), depth + 1) for item in raw.get(2, [])]


def _schema_or_texts(content: bytes, depth: int) -> Any:
    raw = raw_fields(content)
    return _message(_SCHEMA, _bytes(raw, 1), depth + 1) if 1 in raw else [_text(item) for item in raw.get(2, [])]


def _texts(content: bytes, depth: int) -> list[str]:
    return [_text(item) for item in raw_fields(content).get(1, [])]


_META = "io.k8s.apimachinery.pkg.apis.meta.v1."
SPECIAL: Mapping[str, Callable[[bytes, int], Any]] = MappingProxyType(
    {
        f"{_META}Time": _time,
        f"{_META}MicroTime": _micro_time,
        f"{_META}Duration": _duration,
        f"{_META}FieldsV1": _json,
        "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
        "io.k8s.apimachinery.pkg.runtime.RawExtension": _json,
        "io.k8s.api.authentication.v1.ExtraValue": _texts,
        "io.k8s.api.authorization.v1.ExtraValue": _texts,
        "io.k8s.api.certificates.v1.ExtraValue": _texts,
        f"{_SCHEMAS}JSON": _json,
        f"{_SCHEMAS}JSONSchemaPropsOrBool": _schema_or_bool,
        f"{_SCHEMAS}JSONSchemaPropsOrArray": _schema_or_list,
        f"{_SCHEMAS}JSONSchemaPropsOrStringArray": _schema_or_texts,
    }
)
"""Messages with a JSON encoding of their own."""


def json_of(body: bytes) -> bytes:
    """The JSON of a body. Raises `Malformed`."""
    return encode_json(tree_of(body))
