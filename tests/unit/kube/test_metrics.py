"""Requests are counted under the names that dashboards know."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.metrics import MeasuredTransport, RequestMetrics
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response
from tests.support.servers.scripted_server import Documents, Script, failure


async def test_every_attempt_is_counted_by_its_outcome() -> None:
    registry = CollectorRegistry()
    script = Script(
        Response(201, b"12345"), failure(NotFound.of("")), Unreachable("lost"), Documents([]), Response(410)
    )
    transport = MeasuredTransport(InProcessTransport(script), RequestMetrics(registry), "kube.test:6443")
    await transport.request(Request("POST", "/a", body=b"123"))
    await transport.request(Request("GET", "/a"))
    with pytest.raises(Unreachable):
        await transport.request(Request("GET", "/a"))
    await transport.stream(Request("GET", "/a"))
    await transport.stream(Request("GET", "/a"))
    await transport.close()

    def total(method: str, code: str) -> float | None:
        labels = {"method": method, "code": code, "host": "kube.test:6443"}
        return registry.get_sample_value("rest_client_requests_total", labels)

    assert [total("POST", "201"), total("GET", "404"), total("GET", "<error>")] == [1, 1, 1]
    assert [total("GET", "200"), total("GET", "410")] == [1, 1]
    post = {"verb": "POST", "host": "kube.test:6443"}
    assert registry.get_sample_value("rest_client_request_duration_seconds_count", post) == 1
    assert registry.get_sample_value("rest_client_request_size_bytes_sum", post) == 3
    assert registry.get_sample_value("rest_client_response_size_bytes_sum", post) == 5
