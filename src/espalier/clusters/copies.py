"""Which copies of kubeconfigs were looked at lately: in between, passes ask nothing."""

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
        self._next: dict[Key, tuple[str, asyncio.TimerHandle]] = {}

    def is_due(self, key: Key, digest: str) -> bool:
        """Whether a copy is to be looked at: it was not for long, or was another one."""
        before = self._next.get(key)
        return before is None or before[0] != digest

    def done(self, key: Key, digest: str, seconds: float) -> None:
        """A copy was looked at, and is to be again after so many seconds."""
        self.forget(key)
        self._next[key] = (digest, asyncio.get_running_loop().call_later(seconds, self._due, key))

    def forget(self, key: Key) -> None:
        """There is no such Cluster."""
        before = self._next.pop(key, None)
        if before is not None:
            before[1].cancel()

    def _due(self, key: Key) -> None:
        del self._next[key]
        self.when_due(key)
