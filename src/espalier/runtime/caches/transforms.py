"""Transforms of cached objects. A transform may change the object that it gets, and returns what is cached.

Caches that share a watch share its transform; so each of these returns the same function for the same arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from msgspec import Raw

from espalier.api.meta import ABSENT
from espalier.api.trees import json_trees
from espalier.kube import fields
from espalier.kube.objects import Object, encode_json

Transform = Callable[[Object], Object]

_MANAGED_FIELDS = b'"managedFields":'


_decode_parts = json_trees.decoder(dict[str, Raw])


def strip_managed_fields(object_: Object) -> Object:
    """The object without `metadata.managedFields`, often its largest part."""
    if object_.metadata.managed_fields is not None:
        object_.raw = _without(object_.raw, bytes(object_.metadata.managed_fields))
        object_.metadata.managed_fields = ABSENT
    return object_


@cache
def keep_managed_fields(*managers: str) -> Transform:
    """As `strip_managed_fields`, but keeps the entries of these field managers, to decide what to write."""

    def transform(object_: Object) -> Object:
        managed_fields = object_.metadata.managed_fields
        if managed_fields is None:
            return object_
        all_entries = bytes(managed_fields)
        selected = [encoded for entry, encoded in fields.entries(all_entries) if entry.manager in managers]
        if not selected:
            return strip_managed_fields(object_)
        entries = b"[" + b",".join(selected) + b"]"
        object_.raw = _replaced(object_.raw, all_entries, entries)
        object_.metadata.managed_fields = Raw(entries)
        return object_

    return transform


def metadata_only(object_: Object) -> Object:
    """Only `apiVersion`, `kind` and `metadata` (without managed fields), for kinds that are only counted or mapped."""
    object_.metadata.managed_fields = ABSENT
    return Object(encode_json(object_.head), object_.head)


@cache
def metadata_unless(is_needed: Callable[[Object], object]) -> Transform:
    """Keep the content of needed objects only: a process must not hold the private keys and tokens of other Secrets."""

    def transform(object_: Object) -> Object:
        return strip_managed_fields(object_) if is_needed(object_) else metadata_only(object_)

    return transform


def _without(raw: bytes, value: bytes) -> bytes:
    start = raw.find(_MANAGED_FIELDS + value)
    if start < 0:
        return _edited(raw, None)
    end = start + len(_MANAGED_FIELDS) + len(value)
    if raw[end : end + 1] == b",":
        end += 1
    elif raw[start - 1 : start] == b",":
        start -= 1
    return raw[:start] + raw[end:]


def _replaced(raw: bytes, value: bytes, new: bytes) -> bytes:
    start = raw.find(_MANAGED_FIELDS + value)
    if start < 0:
        return _edited(raw, new)
    start += len(_MANAGED_FIELDS)
    return raw[:start] + new + raw[start + len(value) :]


def _edited(raw: bytes, new: bytes | None) -> bytes:
    """The edit of JSON in another format than that of API servers (with blanks after colons)."""
    tree = _decode_parts(raw)
    metadata = _decode_parts(bytes(tree["metadata"]))
    if new is None:
        del metadata["managedFields"]
    else:
        metadata["managedFields"] = Raw(new)
    tree["metadata"] = Raw(encode_json(metadata))
    return encode_json(tree)
