"""The writes of this process to objects of a kind: their events are no news to its controller."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.api.meta import Observed, Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object

_encode = msgspec.json.Encoder(order="deterministic").encode


class OwnWrites:
    """Tells changes of status and annotations that a `Writer` made from those of others: their edit is put right.

    Told by content and before the write, for its event may come before its answer.
    """

    def __init__(self) -> None:
        self._statuses: dict[Key, bytes] = {}
        """Encoded: there are as many as objects."""
        self._annotations: dict[Key, dict[str, str | None]] = {}

    def reports(self, key: Key, status: Tree) -> None:
        """This will be the status of an object."""
        self._statuses[key] = _encode(status)

    def annotates(self, key: Key, annotations: Mapping[str, str | None]) -> None:
        """These will be annotations of an object; None for one that will not be there."""
        if annotations:
            self._annotations.setdefault(key, {}).update(annotations)

    def by_others(self, old: Object | None, new: Object | None) -> bool:
        """Passes changes of status and annotations that are not our own."""
        if new is None and old is not None:
            self._statuses.pop(old.key, None)
            self._annotations.pop(old.key, None)
        if old is None or new is None:
            return True
        before, after = old.metadata.annotations, new.metadata.annotations
        ours = self._annotations.get(new.key, {})
        changed = (name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
        if any(after.get(name) != ours.get(name, ...) for name in changed):
            return True
        status = _status(new)
        return status != _status(old) and _encode(status) != self._statuses.get(new.key)


class _Reported(Observed, frozen=True):
    status: Tree | None = None


def _status(object_: Object) -> Tree | None:
    return object_.decode(_Reported).status
