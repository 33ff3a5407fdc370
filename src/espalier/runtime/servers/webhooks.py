"""The webhook server: handlers by path, with a certificate that can be replaced while it serves.

Most handlers are admission webhooks, which answer immediately; endpoints serve other callers than API servers.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TypeAlias

import structlog
from aiohttp import web

from espalier.kube.connection.pki import KeyPair
from espalier.kube.connection.tls import trust
from espalier.kube.transports.serving import body_of
from espalier.runtime.metrics import Metrics
from espalier.runtime.servers import admission
from espalier.runtime.servers.admission import AdmissionResponse, Handler, NoReview
from espalier.runtime.servers.certificates import ServingCertificate
from espalier.runtime.servers.serving import HttpServer

LARGEST_BODY = 8 * 1024 * 1024
"""Bytes; an AdmissionReview has an object (at most 3 MiB) twice."""

Endpoint: TypeAlias = Callable[[bytes], Awaitable[bytes]]
"""Returns the body of the response to that of a POST, both JSON. Raises `BadBody`."""


class BadBody(ValueError):
    """A request that an endpoint does not accept."""


_log = structlog.get_logger("espalier.webhooks")


class Webhooks:
    """Admission handlers, and the server that serves them to API servers.

    In the same process as the API server, no server is needed (`port` None): `review` answers directly. With a
    `client_ca` (PEM), reviews require a client certificate of it, which API servers get from their admission
    configuration. (Endpoints require none, as their callers have none.)
    """

    def __init__(
        self,
        *,
        host: str = "0.0.0.0",  # noqa: S104 - API servers call from other hosts
        port: int | None = 9443,
        client_ca: bytes | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._handlers: dict[str, Handler] = {}
        self._endpoints: dict[str, Endpoint] = {}
        self._metrics: Metrics | None = None
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._requires_client_certificate = client_ca is not None
        if client_ca is not None:
            self._context.verify_mode = ssl.CERT_OPTIONAL
            trust(self._context, client_ca)
        self._certified = asyncio.Event()
        self._server: HttpServer | None = None
        self.certificate: ServingCertificate | None = None
        """Provider of the serving certificate; set it before the manager runs."""

    def measured_by(self, metrics: Metrics) -> None:
        """Report to these metrics."""
        self._metrics = metrics

    def handle(self, path: str, handler: Handler) -> None:
        """Answer reviews sent to `path` (`/mutate-…`, `/validate-…`) with `handler`."""
        self._check_free(path)
        self._handlers[path] = handler

    def serve(self, path: str, endpoint: Endpoint) -> None:
        """Answer what is sent to `path` with `endpoint`."""
        self._check_free(path)
        self._endpoints[path] = endpoint

    @property
    def paths(self) -> list[str]:
        """All paths with a handler or endpoint."""
        return [*self._handlers, *self._endpoints]

    @property
    def serving(self) -> bool:
        """True if API servers can call it, or need not."""
        return self._server is not None or self._port is None

    @property
    def port(self) -> int:
        """The port it listens on, once it serves."""
        if self._server is None:
            raise RuntimeError("the webhook server does not serve yet")
        return self._server.port

    def review(self, path: str, body: bytes) -> bytes:
        """Answer the AdmissionReview in `body`. Raises `LookupError` for an unknown path, `NoReview`.

        If a handler fails, the write is refused with an internal error.
        """
        handler = self._handlers.get(path)
        if handler is None:
            raise LookupError(f"no webhook is served at {path}; known paths: {', '.join(self.paths)}")
        started = time.perf_counter()
        code = 200
        try:
            answer, response = admission.review(body, handler)
            code = 200 if response.allowed else response.code
        except NoReview:
            code = 400
            raise
        except Exception:
            _log.exception("panic in a webhook", path=path)
            code = 500
            message = "the webhook failed; see its log"
            answer = admission.encode(
                admission.uid_of(body), None, AdmissionResponse(False, message, code, "InternalError")
            )
        finally:
            self._measure(path, code, started)
        return answer

    async def call(self, path: str, body: bytes) -> bytes:
        """Answer a call of an endpoint. Raises `BadBody`, and any exception of the endpoint."""
        started = time.perf_counter()
        code = 500
        try:
            answer = await self._endpoints[path](body)
            code = 200
        except BadBody:
            code = 400
            raise
        finally:
            self._measure(path, code, started)
        return answer

    def use(self, pair: KeyPair) -> None:
        """Serve new connections with this certificate."""
        # The ssl module loads a certificate chain from a file only; this one (mode 0600) is deleted right after.
        with tempfile.NamedTemporaryFile() as file:
            file.write(pair.certificate + pair.key)
            file.flush()
            self._context.load_cert_chain(file.name)
        self._certified.set()

    async def start(self) -> None:
        """Listen, once there is a certificate."""
        if self._port is None:
            return
        await self._certified.wait()
        application = web.Application(client_max_size=LARGEST_BODY)
        application.router.add_post("/{path:.*}", self._respond)
        server = HttpServer(application, self._host, self._port, context=self._context)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Stop listening."""
        if self._server is not None:
            await self._server.stop()
            self._server = None

    async def _respond(self, request: web.Request) -> web.Response:
        with self._in_flight(request.path):
            return await self._respond_to(request)

    def _in_flight(self, path: str) -> AbstractContextManager[None]:
        if self._metrics is None or path not in self.paths:
            return nullcontext()
        return self._metrics.webhook_in_flight.labels(path).track_inprogress()

    async def _respond_to(self, request: web.Request) -> web.Response:
        is_endpoint = request.path in self._endpoints
        if self._requires_client_certificate and not is_endpoint and not request.get_extra_info("peercert"):
            raise web.HTTPForbidden(text="reviews require the client certificate of an API server\n")
        body = await body_of(request)
        try:
            answer = await self.call(request.path, body) if is_endpoint else self.review(request.path, body)
            return web.Response(body=answer, content_type="application/json")
        except (NoReview, BadBody) as error:
            raise web.HTTPBadRequest(text=f"{error}\n") from error
        except LookupError as error:
            raise web.HTTPNotFound(text="no webhook is served here\n") from error  # known paths are not disclosed
        except Exception as error:
            _log.exception("panic in an endpoint", path=request.path)
            raise web.HTTPInternalServerError(text="the endpoint failed; see its log\n") from error

    def _check_free(self, path: str) -> None:
        if path in self.paths:
            raise ValueError(f"{path} already has a handler")

    def _measure(self, path: str, code: int, started: float) -> None:
        if self._metrics is not None:
            self._metrics.webhook_requests.labels(path, str(code)).inc()
            self._metrics.webhook_latency.labels(path).observe(time.perf_counter() - started)
