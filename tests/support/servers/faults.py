"""Faults between clients and API servers: requests and answers that are lost, refused or late, and crashes.

There is one transport for all of it; a fault is an `Interceptor`, here when several stories need it.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from enum import Enum

import msgspec

from espalier.kube.errors import ApiError, KubeError, Unreachable
from espalier.kube.objects import encode_json
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.workload_clusters import workload_account
from espalier.simulator.workload_clusters.transport import WorkloadTransport
from tests.support.environments.managed_environment import MANAGER_AGENT


class Interceptor:
    """Stands in connections and passes everything on; subclasses inject faults.

    It is what stories give as `wrap`, and one for all connections.
    """

    def __call__(self, transport: Transport) -> Transport:
        return _Intercepted(transport, self) if self.concerns(transport) else transport

    def concerns(self, transport: Transport) -> bool:
        """True if it stands in this connection."""
        return True

    async def request(self, transport: Transport, request: Request) -> Response:
        """Answer a request."""
        return await transport.request(request)

    async def stream(self, transport: Transport, request: Request) -> Stream | Response:
        """Begin a watch."""
        return await transport.stream(request)


class _Intercepted:
    def __init__(self, transport: Transport, interceptor: Interceptor) -> None:
        self._transport = transport
        self._interceptor = interceptor

    async def request(self, request: Request) -> Response:
        return await self._interceptor.request(self._transport, request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self._interceptor.stream(self._transport, request)

    async def close(self) -> None:
        await self._transport.close()


def is_of_workload(transport: Transport) -> bool:
    """True if it leads to a workload cluster, of simulated machines."""
    return isinstance(transport, WorkloadTransport)


def is_of_manager(request: Request) -> bool:
    """True if the manager asks, not the machines' controllers or a user."""
    return request.headers.get("user-agent") == MANAGER_AGENT


def refusal(error: ApiError) -> Response:
    """The answer that is this error to a client."""
    return Response(error.status.code, encode_json(error.status), {"content-type": "application/json"})


def is_of_account(request: Request) -> bool:
    """True if the manager makes its own account in a workload cluster, once a day."""
    return "certificatesigningrequests" in request.path or request.path.endswith(f"/{workload_account.NAME}")


class Crash(Interceptor):
    """The process dies after so many writes over one connection; nobody knows whether the last one was made.

    They are counted while it `counts`.
    """

    def __init__(self, writes: int, *, counts: bool = True) -> None:
        self.died = asyncio.Event()
        self.counts = counts
        self._writes = writes
        self._made: Counter[Transport] = Counter()

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.died.is_set():
            raise Unreachable("dead", sent=False)
        self._made[transport] += self.counts and request.method != "GET" and not is_of_account(request)
        response = await transport.request(request)
        if self._made[transport] >= self._writes:
            self.died.set()
            raise Unreachable("died")
        return response


class Loss(Enum):
    """The lost part of a write."""

    REQUEST = "request"
    ANSWER = "answer"


class Writes(Interceptor):
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

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method == "GET" or not is_of_manager(request) or "/events" in request.path:
            return await transport.request(request)
        self.seen += 1
        is_lost = self.is_lost(self.seen)
        if is_lost:
            self.lost.append(f"{request.method} {request.path}")
            if self.loss is Loss.REQUEST:
                raise Unreachable("the connection was refused", sent=False)
        response = await transport.request(request)
        self.landed()
        if is_lost:
            raise Unreachable("the connection was reset")
        return response


class Far(Interceptor):
    """The manager's way to workload clusters: while it is cut, nothing goes through, and what was watched has ended."""

    def __init__(self) -> None:
        self.is_cut = False
        self.refused = 0
        """How many requests and watches did not get through."""
        self._streams: list[Stream] = []

    def concerns(self, transport: Transport) -> bool:
        return is_of_workload(transport)

    async def request(self, transport: Transport, request: Request) -> Response:
        self._check()
        return await transport.request(request)

    async def stream(self, transport: Transport, request: Request) -> Stream | Response:
        self._check()
        stream = await transport.stream(request)
        if not isinstance(stream, Response):
            self._streams.append(stream)
        return stream

    async def cut(self) -> None:
        """From now on."""
        self.is_cut = True
        ended, self._streams = self._streams, []
        for stream in ended:
            await stream.close()

    def mend(self) -> None:
        """It is whole again."""
        self.is_cut = False

    def _check(self) -> None:
        if self.is_cut:
            self.refused += 1
            raise Unreachable("no route to host", sent=False)


class Blocked(Interceptor):
    """Lets no write pass to whatever has these words in its path, as long as it is shut."""

    def __init__(self, words: str, shut: asyncio.Event) -> None:
        self._words = words
        self._shut = shut

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method != "GET" and self._words in request.path and self._shut.is_set():
            raise Unreachable("no answer")
        return await transport.request(request)


class Refusing(Interceptor):
    """Refuses whatever has these words in its path, as long as it has a refusal."""

    def __init__(self, words: str, refusal: KubeError | None = None) -> None:
        self._words = words
        self.refusal = refusal

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.refusal is not None and self._words in request.path:
            raise self.refusal
        return await transport.request(request)


class Fault(Enum):
    """Faults between a manager and its API servers, each now and then."""

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


class Faults(Interceptor):
    """All faults in one: those that are `present` happen by chance, the same for the same generator.

    `after_write`: called at the manager's next write that landed, for crashes; then it is forgotten.
    """

    def __init__(self, rng: random.Random) -> None:
        self.present: Collection[Fault] = ()
        self.after_write: Callable[[], None] | None = None
        self.happened = 0
        self._rng = rng

    async def request(self, transport: Transport, request: Request) -> Response:
        if not is_of_manager(request) or "/leases/" in request.path:
            return await transport.request(request)
        if self.happens(Fault.LOST_REQUEST):
            raise Unreachable("the connection was refused", sent=False)
        for fault, (code, reason) in _STATUS.items():
            if (request.method != "GET" or fault is not Fault.CONFLICT) and self.happens(fault):
                return _refused(code, reason)
        response = await transport.request(request)
        if request.method != "GET":
            self.wrote()
            if self.happens(Fault.LOST_ANSWER):
                raise Unreachable("the connection was reset")
        return response

    async def stream(self, transport: Transport, request: Request) -> Stream | Response:
        stream = await transport.stream(request)
        if isinstance(stream, Response) or not is_of_manager(request):
            return stream
        return _Late(stream, self)

    def happens(self, fault: Fault) -> bool:
        """True if it does now."""
        result = fault in self.present and self._rng.random() < _CHANCE
        self.happened += result
        return result

    def wrote(self) -> None:
        """A write of the manager landed."""
        if self.after_write is not None:
            then, self.after_write = self.after_write, None
            then()

    @property
    def lateness(self) -> float:
        """Seconds by which the next event is late."""
        return self._rng.uniform(0, _LATE) if self.happens(Fault.STALE) else 0.0


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
