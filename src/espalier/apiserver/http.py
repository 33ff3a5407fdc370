"""The HTTP shell: sockets, TLS and authentication. The endpoint handles requests.

One `HttpShell` per API server, hundreds of them in a process: a shell is a listening socket, a TLS context and a
protocol factory, nothing else. Requests become `kube.transports.wire.Request`s, watches are streamed line by line.
Nothing a client sends is logged: headers carry tokens, bodies carry Secrets.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, cast
from urllib.parse import parse_qsl, unquote

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader

from espalier.apiserver.wire import content, options
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import ApiError, BadRequest, Forbidden, ServerFailure, Status, Unauthorized
from espalier.kube.transports import serving
from espalier.kube.transports.wire import Endpoint, Request, Response, Stream, User, in_url

ANONYMOUS = User("system:anonymous", ("system:unauthenticated",))
AUTHENTICATED = "system:authenticated"
MASTERS = "system:masters"
OPEN_PATHS = frozenset({"/version", "/healthz", "/livez", "/readyz"})
"""Paths without authentication, for load balancers and `kubectl version`."""

MAX_BODY = 3 * 1024 * 1024
"""The maximum bytes of a request's body, after decompression; kube-apiserver's limit."""

BACKLOG = 1024
"""The listen backlog: hundreds of clients connect at once when a local environment starts."""

SWAGGER_PATH = "/openapi/v2"
"""Errors with a response format of their own."""

MAX_HEADER = 64 * 1024
STOP_GRACE = 5.0
"""Seconds for requests in progress to finish when the shell stops."""

WRITE_BUFFER = 64 * 1024
"""Bytes buffered for a client that does not read, besides the event or response being sent. There may be thousands
of watches."""

_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})
_HEADERS = {"content-type": content.JSON, "cache-control": "no-cache, private"}
_log = logging.getLogger(__name__)


class AddressTaken(OSError):
    """The address to listen on is in use."""

    def __str__(self) -> str:
        return self.strerror or ""


class HttpShell:
    """Serves an `Endpoint` on one address over TLS.

    Clients are known by a certificate of `client_ca` (PEM; common name = user, organizations = groups) or by a bearer
    token of `tokens` (looked up at each request); others get 401. A certificate of another authority is refused in the
    TLS handshake already. `port` 0 takes a free one, which `url` then names.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        serving: KeyPair,
        client_ca: bytes,
        tokens: Mapping[str, User] = MappingProxyType({}),
    ) -> None:
        self._endpoint = endpoint
        self._host = host
        self._port = port
        self._tokens = tokens
        self._context = tls_context(serving, client_ca)
        self._connections: Connections | None = None
        self._listener: asyncio.Server | None = None
        self._streams: set[Stream] = set()

    @property
    def port(self) -> int:
        """The port listened on; 0 before `start` if a free one is to be chosen."""
        return self._port

    @property
    def url(self) -> str:
        """The server's URL, for a kubeconfig."""
        return f"https://{in_url(self._host)}:{self._port}"

    async def start(self) -> None:
        """Begin to listen. Raises `AddressTaken` when another program has the port."""
        connections = Connections(self._handle)
        try:
            self._listener = await asyncio.get_running_loop().create_server(
                connections, self._host, self._port, ssl=self._context, backlog=BACKLOG
            )
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise AddressTaken(
                errno.EADDRINUSE,
                f"cannot listen on {self._host}:{self._port}: the port is in use",
            ) from error
        self._connections = connections
        self._port = self._listener.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening, end all watches, let requests under way finish for a few seconds; idempotent."""
        listener, connections = self._listener, self._connections
        self._listener = self._connections = None
        if listener is None or connections is None:
            return
        listener.close()
        for stream in list(self._streams):
            await stream.close()
        await connections.end(STOP_GRACE)
        await listener.wait_closed()

    async def _handle(self, incoming: web.BaseRequest) -> web.StreamResponse:
        try:
            user = self._user_of(incoming)
            request = await _request_of(incoming)
            if request.method == "GET" and options.flag(request.query, "watch"):
                answer = await self._endpoint.watch(request, user)
                if not isinstance(answer, Response):
                    return await self._stream(incoming, answer)
            else:
                answer = await self._endpoint.serve(request, user)
        except ApiError as error:
            answer = content.failure(error)
        except web.HTTPRequestTimeout as late:
            outgoing = _outgoing(content.failure(content.TooLate.of((late.text or "").strip())))
            outgoing.force_close()
            return outgoing
        except web.HTTPRequestEntityTooLarge:
            answer = content.failure(content.TooLarge.of(f"Request entity too large: limit is {MAX_BODY}"))
        except Exception:
            _log.exception("%s %s failed", incoming.method, incoming.rel_url.raw_path)
            answer = content.failure(ServerFailure.of("the server failed to answer; see its log"))
        if content.wants_yaml(incoming.headers.get("Accept", "")):
            answer = content.in_yaml(answer)
        return _outgoing(answer)

    async def _stream(self, incoming: web.BaseRequest, stream: Stream) -> web.StreamResponse:
        response = web.StreamResponse(headers=_HEADERS)
        connection = cast("Connection", incoming.protocol)
        self._streams.add(stream)
        if self._connections is None:
            await stream.close()  # `stop` came between the request and here
        try:
            with connection.watching():
                # Headers are sent at once: clients wait for them, though there may be no event yet.
                await response.prepare(incoming)
                async for document in stream:
                    async with asyncio.timeout(serving.ANSWER_WITHIN):
                        for piece in _pieces(document):
                            await response.write(piece)
        except ConnectionError:
            pass
        except TimeoutError:
            connection.abort()
        finally:
            self._streams.discard(stream)
            await stream.close()
        return response

    def _user_of(self, incoming: web.BaseRequest) -> User:
        user = self._authenticated(incoming)
        if user is None:
            if incoming.rel_url.raw_path in OPEN_PATHS:
                return ANONYMOUS
            raise Unauthorized(Status(message="Unauthorized", reason="Unauthorized", code=401))
        impersonated = incoming.headers.get("Impersonate-User")
        if not impersonated:
            named = sorted({name for name in incoming.headers if name.lower().startswith("impersonate-")})
            if named:
                raise BadRequest.of(f"{', '.join(named)} without Impersonate-User: set the user")
            return user
        if MASTERS not in user.groups:
            raise Forbidden.of(
                f'users "{impersonated}" is forbidden: User "{user.name}" cannot impersonate resource "users" '
                'in API group "" at the cluster scope'
            )
        return User(impersonated, (*incoming.headers.getall("Impersonate-Group", []), AUTHENTICATED))

    def _authenticated(self, incoming: web.BaseRequest) -> User | None:
        scheme, _, token = incoming.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            known = self._tokens.get(token.strip())
            return known and User(known.name, (*known.groups, AUTHENTICATED))
        transport = incoming.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return _user_of_certificate(certificate) if certificate else None


class Connection(serving.Connection):
    """One client connection; when it is lost, the watch that runs on it is cancelled at once."""

    __slots__ = ("_owner", "_watch")

    def __init__(self, connections: Connections, *, loop: asyncio.AbstractEventLoop, **options: Any) -> None:
        super().__init__(connections, loop=loop, **options)
        self._owner = connections
        self._watch: asyncio.Task[Any] | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Mark the current task as streaming a watch on this connection."""
        self._watch = asyncio.current_task()
        try:
            yield
        finally:
            self._watch = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Register an accepted connection."""
        super().connection_made(transport)
        self._owner.open[self] = accepted = cast("asyncio.Transport", transport)
        accepted.set_write_buffer_limits(WRITE_BUFFER)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Cancel the watch of a lost connection."""
        super().connection_lost(exc)
        self._owner.lost(self)
        if self._watch is not None:
            self._watch.cancel()


class Connections(web.Server):
    """Creates a `Connection` for each accepted socket. No access log: the endpoint counts requests."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> None:
        super().__init__(handler, request_factory=self._request)
        self.open: dict[Connection, asyncio.Transport] = {}
        self._all_lost: asyncio.Future[None] | None = None

    async def end(self, grace: float) -> None:
        """Close all connections: idle ones at once, others after their request or `grace` seconds.

        Does not wait for TLS close_notify of the other side.
        """
        self.pre_shutdown()
        await self.shutdown(grace)
        if self.open:
            self._all_lost = self._loop.create_future()
            for transport in self.open.values():
                serving.abort(transport)
            await self._all_lost

    def lost(self, connection: Connection) -> None:
        """Remove a closed connection."""
        del self.open[connection]
        if not self.open and self._all_lost is not None and not self._all_lost.done():
            self._all_lost.set_result(None)

    def __call__(self) -> Connection:
        """A protocol for one more connection."""
        return Connection(self, loop=self._loop, max_line_size=MAX_HEADER, max_field_size=MAX_HEADER)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: web.RequestHandler,
        writer: AbstractStreamWriter,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=MAX_BODY)


async def _request_of(incoming: web.BaseRequest) -> Request:
    path, _, query = incoming.raw_path.partition("?")
    headers = {name.lower(): value for name, value in incoming.headers.items()}
    # Bodies that are not needed are not read; they are drained with the connection.
    reads = incoming.method not in _WITHOUT_BODY and path not in OPEN_PATHS
    body = await serving.body_of(incoming) if reads and incoming.body_exists else b""
    parameters = dict(parse_qsl(query, keep_blank_values=True)) if query else {}
    if path != SWAGGER_PATH:
        content.acceptable(headers.get("accept", ""), stream="watch" in parameters)
    return Request(
        method=incoming.method,
        path=unquote(path),
        query=parameters,
        headers=headers,
        body=body,
    )


def _pieces(document: bytes) -> Iterator[bytes | memoryview]:
    """A line of a watch in pieces, so that of a large one only a piece is buffered for a slow reader."""
    if len(document) < WRITE_BUFFER:
        yield document + b"\n"
        return
    view = memoryview(document)
    for start in range(0, len(document), WRITE_BUFFER):
        yield view[start : start + WRITE_BUFFER]
    yield b"\n"


def _outgoing(answer: Response) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers={**_HEADERS, **answer.headers})


def _user_of_certificate(certificate: Mapping[str, Any]) -> User | None:
    """The user that a verified client certificate names, as kube-apiserver reads it."""
    subject = [attribute for name in certificate.get("subject", ()) for attribute in name]
    name = next((value for kind, value in subject if kind == "commonName"), "")
    groups = tuple(value for kind, value in subject if kind == "organizationName")
    return User(name, (*groups, AUTHENTICATED)) if name else None


def tls_context(serving: KeyPair, client_ca: bytes) -> ssl.SSLContext:
    """A server's TLS context with optional client certificates of `client_ca` (PEM)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Optional: bearer tokens work too, and without either the response is a 401 Status.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=client_ca.decode("ascii"))
    # The ssl module takes a certificate chain from a file only; this one is gone (mode 0600) once it has been read.
    with tempfile.NamedTemporaryFile() as file:
        file.write(serving.certificate + serving.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context
