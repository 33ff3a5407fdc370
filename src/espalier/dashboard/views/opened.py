"""The pages of single objects that are open: each lives from its first reader until a while after its last."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from espalier.api.resource import Key
from espalier.dashboard.views.views import View

MOST = 8
"""Pages at the same time: that of a cluster takes a watch of every kind that it consists of."""
LINGER = 30.0
"""Seconds for which a page lives after its last reader has left: one that is loaded is followed next."""


class TooMany(Exception):
    """The limit is reached, and somebody looks at each of them."""


@dataclass
class _Entry:
    view: View
    tasks: list[asyncio.Task[None]] = field(default_factory=list)
    readers: int = 0
    left_at: float = 0.0


class Opened:
    """The open pages of one kind of objects."""

    def __init__(self, create: Callable[[Key], View], noun: str) -> None:
        """`create` makes the view of an object; `noun` is what the objects are called."""
        self._create = create
        self._noun = noun
        self._entries: dict[Key, _Entry] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Of closed pages, until they have ended."""

    @asynccontextmanager
    async def use(self, key: Key) -> AsyncIterator[View]:
        """The view of an object, kept up to date within the block. Raises `TooMany`."""
        entry = self._entries.get(key)
        if entry is None:
            if len(self._entries) >= MOST:
                self._close_oldest()
            loop = asyncio.get_running_loop()
            view = self._create(key)
            entry = self._entries[key] = _Entry(view)
            entry.tasks = [loop.create_task(work) for work in view.works()]
        entry.readers += 1
        try:
            yield entry.view
        finally:
            entry.readers -= 1
            entry.left_at = asyncio.get_running_loop().time()

    async def run(self) -> None:
        """Close those that nobody reads any more, until cancelled; then all."""
        try:
            while True:
                await asyncio.sleep(LINGER / 4)
                now = asyncio.get_running_loop().time()
                for key, entry in list(self._entries.items()):
                    if not entry.readers and now - entry.left_at > LINGER:
                        self._close(key)
        finally:
            for key in list(self._entries):
                self._close(key)
            await asyncio.gather(*self._ending, return_exceptions=True)

    def _close_oldest(self) -> None:
        unread = [(entry.left_at, key) for key, entry in self._entries.items() if not entry.readers]
        if not unread:
            raise TooMany(f"{MOST} {self._noun}s are open already: close the page of another one")
        self._close(min(unread)[1])

    def _close(self, key: Key) -> None:
        """Close a page. It does not wait for the tasks: meanwhile, others would open and close pages."""
        entry = self._entries.pop(key)
        for task in entry.tasks:
            task.cancel()
            self._ending.add(task)
            task.add_done_callback(self._ending.discard)
        entry.view.close()
