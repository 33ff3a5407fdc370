"""An etcd in this process behind a proxy: the twin of `etcdbackup/guard` for virtual time.

Clients use `transport()`, which forwards requests, responses and events only before the deadline that the agent sets.
The agent itself uses `inside()`. Tests and simulations kill it, freeze it or delete its data.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from espalier.etcd.backend import Record, State
from espalier.etcd.errors import Closed, Unavailable
from espalier.etcd.messages.services import BothStream, ServerStream, Unary
from espalier.etcd.transport import Stream, Transport
from espalier.runtime.clock import Clock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.storage import MemoryStorage, fill

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


class MemoryGuard:
    """Parent of an etcd in memory, its disk, and its proxy. Starts with neither data nor etcd, and shut."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self._clock = clock
        self._rng = rng
        self._storage = MemoryStorage()
        self._has_data = False
        self._member: Member | None = None
        self._ended = asyncio.Event()
        self._ended.set()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._passing: dict[_CuttableStream[Any, Any], None] = {}  # in order: simulations repeat
        self._connected: dict[_Through, None] = {}
        self._idle_since = clock.monotonic()
        self._thawed = asyncio.Event()
        self._thawed.set()

    # --- What an agent tells it ---------------------------------------------------------------------------------

    async def is_running(self) -> bool:
        """True if etcd runs."""
        return self._member is not None

    async def start(self) -> None:
        """Start etcd."""
        await self._thawed.wait()
        if self._member is None:
            member = Member(self._storage, self._clock, self._rng)
            await member.start()
            self._has_data = True
            self._member = member
            self._ended.clear()

    async def stop(self) -> None:
        """Stop etcd."""
        await self._thawed.wait()
        member = self._member
        if member is not None:
            await member.close()
            self._over(member)

    async def ended(self) -> None:
        """Return when etcd has stopped."""
        await self._ended.wait()

    async def open(self, until: float) -> None:
        """Let clients through until a deadline."""
        await self._thawed.wait()
        if self._member is None:
            return
        self._until = until
        if self._timer is not None:
            self._timer.cancel()
        left = max(0.0, until - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(left, self._cut)

    async def shut(self) -> float | None:
        """Let nothing through; return the time since which no client has been connected."""
        await self._thawed.wait()
        self._until = 0.0
        self._cut()
        return self._idle_since

    # --- Its disk -------------------------------------------------------------------------------------------------

    @property
    def has_data(self) -> bool:
        """True if an etcd ran on it, or data was loaded."""
        return self._has_data

    def disk(self) -> MemoryStorage:
        """A copy of its content."""
        return self._storage.copy()

    def put_disk(self, storage: MemoryStorage) -> None:
        """Replace the volume."""
        self._storage, self._has_data = storage, True

    def load(self, records: Iterable[Record], state: State) -> None:
        """Replace all data."""
        self.wipe()
        fill(self._storage, records, state, self._rng)
        self._has_data = True

    def wipe(self) -> None:
        """Delete all data."""
        self._storage, self._has_data = MemoryStorage(), False

    # --- Transports -----------------------------------------------------------------------------------------------

    def inside(self) -> Transport:
        """The agent's transport, past the proxy. It reconnects to the next etcd when one has ended."""
        return _Through(self, is_client=False)

    def transport(self) -> Transport:
        """The transport of clients, such as an API server, through the proxy."""
        return _Through(self, is_client=True)

    def left(self, transport: Transport) -> None:
        """Close the connection of a client that has ended."""
        if isinstance(transport, _Through):
            self._disconnected(transport)

    @property
    def runs(self) -> bool:
        """True while etcd runs."""
        return self._member is not None

    @property
    def is_open(self) -> bool:
        """True while clients get through."""
        return self._thawed.is_set() and self._clock.monotonic() < self._until

    # --- What may happen to it ------------------------------------------------------------------------------------

    def kill_etcd(self) -> None:
        """SIGKILL of etcd."""
        if self._member is not None:
            self._member.kill()
            self._over(self._member)

    def kill(self) -> None:
        """SIGKILL of the guard and its etcd; a new guard starts at once, shut and without etcd."""
        self.kill_etcd()
        self._idle_since = self._clock.monotonic()
        self.thaw()

    def freeze(self) -> None:
        """SIGSTOP of guard and etcd: nothing gets through, and requests get no response."""
        self._thawed.clear()

    def thaw(self) -> None:
        """SIGCONT. Waiting requests are checked against the deadline."""
        self._thawed.set()

    def _over(self, member: Member) -> None:
        if self._member is member:
            self._member = None
            self._until = 0.0
            self._cut()
            self._ended.set()

    def _cut(self) -> None:
        """Disconnect clients after the deadline."""
        if not self.is_open:
            for one in tuple(self._passing):
                one.cut.set()
            for client in tuple(self._connected):
                self._disconnected(client)

    def _disconnected(self, client: _Through) -> None:
        if client in self._connected:
            del self._connected[client]
            self._idle_since = self._clock.monotonic()


class _Through:
    """A `Transport` to whichever etcd runs now."""

    def __init__(self, guard: MemoryGuard, *, is_client: bool) -> None:
        self._guard = guard
        self._is_client = is_client
        self._streams: dict[_CuttableStream[Any, Any], None] = {}
        self._to: tuple[Member, MemoryTransport] | None = None
        self._closed = False

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response of the member, if the proxy is open when it is sent and when it comes."""
        await self.check(sent=False, seconds=timeout)
        response = await self._transport().call(method, request, timeout=timeout, repeatable=repeatable)
        await self.check(sent=True, seconds=timeout)
        return response

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> Stream[Request, Response]:
        """Open a stream. It is cut when the proxy shuts."""
        await self.check(sent=False, seconds=timeout)
        stream = await self._transport().open(method, request, timeout)
        passing: _CuttableStream[Request, Response] = _CuttableStream(self, self._guard, stream, self._streams)
        if self._is_client:
            self._guard._passing[passing] = None
        return passing

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._guard._disconnected(self)
        for stream in tuple(self._streams):
            await stream.close()
        if self._to is not None:
            await self._to[1].close()

    async def check(self, *, sent: bool, seconds: float | None = None) -> None:
        """Raise `Unavailable` if the proxy is shut; wait while guard and etcd are frozen."""
        guard = self._guard
        try:
            async with asyncio.timeout(seconds):
                await guard._thawed.wait()
        except TimeoutError:
            raise Unavailable("etcd does not answer", sent=sent) from None
        if self._is_client and not guard.is_open:
            raise Unavailable("etcd's guard admits no clients", sent=sent)
        if self._is_client and not self._closed:
            guard._connected[self] = None

    def _transport(self) -> MemoryTransport:
        if self._closed:
            raise Closed("the client was closed", sent=False)
        member = self._guard._member
        if member is None:
            raise Unavailable("etcd does not run", sent=False)
        if self._to is None or self._to[0] is not member:
            self._to = member, MemoryTransport(member)
        return self._to[1]


class _CuttableStream(Generic[Request, Response]):
    """A stream that is cut when the proxy shuts."""

    def __init__(
        self, through: _Through, guard: MemoryGuard, stream: Any, streams: dict[_CuttableStream[Any, Any], None]
    ) -> None:
        self.cut = asyncio.Event()
        self._through = through
        self._guard = guard
        self._stream = stream
        self._streams = streams
        streams[self] = None

    async def send(self, request: Request) -> None:
        """Send a further request."""
        await self._check()
        await self._stream.send(request)

    async def receive(self) -> Response | None:
        """The next response, if the proxy is open when it comes."""
        coming, cutting = asyncio.ensure_future(self._stream.receive()), asyncio.ensure_future(self.cut.wait())
        try:
            await asyncio.wait((coming, cutting), return_when=asyncio.FIRST_COMPLETED)
            await self._check()
            response: Response | None = await coming
        finally:
            coming.cancel()
            cutting.cancel()
            await asyncio.gather(coming, cutting, return_exceptions=True)
        return response

    async def close(self) -> None:
        """End the stream."""
        self._streams.pop(self, None)
        self._guard._passing.pop(self, None)
        await self._stream.close()

    async def _check(self) -> None:
        if self.cut.is_set():
            raise Unavailable("etcd's guard closed the connection")
        await self._through.check(sent=True)
