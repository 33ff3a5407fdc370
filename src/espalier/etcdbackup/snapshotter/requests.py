"""Snapshots on demand, which callers wait for."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import StoredSnapshot


class Inactive(Exception):
    """No snapshots are taken now; the message says why."""


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotRequest:
    """A requested snapshot."""

    kind: Kind
    is_final: bool = False
    revision: int = 0
    """The revision that a delta must reach."""
    result: asyncio.Future[StoredSnapshot | None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )

    def answer(self, stored: StoredSnapshot | None) -> None:
        """Answer with the snapshot that was taken; None if there was nothing to store."""
        if not self.result.done():
            self.result.set_result(stored)

    def fail(self, error: Exception) -> None:
        """Answer with the error of a failed snapshot."""
        if not self.result.done():
            self.result.set_exception(error)


class SnapshotRequests:
    """All requested snapshots."""

    def __init__(self) -> None:
        self.closed = "the agent has just started"
        """The reason why no requests are accepted; empty while they are."""
        self.woken = asyncio.Event()
        """Set when a request was added."""
        self._waiting: list[SnapshotRequest] = []

    async def wait_for(self, request: SnapshotRequest) -> StoredSnapshot | None:
        """The requested snapshot. Raises `Inactive` if no requests are accepted, and the error of a failed snapshot."""
        if self.closed:
            raise Inactive(f"no snapshots are taken: {self.closed}")
        self._waiting.append(request)
        self.woken.set()
        try:
            return await request.result
        finally:
            with suppress(ValueError):
                self._waiting.remove(request)

    def waiting_for(self, kind: Kind) -> list[SnapshotRequest]:
        """Requests that still wait."""
        return [request for request in self._waiting if request.kind is kind and not request.result.done()]

    def fail(self, kind: Kind, error: Exception) -> None:
        """Fail all requests of a kind."""
        for request in self.waiting_for(kind):
            request.fail(error)

    def close(self, reason: str) -> None:
        """Accept no requests from now on, and fail those that wait."""
        self.closed = reason
        for kind in Kind:
            self.fail(kind, Inactive(f"no snapshots are taken: {reason}"))
