"""A ShootState as JSON whose parts are kept: only changed parts are decoded and encoded.

So fields of other writers are kept, and states are the exact bytes of the extensions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

import msgspec
from msgspec import Raw

from espalier.api.gardener.garden.shoot_state import ExtensionState, PersistedSecret
from espalier.api.gardener.numbers import whole_number
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import ABSENT
from espalier.api.trees import json_trees
from espalier.kube.objects import Object, encode_json
from espalier.shoots.secrets.persisted import decoded
from espalier.shoots.state import digests
from espalier.shoots.state.resource_states import StateKey

_Parts = dict[str, Raw]
_parts: Callable[[bytes], _Parts] = json_trees.decoder(_Parts)
_texts: Callable[[bytes], dict[str, str]] = json_trees.decoder(dict[str, str])
_items: Callable[[bytes], list[Raw]] = json_trees.decoder(list[Raw])
_entry: Callable[[bytes], ExtensionState] = json_trees.decoder(ExtensionState)
_secret: Callable[[bytes], PersistedSecret] = json_trees.decoder(PersistedSecret)


class UnreadableShootState(ValueError):
    """Parts of a ShootState are invalid."""


class Entry(msgspec.Struct, frozen=True):
    """An entry of `extensions`, decoded and in its original bytes."""

    state: ExtensionState
    raw: bytes

    @classmethod
    def of(cls, state: ExtensionState) -> Entry:
        """A new entry."""
        return cls(state, encode_json(state))

    @property
    def key(self) -> StateKey:
        """The resource of the entry."""
        return StateKey(self.state.kind, self.state.name, self.state.purpose)


class Document:
    """The parts of one ShootState. Changes are made here; `body` is the JSON to write."""

    def __init__(self, raw: bytes) -> None:
        try:
            self._parts = _parts(raw)
            self._gardenlet: _Parts = _parts(_part(self._parts, "gardenlet", b"{}"))
            secrets = _items(_part(self._gardenlet, "secrets", b"[]"))
            self.secrets = {secret.name: secret for secret in map(_secret, map(bytes, secrets))}
            self._raw_secrets = secrets
            items = map(bytes, _items(_part(self._parts, "extensions", b"[]")))
            self.entries = tuple(Entry(_entry(item), item) for item in items)
        except msgspec.MsgspecError as error:
            raise UnreadableShootState(f"the ShootState can't be read: {error}") from None

    def add_secrets(self, secrets: Iterable[PersistedSecret], replaced: Collection[str] = ()) -> None:
        """Add these secrets; existing ones are kept, unless they are to be `replaced` or can't be decoded."""
        readable = {name for name, secret in self.secrets.items() if decoded(secret.data) is not None} - set(replaced)
        new = {secret.name: secret for secret in secrets if secret.name not in readable}
        if not new:
            return
        self.secrets |= new
        others = [raw for raw in self._raw_secrets if _secret(bytes(raw)).name not in new]
        self._raw_secrets = [*others, *(Raw(encode_json(secret)) for secret in new.values())]
        self._gardenlet["secrets"] = Raw(encode_json(self._raw_secrets))
        self._parts["gardenlet"] = Raw(encode_json(self._gardenlet))

    def set_entries(self, entries: Iterable[Entry]) -> None:
        """Replace the entries."""
        entries = tuple(entries)
        if [entry.raw for entry in entries] == [entry.raw for entry in self.entries]:
            return
        self.entries = entries
        self._parts["extensions"] = Raw(b"[" + b",".join(entry.raw for entry in self.entries) + b"]")

    def annotate(self, annotations: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """Add these annotations and labels."""
        metadata = _parts(bytes(self._parts["metadata"]))
        for name, wanted in (("annotations", annotations), ("labels", labels)):
            present = _texts(_part(metadata, name, b"{}"))
            if present.items() >= wanted.items():
                continue
            metadata[name] = Raw(encode_json({**present, **wanted}))
        self._parts["metadata"] = Raw(encode_json(metadata))

    @property
    def references(self) -> set[str]:
        """Names of all Secrets that entries refer to."""
        return {name for entry in self.entries if entry.state.state_ref for name in entry.state.state_ref.secrets}

    @property
    def body(self) -> bytes:
        """The JSON of the whole object."""
        return encode_json(self._parts)

    @property
    def size_without_entries(self) -> int:
        """Bytes of everything but the entries."""
        others = {name: part for name, part in self._parts.items() if name != "extensions"}
        return len(encode_json(others))


def digested(object_: Object) -> Object:
    """A cached ShootState: with the names of secrets and the digests of states only. A transform: it owns the
    object."""
    try:
        document = Document(object_.raw)
        entries = [digested_state(entry.state) for entry in document.entries]
    except (UnreadableShootState, msgspec.MsgspecError):
        entries = []  # readers that act on it read it live, and report the problem
    object_.metadata.managed_fields = ABSENT
    head = msgspec.to_builtins(object_.head)
    return Object(encode_json({**head, "extensions": entries}), object_.head)


def digested_state(state: ExtensionState) -> ExtensionState:
    """An entry with the digest in place of its state."""
    if state.state is None:
        return state
    return msgspec.structs.replace(state, state=Raw(encode_json(digests.of_value(bytes(state.state)))))


def digest_of(cached: ExtensionState) -> str:
    """The digest of an entry of a cached ShootState: of the value, or of the text where it is in Secrets."""
    if cached.state_ref is not None:
        return cached.state_ref.sha256
    return json_trees.decode(bytes(cached.state), str) if cached.state is not None else ""


def epoch_of(object_: Object) -> int:
    """The epoch of the seed that last wrote a ShootState; 0 if it has none."""
    return whole_number(object_.metadata.annotations.get(metadata_keys.EPOCH)) or 0


def revision_of(object_: Object) -> int:
    """The revision of a ShootState, or the one that a gardenlet has reported on its Shoot; 0 if it has none."""
    return whole_number(object_.metadata.annotations.get(metadata_keys.STATE_REVISION)) or 0


def _part(parts: _Parts, name: str, default: bytes) -> bytes:
    part = bytes(parts.get(name, Raw(default)))
    return default if part == b"null" else part
