"""Complete revisions from the messages of a watch.

etcd sends the events of a watch in the order of their revisions, and all events of a revision in one message, unless it
was asked to split long messages (`fragment`): then a revision may be split.
"""

from __future__ import annotations

from espalier.etcd.errors import NotEtcd, ResponseTooLarge
from espalier.etcd.results import Event

LARGEST_REVISION = 256 * 1024 * 1024
"""The largest buffered revision in bytes of keys and values: a hundred times what etcd accepts in a transaction."""


class Revisions:
    """Buffers the events of a revision until it is complete."""

    def __init__(self) -> None:
        self._held: list[Event] = []
        self._size = 0
        self.last = 0
        """The last complete revision that was returned."""

    def add(self, events: tuple[Event, ...], *, more: bool) -> tuple[Event, ...]:
        """Add a message's events; returns those of whole revisions. `more`: the rest is in the next message.

        Raises `NotEtcd` for events that go back, and `ResponseTooLarge` for a revision that is too large to hold.
        """
        newest = self._held[-1].item.mod_revision if self._held else self.last + 1
        for event in events:
            if event.item.mod_revision < newest:
                raise NotEtcd(f"a watch went back from revision {newest} to {event.item.mod_revision}")
            newest = event.item.mod_revision
        self._held += events
        complete = len(self._held)
        if more:
            while complete and self._held[complete - 1].item.mod_revision == newest:
                complete -= 1
        out, self._held = tuple(self._held[:complete]), self._held[complete:]
        if out:
            self.last = out[-1].item.mod_revision
            self._size = 0
        self._size += sum(map(_size, self._held if out else events))
        if self._size > LARGEST_REVISION:
            raise ResponseTooLarge(f"revision {newest} of a watch has more than {LARGEST_REVISION} bytes")
        return out

    def advance(self, revision: int) -> None:
        """All events up to a revision were returned."""
        self.last = max(self.last, revision)

    def drop(self) -> None:
        """Discard the buffer: its events will be sent again."""
        self._held.clear()
        self._size = 0


def _size(event: Event) -> int:
    size = len(event.item.key) + len(event.item.value)
    return size + len(event.previous.key) + len(event.previous.value) if event.previous else size
