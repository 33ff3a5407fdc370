"""The reader of a shoot's state for a destination: each part is verified before it is used."""

from __future__ import annotations

from collections.abc import Mapping

from espalier.api.core import SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot_state import ExtensionState, PersistedSecret, StateReference
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Document, epoch_of
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.resource_states import StateKey


class StaleState(ValueError):
    """A state that is not, or may not be, the last one of its resource: nothing is restored from it."""


class StoredState:
    """The stored state of a shoot's control plane, at the moment when it was read."""

    def __init__(self, shoot_state: Object, pieces_by_name: Mapping[str, Tree]) -> None:
        """Raises `UnreadableShootState`."""
        document = Document(shoot_state.raw)
        self.secrets: Mapping[str, PersistedSecret] = document.secrets
        """The persisted secrets, by name."""
        self.epoch = epoch_of(shoot_state)
        self._entries = {entry.key: entry.state for entry in document.entries}
        self._pieces = pieces_by_name

    @classmethod
    async def read(cls, client: Client, shoot_state: Object) -> StoredState:
        """Read the Secrets that the ShootState references. Raises `UnreadableShootState`."""
        pieces_by_name: dict[str, Tree] = {}
        for entry in Document(shoot_state.raw).entries:
            for name in entry.state.state_ref.secrets if entry.state.state_ref else ():
                try:
                    pieces_by_name[name] = (await client.get(SECRET, name, names.STATE_NAMESPACE)).tree
                except (NotFound, Forbidden):  # no rights are granted on a Secret that does not exist
                    continue  # `state_for` reports it to callers
        return cls(shoot_state, pieces_by_name)

    @property
    def keys(self) -> tuple[StateKey, ...]:
        """The resources that have an entry."""
        return tuple(self._entries)

    def state_for(self, kind: str, name: str, purpose: str = "") -> bytes | None:
        """The JSON of a resource's state; None if it has none: it is then reconciled as if it were new.

        Raises `StaleState`, `TruncatedState`: then nothing must be created, because it would be created twice.
        """
        key = StateKey(kind, name, purpose)
        entry = self._entries.get(key) or self._unnamed(key)
        if entry is None:
            return None
        if entry.outdated:
            raise StaleState(f"the state of {key} is outdated: {entry.outdated}")
        if entry.epoch > self.epoch:
            raise StaleState(f"the state of {key} was written in epoch {entry.epoch}, after epoch {self.epoch}")
        if entry.state_ref is not None:
            return self._joined(key, entry.state_ref)
        state = bytes(entry.state) if entry.state is not None else b"null"
        return None if state == b"null" else state

    def problems(self) -> list[str]:
        """The reasons why the state can't be restored; empty if it can. Reports all at once, before anything starts."""
        problems = []
        for key in self._entries:
            try:
                self.state_for(*key)
            except (StaleState, TruncatedState) as error:
                problems.append(str(error))
        return problems

    def _unnamed(self, key: StateKey) -> ExtensionState | None:
        """An entry as in the proposal, which names no resource: a kind has one for each purpose."""
        return self._entries.get(key._replace(name=""))

    def _joined(self, key: StateKey, reference: StateReference) -> bytes:
        try:
            return pieces.join(reference, [self._pieces.get(name) for name in reference.secrets])
        except TruncatedState as error:
            raise TruncatedState(f"the state of {key} is incomplete: {error}") from None
