"""The OpenAPI 2.0 document as protobuf (`openapi.v2.Document` of gnostic): kubectl accepts no other format.

It requests it for a kind that is in no document of version 3, to find out that it is unknown. So only schemas are
encoded, and no paths: clients that read paths use version 3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from espalier.api.meta import Tree
from espalier.kube.objects import encode_json

ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""The name by which client-go asks for it; it is not a valid media type, so responses have another one."""
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_LENGTH, _VARINT = 2, 0
# Numbers of fields: of Document, Info, NamedSchema (and other named things), Schema, NamedAny and Any.
_SWAGGER, _INFO, _PATHS, _DEFINITIONS = 1, 2, 8, 9
_TITLE, _VERSION = 1, 2
_NAME, _VALUE = 1, 2
_REFERENCE, _FORMAT, _DESCRIPTION, _REQUIRED = 1, 2, 4, 19
_ADDITIONAL, _TYPE, _ITEMS, _PROPERTIES, _EXTENSION = 21, 22, 23, 25, 31
_SCHEMA, _BOOLEAN, _ONLY = 1, 2, 1
_YAML = 2


def encode(document: Tree) -> bytes:
    """Encode a document. Keywords of schemas that clients do not read are left out."""
    info = _text(_TITLE, document["info"]["title"]) + _text(_VERSION, document["info"]["version"])
    schemas = _named(document.get("definitions") or {})
    parts = (_text(_SWAGGER, document["swagger"]), _message(_INFO, info), _message(_PATHS, b""))
    return b"".join(parts) + _message(_DEFINITIONS, schemas)


def _named(schemas: Tree) -> bytes:
    return b"".join(
        _message(_ONLY, _text(_NAME, name) + _message(_VALUE, _schema(schema))) for name, schema in schemas.items()
    )


def _schema(schema: Tree) -> bytes:
    return b"".join(_parts(schema))


def _parts(schema: Tree) -> Iterator[bytes]:
    for number, name in ((_REFERENCE, "$ref"), (_FORMAT, "format"), (_DESCRIPTION, "description")):
        if isinstance(schema.get(name), str):
            yield _text(number, schema[name])
    yield from (_text(_REQUIRED, name) for name in schema.get("required") or ())
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        yield _message(_ADDITIONAL, _message(_SCHEMA, _schema(additional)))
    elif additional is not None:
        yield _message(_ADDITIONAL, _tag(_BOOLEAN, _VARINT) + bytes([bool(additional)]))
    if isinstance(schema.get("type"), str):
        yield _message(_TYPE, _text(_ONLY, schema["type"]))
    if isinstance(schema.get("items"), dict):
        yield _message(_ITEMS, _message(_ONLY, _schema(schema["items"])))
    if isinstance(schema.get("properties"), dict):
        yield _message(_PROPERTIES, _named(schema["properties"]))
    for name, value in _extensions(schema):
        # JSON is YAML.
        yield _message(_EXTENSION, _text(_NAME, name) + _message(_VALUE, _message(_YAML, encode_json(value))))


def _extensions(schema: Tree) -> Iterable[tuple[str, object]]:
    return ((name, value) for name, value in schema.items() if name.startswith("x-"))


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode())


def _message(number: int, content: bytes) -> bytes:
    return _tag(number, _LENGTH) + _number(len(content)) + content


def _tag(number: int, kind: int) -> bytes:
    return _number(number << 3 | kind)


def _number(value: int) -> bytes:
    encoded_ = bytearray()
    while value > 0x7F:
        encoded_.append(value & 0x7F | 0x80)
        value >>= 7
    encoded_.append(value)
    return bytes(encoded_)
