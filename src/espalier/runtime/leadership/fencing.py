"""A gate in front of the transport: it stops all writes once another process may hold the Lease."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

from msgspec import structs

from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.transports.wire import SAFE_METHODS, Request, Response, Stream, Transport


class Fenced(KubeError):
    """A write was not sent: this process does not lead, or may have lost the lead."""


class Fence:
    """A gate that is open until a deadline, which only the holder of the Lease extends. Initially closed.

    `monotonic` counts seconds. It is thread-safe: each method reads or writes one number.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self.deadline = -math.inf

    @property
    def is_open(self) -> bool:
        """True if writes may be sent now."""
        return self._monotonic() < self.deadline

    def extend(self, deadline: float) -> None:
        """Stay open until the deadline, in seconds of `monotonic`."""
        self.deadline = deadline

    def close(self) -> None:
        """Send no further writes."""
        self.deadline = -math.inf

    def require_open(self, request: Request) -> None:
        """Raise `Fenced` if the request is a write and the fence is closed."""
        if request.method not in SAFE_METHODS and not self.is_open:
            raise Fenced(
                f"{request.method} {request.path} was not sent: this process does not hold its Lease; "
                "another process may lead now"
            )


class FencedTransport:
    """Sends writes only while the fence is open; reads always pass."""

    def __init__(self, transport: Transport, fence: Fence) -> None:
        self._transport = transport
        self._fence = fence

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `Fenced`, also if the fence closed while the request waited to be sent."""
        self._fence.require_open(request)
        return await self._transport.request(structs.replace(request, before_send=lambda: self._before_send(request)))

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport.stream(request)

    def _before_send(self, request: Request) -> None:
        request.before_send()
        self._fence.require_open(request)

    async def close(self) -> None:
        """Close the inner transport."""
        await self._transport.close()


def fenced(client: Client, fence: Fence) -> Client:
    """A copy of the client behind the fence, with the same connections."""
    return with_transport(client, FencedTransport(client.transport, fence))


def with_transport(client: Client, transport: Transport) -> Client:
    """A copy of the client that sends by another transport."""
    other = copy.copy(client)
    other.transport = transport
    return other
