"""ShootStates as Gardener's API server has them (`core.gardener.cloud/v1beta1`), from ours and back. Pure.

Its kind has a `spec` with secrets in `gardener` and states in `extensions`, and drops fields that it does not know. So
what only ours has (epochs, references to Secrets, why a state is outdated) is in an entry of `gardener` of its own
type, which Gardener keeps and ignores. States are the exact JSON of the extensions both ways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Raw

from espalier.api.gardener.garden.shoot import GROUP
from espalier.api.gardener.garden.shoot import VERSION as SHOOT_VERSION
from espalier.api.gardener.garden.shoot_state import VERSION
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH
from espalier.api.trees import json_trees
from espalier.kube.objects import encode_json

OURS, GARDENERS = f"{GROUP}/{VERSION}", f"{GROUP}/{SHOOT_VERSION}"
"""API versions of the kind."""
SECRET_TYPE = "secret"  # noqa: S105  of entries, in Gardener
OWN_TYPE = "espalier-shoot-state"
"""Type and name of the entry with what only ours has."""
EXTENSION_FIELDS = frozenset({"kind", "name", "purpose", "state", "resources"})
"""Fields of an extension's entry that Gardener has."""

_ENTRY = f"entry {OWN_TYPE} of spec.gardener of the ShootState"
_RESTORE = "restore the ShootState from a backup of the garden"

_Parts = dict[str, Raw]
_parts: Callable[[bytes], _Parts] = json_trees.decoder(_Parts)
_items: Callable[[bytes], list[_Parts]] = json_trees.decoder(list[_Parts])


def to_gardener(body: bytes) -> bytes:
    """The JSON of an object, or of a patch, in Gardener's form. Raises `msgspec.MsgspecError`."""
    parts = _parts(body)
    spec = _parts(_bytes(parts.pop("spec", None), b"{}"))
    gardenlet, extensions = parts.pop("gardenlet", None), parts.pop("extensions", None)
    if "apiVersion" in parts:
        parts["apiVersion"] = _json(GARDENERS)
    if gardenlet is None and extensions is None:
        return encode_json({**parts, **({"spec": spec} if spec else {})})
    secrets = _list(_parts(_bytes(gardenlet, b"{}")), "secrets")
    others = [entry for entry in _list(spec, "gardener") if _text(entry, "type") not in (SECRET_TYPE, OWN_TYPE)]
    own: dict[str, Any] = {"secrets": [], "extensions": []}
    entries = []
    for secret in secrets:
        shared = {name: part for name, part in secret.items() if name in ("name", "data", "labels")}
        entries.append({"data": Raw(b"{}"), **shared, "type": _json(SECRET_TYPE)})
        if _text(secret, "type"):
            own["secrets"].append({"name": secret["name"], "type": secret["type"]})
    states = []
    for state in _items(_bytes(extensions, b"[]")):
        shared = {name: part for name, part in state.items() if name in EXTENSION_FIELDS}
        states.append({name: part for name, part in shared.items() if name != "purpose" or _text(shared, name)})
        further = {name: part for name, part in state.items() if name not in EXTENSION_FIELDS}
        own["extensions"].append({**_identity(state), **further})  # each, so that a missing one is noticed
    if any(own.values()):
        entries.append({"name": _json(OWN_TYPE), "type": _json(OWN_TYPE), "data": _json(own)})
    return encode_json({**parts, "spec": {**spec, "gardener": [*others, *entries], "extensions": states}})


def from_gardener(body: bytes) -> bytes:
    """The JSON of an object in our form; what Gardener alone has stays in `spec`. Raises `msgspec.MsgspecError`."""
    parts = _parts(body)
    spec = _parts(_bytes(parts.pop("spec", None), b"{}"))
    gardener, states = _list(spec, "gardener"), _list(spec, "extensions")
    is_ours = _is_ours(parts)
    own, problem = _own(gardener, is_ours=is_ours)
    types = {_text(secret, "name"): secret for secret in own.get("secrets", ())}
    further = {_key(state): state for state in own.get("extensions", ())}
    secrets = []
    for entry in gardener:
        if _text(entry, "type") == SECRET_TYPE:
            shared = {name: part for name, part in entry.items() if name != "type"}
            secrets.append({**shared, **types.get(_text(entry, "name"), {})})
    extensions = []
    for state in states:
        known = further.get(_key(state), {})
        is_lost = is_ours and not known and "state" not in state
        why = problem or (f"{_ENTRY} has nothing about it; {_RESTORE}" if is_lost else "")
        extensions.append({**state, **known, **({"outdated": _json(why)} if why else {})})
    other_fields = {name: part for name, part in spec.items() if name not in ("gardener", "extensions")}
    if others := [entry for entry in gardener if _text(entry, "type") not in (SECRET_TYPE, OWN_TYPE)]:
        other_fields["gardener"] = _json(others)
    parts["apiVersion"] = _json(OURS)
    return encode_json(
        {
            **parts,
            **({"spec": other_fields} if other_fields else {}),
            "gardenlet": {"secrets": secrets},
            "extensions": extensions,
        }
    )


def _own(gardener: list[_Parts], *, is_ours: bool) -> tuple[dict[str, list[_Parts]], str]:
    """The parts that only ours has; if they can't be read, a problem with which nothing is restored from a state."""
    additions = [entry for entry in gardener if _text(entry, "type") == OWN_TYPE]
    if not additions:
        return {}, f"{_ENTRY} is missing; {_RESTORE}" if is_ours else ""
    try:
        data = _parts(_bytes(additions[0].get("data"), b"{}"))
        return {name: _checked(_list(data, name)) for name in ("secrets", "extensions")}, ""
    except msgspec.MsgspecError as error:
        return {}, f"{_ENTRY} can't be read: {error}"


def _is_ours(parts: Mapping[str, Raw]) -> bool:
    """True if a gardenlet of ours has claimed the ShootState: it lists each state in the entry of its own."""
    metadata = _parts(_bytes(parts.get("metadata"), b"{}"))
    return EPOCH in _parts(_bytes(metadata.get("annotations"), b"{}"))


def _checked(items: list[_Parts]) -> list[_Parts]:
    """The items, whose names are text."""
    for item in items:
        _key(item)
    return items


def _identity(state: Mapping[str, Raw]) -> _Parts:
    return {name: part for name, part in state.items() if name in ("kind", "name", "purpose") and _text(state, name)}


def _key(state: Mapping[str, Raw]) -> tuple[str, str, str]:
    return _text(state, "kind"), _text(state, "name"), _text(state, "purpose")


def _list(parts: Mapping[str, Raw], name: str) -> list[_Parts]:
    return _items(_bytes(parts.get(name), b"[]"))


def _bytes(part: Raw | None, default: bytes) -> bytes:
    text = bytes(part) if part is not None else default
    return default if text == b"null" else text


def _text(parts: Mapping[str, Raw], name: str) -> str:
    return json_trees.decode(_bytes(parts.get(name), b'""'), str)


def _json(value: Any) -> Raw:
    return Raw(encode_json(value))
