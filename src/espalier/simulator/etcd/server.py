"""The member over gRPC: on a TCP address or a unix socket, with TLS and client certificates if wanted."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import grpc
import grpc.aio
import structlog
from google.protobuf.message import Message

from espalier.etcd.errors import EtcdError
from espalier.etcd.messages.services import LEASE_KEEP_ALIVE, SNAPSHOT, WATCH, CallContext, Unary, generic_handlers
from espalier.simulator.etcd.member import UNARY, Member
from espalier.simulator.etcd.state.core import MOST_MESSAGE_BYTES

log = structlog.get_logger(__name__)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)

_GRACE = 0.5
"""Seconds that running calls have when the server is stopped."""
_OPTIONS = (
    ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),  # etcd's --grpc-keepalive-min-time
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


class NotListening(Exception):
    """The server can't listen on an address, which the message names."""


@dataclass(frozen=True)
class ServerTls:
    """Files of a server's certificate. With `client_ca`, clients must have a certificate of that authority."""

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def credentials(self) -> grpc.ServerCredentials:
        """Read the files. Raises `OSError`."""
        authority = self.client_ca.read_bytes() if self.client_ca is not None else None
        return grpc.ssl_server_credentials(
            [(self.key.read_bytes(), self.certificate.read_bytes())],
            root_certificates=authority,
            require_client_auth=authority is not None,
        )


@asynccontextmanager
async def serving(member: Member, url: str, tls: ServerTls | None = None) -> AsyncIterator[str]:
    """Serve a started member; yields its client URL, with the port chosen for port 0.

    `url` is `http://HOST:PORT`, `https://HOST:PORT` (then `tls` is needed), or `unix:///PATH`, a socket that
    is protected by the permissions of its folder. Raises `NotListening`, `ValueError`.
    """
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers(generic_handlers(_handlers(member)))
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https", "unix"} or (parts.scheme == "https") is not (tls is not None):
        raise ValueError(f"can't listen on {url}; use http://HOST:PORT, unix:///PATH, or https:// with TLS files")
    target = f"unix:{parts.path}" if parts.scheme == "unix" else parts.netloc
    try:
        if tls is not None:
            port = server.add_secure_port(target, tls.credentials())
        else:
            port = server.add_insecure_port(target)
    except (RuntimeError, OSError) as error:
        raise NotListening(f"can't listen on {url}: {error}") from error
    client_url = url if parts.scheme == "unix" else f"{parts.scheme}://{parts.hostname}:{port}"
    member.client_urls = (*member.client_urls, client_url)
    await server.start()
    log.warning("serving an etcd for tests, never for production", url=client_url)
    try:
        yield client_url
    finally:
        await server.stop(_GRACE)


def _handlers(member: Member) -> list[Any]:
    """The handler of each supported method. gRPC responds to others with `UNIMPLEMENTED`."""
    streams = (
        WATCH.answered_by(_stream(member.watch)),
        LEASE_KEEP_ALIVE.answered_by(_stream(member.keep_alive)),
        SNAPSHOT.answered_by(_stream(member.snapshot)),
    )
    return [*(method.answered_by(_unary(member, method)) for method in UNARY), *streams]


def _unary(
    member: Member, method: Unary[Request, Response]
) -> Callable[[Request, CallContext[Request, Response]], Awaitable[Response]]:
    async def answer(request: Request, context: CallContext[Request, Response]) -> Response:
        try:
            return await member.call(method, request)
        except EtcdError as error:
            await context.abort(error.code, error.message)

    return answer


def _stream(
    behavior: Callable[[Any], AsyncGenerator[Response, None]],
) -> Callable[[Any, CallContext[Any, Response]], AsyncIterator[Response]]:
    async def answer(
        request: Message | AsyncIterable[Message], context: CallContext[Any, Response]
    ) -> AsyncIterator[Response]:
        try:
            async with aclosing(behavior(request)) as responses:
                async for response in responses:
                    yield response
        except EtcdError as error:
            await context.abort(error.code, error.message)

    return answer
