"""Response transformations: tables (server-side printing) and metadata only.

Clients choose one in the Accept header, by order of preference: `application/json;as=Table;v=v1;g=meta.k8s.io`.
`form_of` selects the form; a `Form` converts an object, a list or a watch event from plain JSON into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

import msgspec

from espalier.api.kinds import Column
from espalier.api.meta import Part, Tree
from espalier.api.resource import Resource
from espalier.api.trees.json_path import compiled
from espalier.apiserver.builtin import printers
from espalier.apiserver.builtin.printers import Cell, PrinterColumn
from espalier.apiserver.wire.content import READ, NotAcceptable
from espalier.apiserver.wire.durations import age
from espalier.kube.errors import BadRequest
from espalier.kube.objects import ListMeta, encode_json

META = "meta.k8s.io/v1"
INCLUDE_OBJECT = ("Metadata", "None", "Object")
"""The values of includeObject; the first is the default."""


class Printed(Protocol):
    """A served kind, for printing. `columns` is None for built-in columns."""

    @property
    def resource(self) -> Resource:
        """The coordinates of the kind."""

    @property
    def columns(self) -> Sequence[Column] | None:
        """Print columns, as its CRD declares them."""

    @property
    def minor(self) -> str:
        """The minor version of Kubernetes that built-in columns are of; empty for custom kinds."""


class Form(Protocol):
    """A form of response. Objects are encoded JSON in arguments and results."""

    def object(self, kind: Printed, raw: bytes, now: datetime) -> bytes:
        """One object in this form."""

    def list(self, kind: Printed, items: Iterable[bytes], metadata: ListMeta, now: datetime) -> bytes:
        """A list in this form."""


def form_of(accept: str, query: Mapping[str, str]) -> Form | None:
    """The form that a client prefers; None for plain JSON. Raises `BadRequest` for a wrong `includeObject`."""
    refused = False
    for media in accept.split(","):
        kind, *parameters = (part.strip() for part in media.split(";"))
        if kind != "application/json":
            continue
        wanted = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        if "as" not in wanted:
            return None
        if (wanted.get("v"), wanted.get("g")) == ("v1", "meta.k8s.io"):
            if wanted["as"] == "Table":
                return _table_form(query)
            if wanted["as"] in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return MetadataForm()
        refused = True
    if refused and "*" not in accept:
        raise NotAcceptable.of(f"only the following media types are accepted: {', '.join(READ)}")
    return None


def _table_form(query: Mapping[str, str]) -> Form:
    include = query.get("includeObject", "") or INCLUDE_OBJECT[0]
    if include not in INCLUDE_OBJECT:
        raise BadRequest.of(f"unrecognized includeObject value {include!r}: supported are {', '.join(INCLUDE_OBJECT)}")
    return TableForm(include)


class _Metadata(Part):
    metadata: msgspec.Raw = msgspec.Raw(b"{}")


_decode_metadata = msgspec.json.Decoder(_Metadata).decode
_decode_head = msgspec.json.Decoder(Tree).decode


class MetadataForm:
    """`PartialObjectMetadata`: objects without anything but their metadata."""

    def object(self, kind: Printed, raw: bytes, now: datetime) -> bytes:
        """The metadata of an object."""
        return encode_json(_partial(raw))

    def list(self, kind: Printed, items: Iterable[bytes], metadata: ListMeta, now: datetime) -> bytes:
        """The metadata of each object of a list."""
        return encode_json(
            {
                "kind": "PartialObjectMetadataList",
                "apiVersion": META,
                "metadata": metadata,
                "items": [_partial(raw) for raw in items],
            }
        )


class TableForm:
    """`Table`, for `kubectl get`. Each row has its cells, and the part of the object that `include` names."""

    def __init__(self, include: str = INCLUDE_OBJECT[0]) -> None:
        self._include = include

    def object(self, kind: Printed, raw: bytes, now: datetime) -> bytes:
        """A table of one row. Its columns come with each watch event as well: events don't depend on each other."""
        tree = _decode_head(raw)
        metadata = ListMeta(resource_version=tree.get("metadata", {}).get("resourceVersion", ""))
        return self._table(kind, [(raw, tree)], metadata, now)

    def list(self, kind: Printed, items: Iterable[bytes], metadata: ListMeta, now: datetime) -> bytes:
        """A table of all objects of a list."""
        return self._table(kind, [(raw, _decode_head(raw)) for raw in items], metadata, now)

    def _table(self, kind: Printed, items: Sequence[tuple[bytes, Tree]], metadata: ListMeta, now: datetime) -> bytes:
        columns = _columns(kind.resource, kind.minor, None if kind.columns is None else tuple(kind.columns))
        return encode_json(
            {
                "kind": "Table",
                "apiVersion": META,
                "metadata": metadata,
                "columnDefinitions": [_definition(column) for column in columns],
                "rows": [self._row(columns, raw, tree, now) for raw, tree in items],
            }
        )

    def _row(self, columns: Sequence[PrinterColumn], raw: bytes, tree: Tree, now: datetime) -> Tree:
        row: Tree = {"cells": [column.cell(tree, now) for column in columns]}
        if self._include == "Metadata":
            row["object"] = _partial(raw)
        else:
            row["object"] = msgspec.Raw(raw) if self._include == "Object" else None
        return row


def _partial(raw: bytes) -> Tree:
    return {"kind": "PartialObjectMetadata", "apiVersion": META, "metadata": _decode_metadata(raw).metadata}


def _definition(column: PrinterColumn) -> Tree:
    return {
        "name": column.name,
        "type": column.type,
        "format": column.format,
        "description": "",
        "priority": column.priority,
    }


@lru_cache(maxsize=512)
def _columns(resource: Resource, minor: str, declared: tuple[Column, ...] | None) -> tuple[PrinterColumn, ...]:
    if declared is None:
        return printers.columns_of(resource, minor)
    if not declared:
        return printers.DEFAULT
    return (printers.NAME, *(_declared(column) for column in declared))


def _declared(column: Column) -> PrinterColumn:
    return PrinterColumn(column.name, _cell(column), type=column.type, priority=column.priority)


def _cell(column: Column) -> Cell:
    try:
        find = compiled(column.json_path)
    except ValueError:
        # Refused when the CRD is created; if one is stored anyway, the table must still work.
        return lambda tree, now: "<invalid>"
    show = _SHOWN.get(column.type, _text)

    def cell(tree: Tree, now: datetime) -> object:
        values = find(tree)
        return show(values[0], now) if values else None

    return cell


def _text(value: Any, _: datetime) -> object:
    if isinstance(value, str):
        return value
    if value is None:
        return "<no value>"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return encode_json(value).decode()


def _integer(value: Any, _: datetime) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return math.trunc(value) if number else None


def _number(value: Any, _: datetime) -> object:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _boolean(value: Any, _: datetime) -> object:
    return value if isinstance(value, bool) else None


def _date(value: Any, now: datetime) -> object:
    return age(value, now) if isinstance(value, str) else None


_SHOWN = {"integer": _integer, "number": _number, "boolean": _boolean, "date": _date, "string": _text}
