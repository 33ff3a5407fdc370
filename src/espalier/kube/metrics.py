"""Request metrics under the names of client-go, so that dashboards for Kubernetes controllers show Espalier too."""

from __future__ import annotations

import asyncio

from prometheus_client import CollectorRegistry

from espalier.kube.measures import Measure
from espalier.kube.transports.wire import Request, Response, Stream, Transport

_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_BYTES = (64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216)
_NO_ANSWER = "<error>"


_BY_VERB = ("verb", "host")

REQUESTS = Measure(
    "rest_client_requests",
    "counter",
    "Requests by status code, method and host; <error> when no answer arrived.",
    ("code", "method", "host"),
    to_do="a rise of `<error>` or 5xx: look at that API server; of 429: it is overloaded",
)
REQUEST_SECONDS = Measure(
    "rest_client_request_duration_seconds", "histogram", "Seconds to the whole answer.", _BY_VERB, _SECONDS
)
REQUEST_BYTES = Measure("rest_client_request_size_bytes", "histogram", "Bytes of request bodies.", _BY_VERB, _BYTES)
RESPONSE_BYTES = Measure("rest_client_response_size_bytes", "histogram", "Bytes of answers.", _BY_VERB, _BYTES)

MEASURES = (REQUESTS, REQUEST_SECONDS, REQUEST_BYTES, RESPONSE_BYTES)


class RequestMetrics:
    """Counts and durations of requests, in one registry. Watches are counted, and timed until they start."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.total = REQUESTS.counter(registry)
        self.seconds = REQUEST_SECONDS.histogram(registry)
        self.request_bytes = REQUEST_BYTES.histogram(registry)
        self.response_bytes = RESPONSE_BYTES.histogram(registry)


class MeasuredTransport:
    """A transport that measures every attempt; `host` is the label of the API server."""

    def __init__(self, transport: Transport, metrics: RequestMetrics, host: str) -> None:
        self._transport = transport
        self._metrics = metrics
        self._host = host

    async def request(self, request: Request) -> Response:
        """Send one request."""
        start = asyncio.get_running_loop().time()
        code = _NO_ANSWER
        try:
            response = await self._transport.request(request)
            code = str(response.status)
            self._metrics.response_bytes.labels(request.method, self._host).observe(len(response.body))
            return response
        finally:
            self._observe(request, code, start)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        start = asyncio.get_running_loop().time()
        code = _NO_ANSWER
        try:
            answer = await self._transport.stream(request)
            code = str(answer.status) if isinstance(answer, Response) else "200"
            return answer
        finally:
            self._observe(request, code, start)

    async def close(self) -> None:
        """Close the wrapped transport."""
        await self._transport.close()

    def _observe(self, request: Request, code: str, start: float) -> None:
        verb = (request.method, self._host)
        self._metrics.total.labels(code, *verb).inc()
        self._metrics.seconds.labels(*verb).observe(asyncio.get_running_loop().time() - start)
        self._metrics.request_bytes.labels(*verb).observe(len(request.body))
