"""No write leaves this process once its Lease may be somebody else's: a gate in front of the transport."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from msgspec import structs

from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.wire import Request, Response, Stream, Transport

READS = frozenset({"GET", "HEAD", "OPTIONS"})


class Fenced(KubeError):
    """A write was refused here, before it left: this process does not lead, or no longer surely does."""


class Fence:
    """Open until a moment that only the holder of the Lease may move. Closed at first.

    `monotonic` counts seconds. Safe to use from several threads: each method reads or writes one number.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.deadline = -math.inf

    @property
    def open(self) -> bool:
        """True if writes may leave now."""
        return self._monotonic() < self.deadline

    def extend(self, deadline: float) -> None:
        """Stay open until then."""
        self.deadline = deadline

    def close(self) -> None:
        """Let no further write out."""
        self.deadline = -math.inf

    def check(self, request: Request) -> None:
        """Raise `Fenced` when the request is a write and the fence is closed."""
        if request.method not in READS and not self.open:
            raise Fenced(
                f"{request.method} {request.path} was not sent: this process does not hold its Lease; "
                "another process may lead now"
            )


class FencedTransport:
    """Passes requests on while the fence is open, reads always. Closing it closes the transport behind."""

    def __init__(self, transport: Transport, fence: Fence) -> None:
        self._transport = transport
        self._fence = fence

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `Fenced`: at once, and also when the fence closed while it waited for its turn."""
        self._fence.check(request)
        return await self._transport.request(structs.replace(request, leaving=lambda: self._leaving(request)))

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport.stream(request)

    def _leaving(self, request: Request) -> None:
        request.leaving()
        self._fence.check(request)

    async def close(self) -> None:
        """Give up connections."""
        await self._transport.close()


def fenced(client: Client, fence: Fence) -> Client:
    """The same client behind the fence; they share the connection."""
    return through(client, FencedTransport(client.transport, fence))


def through(client: Client, transport: Transport) -> Client:
    """The same client, with another transport in front of its own."""
    other = copy.copy(client)
    other.transport = transport
    return other
