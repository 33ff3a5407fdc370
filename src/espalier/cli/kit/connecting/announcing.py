"""A transport that says on standard error that it waits: a command is not silent while its API server is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from espalier.api.text.printable import in_one_line
from espalier.cli.kit.printing import output
from espalier.kube.connection.access import Access, without_user
from espalier.kube.transports.wire import Request, Response, Stream, Transport

AFTER = 2.0
"""Seconds without an answer of the API server to any request."""


class Announcing:
    """Carries requests as `transport` does. The sentence is printed once."""

    def __init__(self, transport: Transport, access: Access) -> None:
        self._transport = transport
        self._server = in_one_line(without_user(access.server))
        self._answers = 0
        self._is_announced = False

    async def request(self, request: Request) -> Response:
        """Send one request and read the whole response."""
        with self._waiting():
            return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        with self._waiting():
            return await self._transport.stream(request)

    async def close(self) -> None:
        """Close the transport."""
        await self._transport.close()

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        due = asyncio.get_running_loop().call_later(AFTER, self._announce, self._answers)
        try:
            yield
            self._answers += 1
        finally:
            due.cancel()

    def _announce(self, answers: int) -> None:
        """Print the sentence, unless another request was answered meanwhile."""
        if answers == self._answers and not self._is_announced:
            self._is_announced = True
            output.say_wrapped(
                f"waiting for the API server at {self._server}: no answer for {AFTER:g} seconds", stderr=True
            )
