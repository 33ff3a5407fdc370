"""An etcd in this process behind a proxy: the counterpart of `etcdbackup/guard` for virtual time.

Clients use `transport()`, which forwards requests, responses and events only before the deadline that the agent sets.
The agent itself uses `inside()`. Tests and simulations kill it, freeze it or delete its data.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from google.protobuf.message import Message

from espalier.etcd.database.backend import Record, State
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
    """The parent of an etcd in memory, with its disk and its proxy. At first there is no data, etcd is stopped, and the
    proxy is shut."""

    def __init__(self, clock: Clock, rng: random.Random) -> None:
        self.refusal: Callable[[Any], str] = lambda _files: ""
        """Why a client with these files (None: without TLS) can't connect; empty if it can."""
        self._clock = clock
        self._rng = rng
        self._storage = MemoryStorage()
        self._has_data = False
        self._member: Member | None = None
        self._ended = asyncio.Event()
        self._ended.set()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._open_streams: dict[_GuardedStream[Any, Any], None] = {}  # in order: simulations repeat
        self._connected_clients: dict[_GuardedTransport, None] = {}
        self._idle_since = clock.monotonic()
        self._thawed = asyncio.Event()
        self._thawed.set()

    # --- Requests of the agent ----------------------------------------------------------------------------------

    async def is_running(self) -> bool:
        """True if etcd runs."""
        return self._member is not None

    async def start(self) -> None:
        """Start etcd, unless it runs. Raises `Unusable`."""
        await self._thawed.wait()
        if self._member is None:
            member = Member(self._storage, self._clock, self._rng)
            await member.start()
            self._has_data = True
            self._member = member
            self._ended.clear()

    async def stop(self) -> None:
        """Stop etcd, if it runs."""
        await self._thawed.wait()
        member = self._member
        if member is not None:
            await member.close()
            self._member_ended(member)

    async def ended(self) -> None:
        """Return when etcd has stopped."""
        await self._ended.wait()

    async def open(self, until: float) -> None:
        """Admit clients until a deadline, if etcd runs."""
        await self._thawed.wait()
        if self._member is None:
            return
        self._until = until
        if self._timer is not None:
            self._timer.cancel()
        seconds = max(0.0, until - self._clock.monotonic())
        self._timer = asyncio.get_running_loop().call_later(seconds, self._disconnect_clients)

    async def shut(self) -> float | None:
        """Disconnect all clients and admit none; return the time since which no client has been connected."""
        await self._thawed.wait()
        self._until = 0.0
        self._disconnect_clients()
        return self._idle_since

    # --- The disk -------------------------------------------------------------------------------------------------

    @property
    def has_data(self) -> bool:
        """True if an etcd ran on it, or data was loaded."""
        return self._has_data

    def disk(self) -> MemoryStorage:
        """A copy of the disk."""
        return self._storage.copy()

    def put_disk(self, storage: MemoryStorage) -> None:
        """Replace the disk."""
        self._storage, self._has_data = storage, True

    def load(self, records: Iterable[Record], state: State) -> None:
        """Replace all data by that of a backup."""
        self.wipe()
        fill(self._storage, records, state, self._rng)
        self._has_data = True

    def wipe(self) -> None:
        """Delete all data."""
        self._storage, self._has_data = MemoryStorage(), False

    # --- Transports -----------------------------------------------------------------------------------------------

    def inside(self) -> Transport:
        """The agent's transport, which bypasses the proxy. It reconnects to the next etcd when one has ended."""
        return _GuardedTransport(self, is_client=False)

    def transport(self) -> Transport:
        """The transport of clients, such as an API server, through the proxy."""
        return _GuardedTransport(self, is_client=True)

    def disconnect(self, transport: Transport) -> None:
        """Close the connection of a client that has ended."""
        if isinstance(transport, _GuardedTransport):
            self._disconnect(transport)

    @property
    def runs(self) -> bool:
        """True while etcd runs."""
        return self._member is not None

    @property
    def is_open(self) -> bool:
        """True while clients are admitted."""
        return self._thawed.is_set() and self._clock.monotonic() < self._until

    # --- Faults ---------------------------------------------------------------------------------------------------

    def kill_etcd(self) -> None:
        """SIGKILL of etcd."""
        if self._member is not None:
            self._member.kill()
            self._member_ended(self._member)

    def kill(self) -> None:
        """SIGKILL of the guard and its etcd; a new guard starts at once, shut and without etcd."""
        self.kill_etcd()
        self._idle_since = self._clock.monotonic()
        self.thaw()

    def freeze(self) -> None:
        """SIGSTOP of guard and etcd: requests get no response."""
        self._thawed.clear()

    def thaw(self) -> None:
        """SIGCONT of guard and etcd: waiting requests continue, unless the deadline has passed."""
        self._thawed.set()

    def _member_ended(self, member: Member) -> None:
        if self._member is member:
            self._member = None
            self._until = 0.0
            self._disconnect_clients()
            self._ended.set()

    def _disconnect_clients(self) -> None:
        """Disconnect clients after the deadline."""
        if not self.is_open:
            for stream in tuple(self._open_streams):
                stream.cut.set()
            for client in tuple(self._connected_clients):
                self._disconnect(client)

    def _disconnect(self, client: _GuardedTransport) -> None:
        if client in self._connected_clients:
            del self._connected_clients[client]
            self._idle_since = self._clock.monotonic()


class _GuardedTransport:
    """A `Transport` to the etcd that runs now; for clients, only while the proxy is open."""

    def __init__(self, guard: MemoryGuard, *, is_client: bool) -> None:
        self._guard = guard
        self._is_client = is_client
        self._streams: dict[_GuardedStream[Any, Any], None] = {}
        self._member_transport: tuple[Member, MemoryTransport] | None = None
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
        guarded: _GuardedStream[Request, Response] = _GuardedStream(self, self._guard, stream, self._streams)
        if self._is_client:
            self._guard._open_streams[guarded] = None
        return guarded

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._guard._disconnect(self)
        for stream in tuple(self._streams):
            await stream.close()
        if self._member_transport is not None:
            await self._member_transport[1].close()

    async def check(self, *, sent: bool, seconds: float | None = None) -> None:
        """Wait while guard and etcd are frozen. Raises `Unavailable` after `seconds`, and if the proxy is shut."""
        guard = self._guard
        try:
            async with asyncio.timeout(seconds):
                await guard._thawed.wait()
        except TimeoutError:
            raise Unavailable("etcd does not answer", sent=sent) from None
        if self._is_client and not guard.is_open:
            raise Unavailable("etcd's guard admits no clients", sent=sent)
        if self._is_client and not self._closed:
            guard._connected_clients[self] = None

    def _transport(self) -> MemoryTransport:
        if self._closed:
            raise Closed("the client was closed", sent=False)
        member = self._guard._member
        if member is None:
            raise Unavailable("etcd does not run", sent=False)
        if self._member_transport is None or self._member_transport[0] is not member:
            self._member_transport = member, MemoryTransport(member)
        return self._member_transport[1]


class _GuardedStream(Generic[Request, Response]):
    """A stream that is cut when the proxy shuts."""

    def __init__(
        self,
        transport: _GuardedTransport,
        guard: MemoryGuard,
        stream: Any,
        streams: dict[_GuardedStream[Any, Any], None],
    ) -> None:
        self.cut = asyncio.Event()
        self._transport = transport
        self._guard = guard
        self._stream = stream
        self._streams = streams
        streams[self] = None

    async def send(self, request: Request) -> None:
        """Send a further request."""
        await self._check()
        await self._stream.send(request)

    async def receive(self) -> Response | None:
        """The next response; None at the end. Raises `Unavailable` if the proxy is shut before it comes."""
        receiving, waiting = asyncio.ensure_future(self._stream.receive()), asyncio.ensure_future(self.cut.wait())
        try:
            await asyncio.wait((receiving, waiting), return_when=asyncio.FIRST_COMPLETED)
            await self._check()
            response: Response | None = await receiving
        finally:
            receiving.cancel()
            waiting.cancel()
            await asyncio.gather(receiving, waiting, return_exceptions=True)
        return response

    async def close(self) -> None:
        """End the stream."""
        self._streams.pop(self, None)
        self._guard._open_streams.pop(self, None)
        await self._stream.close()

    async def _check(self) -> None:
        if self.cut.is_set():
            raise Unavailable("etcd's guard closed the connection")
        await self._transport.check(sent=True)
