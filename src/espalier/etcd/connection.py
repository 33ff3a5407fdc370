"""Connections to the members of a cluster over gRPC: which member is called, and what happens when one fails."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import grpc
import grpc.aio
import structlog
from google.protobuf.message import DecodeError, Message

from espalier.etcd.credentials import CertificateError, TlsContent, TlsFiles
from espalier.etcd.endpoints import Endpoint, endpoint
from espalier.etcd.errors import Closed, Code, EtcdError, NotEtcd, Unavailable, error_of
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import STATUS, BothStream, ServerStream, Unary
from espalier.etcd.transport import Stream

log = structlog.get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)
Result = TypeVar("Result")
Channel = grpc.aio.Channel
State = grpc.ChannelConnectivity

MAX_RESPONSE = 64 * 1024 * 1024
"""The largest received message in bytes. gRPC's default is 4 MiB, etcd itself sends up to 2 GiB; 500 objects of
Kubernetes have 2 to 10 MiB, and 128 operations of a transaction (etcd's limit) no more than a request: 1.5 MiB."""

OPTIONS = MappingProxyType(
    {
        "grpc.max_receive_message_length": MAX_RESPONSE,
        "grpc.max_send_message_length": -1,  # the server knows its limit, and reports it
        # etcd allows pings every 5 s, while there are calls (its --grpc-keepalive-min-time)
        "grpc.keepalive_time_ms": 6_000,
        "grpc.keepalive_timeout_ms": 2_500,
        "grpc.http2.max_pings_without_data": 0,
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 1_000,
        "grpc.max_reconnect_backoff_ms": 2_000,
        "grpc.enable_http_proxy": 0,
        "grpc.enable_retries": 0,  # retries are decided here
        "grpc.use_local_subchannel_pool": 1,  # different certificates need different connections
    }
)
_REQUIRE_LEADER = (("hasleader", "true"),)
"""Ends streams to a member that is isolated from the others (etcd's `WithRequireLeader`)."""
_CERTIFICATE_CHECK_PERIOD = 5.0
"""Seconds after which certificate files are compared again."""
_TRUST, _DISTRUST = 1.0, 5.0
"""Seconds for which members without a recent failure are preferred, and for which a failure is recent."""
_MIN_TIMEOUT = 0.001
_PAUSE, _MAX_PAUSE = 0.05, 1.0
"""Seconds between attempts of a repeatable call, first and longest, randomized by half."""


class Connection:
    """A `Transport` over gRPC.

    The member that answered last is called first. When it fails, all are connected to, and the first one that is ready
    is called from then on; one that failed a moment ago only if there is no other. A repeatable call leaves half of its
    time for another member. Any call that a member certainly did not execute, because it is a learner, goes to another.
    Raises `ValueError` for an invalid endpoint.
    """

    def __init__(self, endpoints: Sequence[str], tls: TlsFiles | None = None, rng: random.Random | None = None) -> None:
        if not endpoints:
            raise ValueError("at least one endpoint of etcd is needed, such as https://127.0.0.1:2379")
        self._members = [_Member(endpoint(url, tls=tls is not None)) for url in endpoints]
        self._tls = tls or TlsFiles()
        self._uses_tls = any(member.endpoint.tls for member in self._members)
        self._rng = rng or random.Random()  # noqa: S311 - spreads tries, no secrets
        self._content: TlsContent | None = None
        self._certificates_read_at = float("-inf")
        self._certificates_lock = asyncio.Lock()
        self._closed = False

    async def call(
        self, method: Unary[Request, Response], request: Request, *, timeout: float, repeatable: bool
    ) -> Response:
        """The response of one member."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        pause = _PAUSE
        while True:
            member = await self._ready(deadline)
            left = self._share(deadline) if repeatable else max(_MIN_TIMEOUT, deadline - loop.time())
            try:
                with member.acquired() as channel:
                    return await self._translate_errors(member, method.of(channel)(request, timeout=left))
            except Closed:
                raise
            except Unavailable as failure:
                self._demote(member)
                may_be_repeated = repeatable or not failure.sent
                if not may_be_repeated or loop.time() + pause >= deadline:
                    raise
                log.debug(
                    "retrying an etcd request", method=method.name, endpoint=member.endpoint.url, error=str(failure)
                )
            await asyncio.sleep(pause * self._rng.uniform(0.5, 1.5))
            pause = min(2 * pause, _MAX_PAUSE)

    def _share(self, deadline: float) -> float:
        """Seconds for one member: half of the remaining time if another one could be called afterwards."""
        left = max(_MIN_TIMEOUT, deadline - asyncio.get_running_loop().time())
        return left / 2 if len(self._members) > 1 and left > 2 * _MIN_TIMEOUT else left

    async def open(
        self, method: ServerStream[Request, Response] | BothStream[Request, Response], request: Request, timeout: float
    ) -> Stream[Request, Response]:
        """Open a stream to one member and send its first request; returns when the response begins."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            member = await self._ready(deadline)
            seconds = self._share(deadline)
            try:
                return await self._open_at(member, method, request, seconds)
            except TimeoutError:
                self._demote(member)
                if loop.time() + _PAUSE >= deadline:
                    message = f"{member.endpoint.url} did not start to answer within {seconds:.2g} s"
                    raise Unavailable(message) from None

    async def _open_at(
        self,
        member: _Member,
        method: ServerStream[Request, Response] | BothStream[Request, Response],
        request: Request,
        seconds: float,
    ) -> Stream[Request, Response]:
        """A stream to a member. Raises `TimeoutError` if no response begins."""
        with member.acquired() as channel:
            if isinstance(method, ServerStream):
                reads = method.of(channel)(request, metadata=_REQUIRE_LEADER)
                stream = _GrpcStream(self, member, reads, None)
            else:
                call = method.of(channel)(metadata=_REQUIRE_LEADER)
                stream = _GrpcStream(self, member, call, call)
        try:
            async with asyncio.timeout(seconds):
                if isinstance(method, BothStream):
                    await stream.send(request)
                await stream.started()
        except BaseException:
            await stream.close()
            raise
        return stream

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for member in self._members:
            await member.close()

    async def _ready(self, deadline: float) -> _Member:
        """A connected member. Raises `Unavailable` with the reasons if there is none."""
        if self._closed:
            raise Closed("the client was closed", sent=False)
        await self._reload_certificates()
        now = asyncio.get_running_loop().time()
        trusted = [member for member in self._members if now - member.failed_at >= _DISTRUST] or self._members
        for member in self._members:
            member.connect(self._content, self._tls.server_name)
        if trusted[0].state() is State.READY:
            return trusted[0]
        ready = None
        if len(trusted) < len(self._members):
            ready = await self._first_ready(trusted, min(deadline, now + _TRUST))
        ready = ready or await self._first_ready(self._members, deadline)
        if self._closed:
            raise Closed("the client was closed", sent=False)
        if ready is None:
            raise Unavailable(await self._connection_errors(), sent=False)
        self._members.remove(ready)
        self._members.insert(0, ready)
        return ready

    async def _first_ready(self, members: Sequence[_Member], deadline: float) -> _Member | None:
        """The first of these members that connects; None if none does in time."""
        waiting = {asyncio.ensure_future(member.ready()): member for member in members}
        try:
            async with asyncio.timeout_at(deadline):
                done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            return None
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
        return next(waiting[task] for task in waiting if task in done)

    def _demote(self, member: _Member) -> None:
        """Call other members first, because this one failed."""
        member.failed_at = asyncio.get_running_loop().time()
        if len(self._members) > 1 and self._members[0] is member:
            self._members.append(self._members.pop(0))

    async def _reload_certificates(self) -> None:
        """Read changed certificates; new connections use them."""
        if not self._uses_tls:
            return
        async with self._certificates_lock:
            now = asyncio.get_running_loop().time()
            if self._content is not None and now - self._certificates_read_at < _CERTIFICATE_CHECK_PERIOD:
                return
            try:
                content = await asyncio.to_thread(self._tls.read)
            except CertificateError as error:
                if self._content is None:
                    raise Unavailable(str(error), sent=False) from error
                log.warning("keeping etcd certificates that were read before", error=str(error))
                content = self._content
            self._certificates_read_at = now
            if self._content is not None and content != self._content:
                log.info("using renewed certificates for etcd")
                for member in self._members:
                    member.retire()
            self._content = content

    async def _connection_errors(self) -> str:
        """The reasons why no member is connected, by a call to each: gRPC reports them only to calls."""
        reasons = []
        for member in self._members:
            with member.acquired() as channel:
                try:
                    await STATUS.of(channel)(rpc.StatusRequest(), timeout=0.2)
                    reasons.append(f"{member.endpoint.url}: connected too late")
                except grpc.aio.AioRpcError as error:
                    reasons.append(f"{member.endpoint.url}: {error.details()}")
        return f"no member of etcd can be reached ({'; '.join(reasons)})"

    async def _translate_errors(self, member: _Member, call: Awaitable[Result]) -> Result:
        """The result of a call, or its error as one of ours."""
        try:
            return await call
        except grpc.aio.AioRpcError as error:
            raise _error(member, error) from error
        except DecodeError as error:
            raise NotEtcd(f"{member.endpoint.url} sent an answer that is not an etcd message") from error
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                raise Closed("the client was closed") from None
            raise


class _Member:
    """One endpoint and its channel. A channel with old certificates is closed when its last call ends."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.failed_at = float("-inf")
        """By the loop's clock."""
        self._channel: Channel | None = None
        self._calls: dict[Channel, int] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def connect(self, tls: TlsContent | None, server_name: str) -> None:
        """Create a channel if there is none."""
        if self._channel is not None:
            return
        options: list[tuple[str, Any]] = list(OPTIONS.items())
        if self.endpoint.tls and tls is not None:
            if name := server_name or ("localhost" if self.endpoint.target.startswith("unix:") else ""):
                options.append(("grpc.ssl_target_name_override", name))
            self._channel = grpc.aio.secure_channel(self.endpoint.target, tls.channel_credentials(), options=options)
        else:
            self._channel = grpc.aio.insecure_channel(self.endpoint.target, options=options)
        self._calls[self._channel] = 0

    @property
    def _current(self) -> Channel:
        if self._channel is None:
            raise Closed("the client was closed", sent=False)
        return self._channel

    def state(self) -> State:
        """The state of the channel; an idle one starts connecting."""
        return self._current.get_state(try_to_connect=True)

    async def ready(self) -> None:
        """Return when the channel is connected."""
        await self._current.channel_ready()

    @contextmanager
    def acquired(self) -> Iterator[Channel]:
        """The channel, kept open during the block."""
        channel = self.acquire()
        try:
            yield channel
        finally:
            self.release(channel)

    def acquire(self) -> Channel:
        """The channel, kept open until it is released as often as it was acquired."""
        channel = self._current
        self._calls[channel] += 1
        return channel

    def release(self, channel: Channel) -> None:
        """Release the channel after a call."""
        if channel not in self._calls:
            return
        self._calls[channel] -= 1
        if channel is not self._channel and not self._calls[channel]:
            self._end(channel)

    def retire(self) -> None:
        """Have the next call create a new channel."""
        channel, self._channel = self._channel, None
        if channel is not None and not self._calls[channel]:
            self._end(channel)

    def _end(self, channel: Channel) -> None:
        del self._calls[channel]
        closing = asyncio.ensure_future(channel.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Close all channels."""
        self._channel = None
        channels, self._calls = list(self._calls), {}
        await asyncio.gather(*(channel.close() for channel in channels), *self._closing)


class _GrpcStream(Generic[Request, Response]):
    """A `Stream` to a member."""

    def __init__(
        self,
        connection: Connection,
        member: _Member,
        reads: grpc.aio.UnaryStreamCall[Request, Response] | grpc.aio.StreamStreamCall[Request, Response],
        writes: grpc.aio.StreamStreamCall[Request, Response] | None,
    ) -> None:
        self._connection = connection
        self._member = member
        self._reads = reads
        self._writes = writes
        self._channel: Channel | None = member.acquire()
        self._sending = asyncio.Lock()
        """gRPC cuts a stream on which a request is sent while another one is being sent."""

    async def send(self, request: Request) -> None:
        """Send a further request."""
        if self._writes is None:
            raise TypeError("a stream of responses takes no further requests")
        try:
            async with self._sending:
                await self._connection._translate_errors(self._member, self._writes.write(request))
        except asyncio.InvalidStateError as error:
            raise Unavailable(f"{self._member.endpoint.url} ended the stream", sent=False) from error

    async def started(self) -> None:
        """Return when the member has started to respond, or has ended the stream."""
        await self._connection._translate_errors(self._member, self._reads.initial_metadata())

    async def receive(self) -> Response | None:
        """The next response."""
        try:
            response = await self._connection._translate_errors(self._member, self._reads.read())
        except Unavailable:
            self._connection._demote(self._member)
            raise
        return None if response is grpc.aio.EOF else response  # type: ignore[return-value]

    async def close(self) -> None:
        """End the stream."""
        channel, self._channel = self._channel, None
        if channel is not None:
            self._reads.cancel()
            try:
                await self._reads.code()  # the call's tasks end with it
            finally:
                self._member.release(channel)


def _error(member: _Member, error: grpc.aio.AioRpcError) -> EtcdError:
    code, message = error.code(), error.details() or ""
    if code is Code.DEADLINE_EXCEEDED:
        message = f"{member.endpoint.url} did not answer in time"
    elif not message.startswith("etcdserver: "):
        message = message or f"{member.endpoint.url} answered {code.name} without a message"
    return error_of(code, message)
