"""Ways to API servers that fail when a story wants them to: single writes, and whole workload clusters."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Collection
from enum import Enum

import msgspec

from espalier.kube.errors import Unreachable
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.simulator.transport import LaptopTransport
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


class Fault(Enum):
    """What can go wrong between a manager and its API servers, each now and then."""

    LOST_REQUEST = "a request does not arrive"
    LOST_ANSWER = "a write is applied and not answered"
    CONFLICT = "409"
    THROTTLED = "429"
    BROKEN = "500"
    STALE = "watches tell late"
    CUT = "a watch ends, and what it had not told yet is not told by it"


_STATUS = {Fault.CONFLICT: (409, "Conflict"), Fault.THROTTLED: (429, "TooManyRequests"), Fault.BROKEN: (500, "Broken")}
_CHANCE = 0.15
_LATE = 20.0


class Faults:
    """All faults in one: those that are `present` happen by chance, the same for the same generator.

    `after_write`: called at the manager's next write that landed, for crashes; then it is forgotten.
    """

    def __init__(self, rng: random.Random) -> None:
        self.present: Collection[Fault] = ()
        self.after_write: Callable[[], None] | None = None
        self.happened = 0
        self._entropy = rng

    def __call__(self, transport: Transport) -> Transport:
        return _Faulty(transport, self)

    def happens(self, fault: Fault) -> bool:
        """Whether it does now."""
        found = fault in self.present and self._entropy.random() < _CHANCE
        self.happened += found
        return found

    def wrote(self) -> None:
        """A write of the manager landed."""
        if self.after_write is not None:
            then, self.after_write = self.after_write, None
            then()

    @property
    def lateness(self) -> float:
        """Seconds by which the next event is late."""
        return self._entropy.uniform(0, _LATE) if self.happens(Fault.STALE) else 0.0


class _Faulty(Passing):
    def __init__(self, transport: Transport, faults: Faults) -> None:
        super().__init__(transport)
        self._faults = faults

    async def request(self, request: Request) -> Response:
        faults = self._faults
        if request.headers.get("user-agent") != MANAGER_AGENT or "/leases/" in request.path:
            return await super().request(request)
        if faults.happens(Fault.LOST_REQUEST):
            raise Unreachable("the connection was refused", sent=False)
        for fault, (code, reason) in _STATUS.items():
            if (request.method != "GET" or fault is not Fault.CONFLICT) and faults.happens(fault):
                return _refused(code, reason)
        response = await super().request(request)
        if request.method != "GET":
            faults.wrote()
            if faults.happens(Fault.LOST_ANSWER):
                raise Unreachable("the connection was reset")
        return response

    async def stream(self, request: Request) -> Stream | Response:
        stream = await super().stream(request)
        if isinstance(stream, Response) or request.headers.get("user-agent") != MANAGER_AGENT:
            return stream
        return _Late(stream, self._faults)


class _Late:
    """A watch whose events come late, and that ends now and then."""

    def __init__(self, stream: Stream, faults: Faults) -> None:
        self._stream = stream
        self._faults = faults

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for document in self._stream:
            if self._faults.happens(Fault.CUT):
                return
            if late := self._faults.lateness:
                await asyncio.sleep(late)
            yield document

    async def close(self) -> None:
        await self._stream.close()


def _refused(code: int, reason: str) -> Response:
    status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
    return Response(code, msgspec.json.encode({**status, "message": "a fault of this story"}))
