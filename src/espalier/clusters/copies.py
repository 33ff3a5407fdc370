"""Which copies of kubeconfigs were looked at lately: in between, reconciles ask nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from espalier.api.resource import Key


class Copies:
    """Remembers it for this process. Copies are made at all if `enabled`."""

    def __init__(self, enabled: bool = True) -> None:
        self.enabled = enabled
        self.when_due: Callable[[Key], None] = lambda _key: None
        """Called when the copy of a Cluster is to be looked at again."""
        self._waiting: dict[Key, tuple[str, asyncio.TimerHandle]] = {}
        self._over: dict[Key, str] = {}

    def is_waiting(self, key: Key, digest: str) -> bool:
        """Whether a copy with this content was looked at lately."""
        waiting = self._waiting.get(key)
        return waiting is not None and waiting[0] == digest

    def is_due(self, key: Key, digest: str) -> bool:
        """Whether a copy with this content was looked at by this process, and not for long."""
        return self._over.get(key) == digest

    def wait(self, key: Key, digest: str, seconds: float) -> None:
        """A copy is to be looked at after so many seconds."""
        self.forget(key)
        self._waiting[key] = (digest, asyncio.get_running_loop().call_later(seconds, self._due, key))

    def forget(self, key: Key) -> None:
        """There is no such Cluster."""
        self._over.pop(key, None)
        waiting = self._waiting.pop(key, None)
        if waiting is not None:
            waiting[1].cancel()

    def _due(self, key: Key) -> None:
        self._over[key] = self._waiting.pop(key)[0]
        self.when_due(key)
