"""The fragments of a page, and which of them have changed since a browser got them.

Each change has a number. A browser says which number it has seen, and gets the present form of what changed since: one
that reads slowly, or was asleep, gets the last state only, and nothing is stored for it. No two changes of any pages
have the same number: a page that was closed, and opened again for somebody else, knows none of its former ones.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import NamedTuple

MOST_REMOVALS = 2000
"""Removed fragments that are remembered; whoever missed more reloads the page."""

_NUMBERS = itertools.count()


class Fragment(NamedTuple):
    """An element of a page: its id, the id of the element that it is in, and its HTML."""

    id: str
    place: str
    html: str


class Changes(NamedTuple):
    """The changes up to a number."""

    number: int
    put: list[Fragment]
    removed: list[str]


class Feed:
    """The present fragments of one page."""

    def __init__(self) -> None:
        self.number = next(_NUMBERS)
        """The number of the last change; at first one that no change has."""
        self._fragments: dict[str, tuple[int, Fragment]] = {}
        """In the order of their changes, the last one last."""
        self._removed: dict[str, int] = {}
        self._forgotten = self.number
        """The number of the last removal that is not remembered."""
        self._changed = asyncio.Event()

    def of(self, place: str) -> list[Fragment]:
        """The fragments in an element, in the order of their ids."""
        return sorted(fragment for _, fragment in self._fragments.values() if fragment.place == place)

    def put(self, fragment: Fragment) -> None:
        """Store a fragment; one that is the same as before is no change.

        Its characters beyond ASCII become references: a single one beyond Latin-1, such as a dash, would make the text
        take twice its memory, and each session of a portal keeps thousands.
        """
        fragment = fragment._replace(html=fragment.html.encode("ascii", "xmlcharrefreplace").decode())
        present = self._fragments.get(fragment.id)
        if present is not None and present[1] == fragment:
            return
        self._fragments.pop(fragment.id, None)  # it is the last one in the order now
        self._removed.pop(fragment.id, None)
        self._fragments[fragment.id] = (self._next(), fragment)

    def remove(self, id_: str) -> None:
        """Remove a fragment, if it exists."""
        if self._fragments.pop(id_, None) is None:
            return
        self._removed[id_] = self._next()
        if len(self._removed) > MOST_REMOVALS:
            self._forgotten = self._removed.pop(next(iter(self._removed)))

    def since(self, number: int) -> Changes | None:
        """The changes since a number; None if that is not known any more, or never was."""
        if not self._forgotten <= number <= self.number:
            return None
        put = []
        for changed, fragment in reversed(self._fragments.values()):
            if changed <= number:
                break
            put.append(fragment)
        removed = [id_ for id_, at in self._removed.items() if at > number]
        return Changes(self.number, put[::-1], removed)

    async def wait(self, number: int) -> None:
        """Wait until there is a later change than this number."""
        while self.number <= number:
            await self._changed.wait()

    def _next(self) -> int:
        self.number = next(_NUMBERS)
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
        return self.number
