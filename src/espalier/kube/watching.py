"""Watch events, decoded only as far as the metadata of their object."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec
from msgspec import Raw, Struct

from espalier.api.trees import json_trees
from espalier.kube.errors import UNREADABLE, ApiError, NotKubernetes, error_of
from espalier.kube.objects import Object

EventType = Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]


class WatchEvent(NamedTuple):
    """One event of a watch. The object of a BOOKMARK has nothing but a resource version to resume from."""

    type: EventType
    object: Object


class _Frame(Struct):
    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: Raw


_decode_frame = json_trees.decoder(_Frame)
_PREFIXES: tuple[tuple[bytes, EventType], ...] = (
    (b'{"type":"MODIFIED","object":', "MODIFIED"),
    (b'{"type":"ADDED","object":', "ADDED"),
    (b'{"type":"DELETED","object":', "DELETED"),
    (b'{"type":"BOOKMARK","object":', "BOOKMARK"),
)


def decode_event(document: bytes) -> WatchEvent:
    """One document of a watch. An ERROR event is raised as its typed error (`Expired` for 410).

    API servers write the two fields of an event in one order and without blanks. Then the object is cut out instead
    of scanned twice; whatever looks otherwise takes the way of the decoder.
    """
    for prefix, type_ in _PREFIXES:
        if document.startswith(prefix):
            try:
                return WatchEvent(type_, Object(document[len(prefix) : -1]))
            except msgspec.MsgspecError:
                break
    try:
        frame = _decode_frame(document)
        if frame.type == "ERROR":
            raise _failure(bytes(frame.object))
        return WatchEvent(frame.type, Object(bytes(frame.object)))
    except UNREADABLE as error:
        start = document[:80].decode("utf-8", "replace")
        raise NotKubernetes(f"not an event of a Kubernetes watch; it begins with: {start!r}") from error


def _failure(status: bytes) -> ApiError:
    code = json_trees.decode(status, _Code).code
    return error_of(code, status)


class _Code(Struct):
    code: int = 500
