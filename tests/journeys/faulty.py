"""Ways to API servers that fail when a story wants them to: single writes, and whole workload clusters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum

from espalier.kube.errors import Unreachable
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.local.connecting import LaptopTransport
from tests.journeys.managed import MANAGER_AGENT


class Passing:
    """A transport that passes everything on; what goes wrong is the matter of those who inherit from it."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    async def request(self, request: Request) -> Response:
        return await self.transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self.transport.stream(request)

    async def close(self) -> None:
        await self.transport.close()


class Loss(Enum):
    """What is lost of a write."""

    REQUEST = "request"
    ANSWER = "answer"


class Writes:
    """The manager's writes to all API servers, in their order from 1 on; events are none of them.

    Those that are chosen are lost; `landed` is told of all others, and of those whose answer is lost.
    """

    def __init__(
        self,
        loss: Loss = Loss.REQUEST,
        is_lost: Callable[[int], bool] = lambda _number: False,
        landed: Callable[[], None] = lambda: None,
    ) -> None:
        self.seen = 0
        self.lost: list[str] = []
        self.loss = loss
        self.is_lost = is_lost
        self.landed = landed

    def __call__(self, transport: Transport) -> Transport:
        return _Writes(transport, self)


class _Writes(Passing):
    def __init__(self, transport: Transport, writes: Writes) -> None:
        super().__init__(transport)
        self._writes = writes

    async def request(self, request: Request) -> Response:
        writes = self._writes
        is_other = request.headers.get("user-agent") != MANAGER_AGENT or "/events" in request.path
        if request.method == "GET" or is_other:
            return await self.transport.request(request)
        writes.seen += 1
        is_lost = writes.is_lost(writes.seen)
        if is_lost:
            writes.lost.append(f"{request.method} {request.path}")
            if writes.loss is Loss.REQUEST:
                raise Unreachable("the connection was refused", sent=False)
        response = await self.transport.request(request)
        writes.landed()
        if is_lost:
            raise Unreachable("the connection was reset")
        return response


class Far:
    """The manager's way to workload clusters: while it is cut, nothing goes through, and what was watched has ended."""

    def __init__(self) -> None:
        self.is_cut = False
        self.refused = 0
        """How many requests and watches did not get through."""
        self._streams: list[Stream] = []

    def __call__(self, transport: Transport) -> Transport:
        return _Far(transport, self) if isinstance(transport, LaptopTransport) else transport

    async def cut(self) -> None:
        """From now on."""
        self.is_cut = True
        ended, self._streams = self._streams, []
        for stream in ended:
            await stream.close()

    def mend(self) -> None:
        """It is whole again."""
        self.is_cut = False

    def check(self) -> None:
        """Raises `Unreachable` while it is cut."""
        if self.is_cut:
            self.refused += 1
            raise Unreachable("no route to host", sent=False)

    def opened(self, stream: Stream | Response) -> Stream | Response:
        """Remember what is to be ended."""
        if not isinstance(stream, Response):
            self._streams.append(stream)
        return stream


class _Far(Passing):
    def __init__(self, transport: Transport, far: Far) -> None:
        super().__init__(transport)
        self._far = far

    async def request(self, request: Request) -> Response:
        self._far.check()
        return await super().request(request)

    async def stream(self, request: Request) -> Stream | Response:
        self._far.check()
        return self._far.opened(await super().stream(request))


class Blocked(Passing):
    """Lets no write pass to whatever has these words in its path, as long as it is shut."""

    def __init__(self, transport: Transport, words: str, shut: asyncio.Event) -> None:
        super().__init__(transport)
        self._words = words
        self._shut = shut

    async def request(self, request: Request) -> Response:
        if request.method != "GET" and self._words in request.path and self._shut.is_set():
            raise Unreachable("no answer")
        return await super().request(request)
