"""Sources of keys besides watches: they cause reconciles although no object changed.

Each keeps its state in this process only, by key; `forget` removes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from espalier.api.resource import Key


class Source:
    """Sends keys to subscribers, such as controllers."""

    def __init__(self) -> None:
        self._subscribers: list[Callable[[Key], None]] = []

    def subscribe(self, enqueue: Callable[[Key], None]) -> None:
        """Call `enqueue` with each key from now on."""
        self._subscribers.append(enqueue)

    def send(self, key: Key) -> None:
        """Send a key to be reconciled."""
        for enqueue in self._subscribers:
            enqueue(key)


class Expiry(Source):
    """Values by key that are valid for a time; when one expires, its key is sent."""

    def __init__(self) -> None:
        super().__init__()
        self._valid: dict[Key, tuple[str, asyncio.TimerHandle]] = {}
        self._expired: dict[Key, str] = {}

    def is_valid(self, key: Key, value: str) -> bool:
        """True if this value is stored for the key, and is still valid."""
        entry = self._valid.get(key)
        return entry is not None and entry[0] == value

    def has_expired(self, key: Key, value: str) -> bool:
        """True if this value was stored for the key, and has expired."""
        return self._expired.get(key) == value

    def keep(self, key: Key, value: str, seconds: float) -> None:
        """Store a value for a key, valid for so many seconds."""
        self.forget(key)
        self._valid[key] = (value, asyncio.get_running_loop().call_later(seconds, self._expire, key))

    def forget(self, key: Key) -> None:
        """Remove the value of a key; it will not be sent."""
        self._expired.pop(key, None)
        entry = self._valid.pop(key, None)
        if entry is not None:
            entry[1].cancel()

    def _expire(self, key: Key) -> None:
        self._expired[key] = self._valid.pop(key)[0]
        self.send(key)
