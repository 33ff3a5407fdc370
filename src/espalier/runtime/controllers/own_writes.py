"""The writes of this process to objects of a kind, so that its controller can ignore their events."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object

_encode = msgspec.json.Encoder(order="deterministic").encode


class OwnWrites:
    """Distinguishes a `Writer`'s changes of status and annotations from edits of others, which must be reverted.

    A write is recorded with its content before it is sent, as its event may come before its response.
    """

    def __init__(self) -> None:
        self._statuses: dict[Key, bytes] = {}
        """Encoded, to save memory: there is one for each object."""
        self._annotations: dict[Key, dict[str, str | None]] = {}

    def reports(self, key: Key, status: Tree) -> None:
        """Record a status that will be written to an object."""
        self._statuses[key] = _encode(status)

    def annotates(self, key: Key, annotations: Mapping[str, str | None]) -> None:
        """Record annotations that will be written to an object; None for one that will be removed."""
        if annotations:
            self._annotations.setdefault(key, {}).update(annotations)

    def forget(self, key: Key) -> None:
        """Forget the writes to an object, after one without an answer.

        The API server may have stored it, while a cache that lacks it shows the next reconcile nothing to write: its
        event has to cause another.
        """
        self._statuses.pop(key, None)
        self._annotations.pop(key, None)

    def by_others(self, old: Object | None, new: Object | None) -> bool:
        """True for changes of status and annotations that are not our own."""
        if new is None and old is not None:
            self.forget(old.key)
        if old is None or new is None:
            return True
        before, after = old.metadata.annotations, new.metadata.annotations
        own = self._annotations.get(new.key, {})
        changed = (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if any(after.get(name) != own.get(name, ...) for name in changed):
            return True
        status = _status(new)
        return status != _status(old) and _encode(status) != self._statuses.get(new.key)


class _Reported(Observed, frozen=True):
    status: Tree | None = None


def _status(object_: Object) -> Tree | None:
    return object_.decode(_Reported).status
