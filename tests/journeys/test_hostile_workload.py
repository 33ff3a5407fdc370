"""Whoever is root in his own cluster answers what he likes. The manager of all others takes no harm of it."""

from __future__ import annotations

import asyncio
import gzip
import resource
from collections.abc import Callable
from functools import cache

import msgspec
import pytest
from aiohttp import web

from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.kube.connection.access import LARGEST_REMOTE_ANSWER
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Transport
from espalier.runtime.clock import SystemClock
from espalier.simulator.controller import Timing
from espalier.simulator.workload_clusters.transport import WorkloadTransport
from tests.support.environments.managed_environment import NAMESPACE, managed_environment
from tests.support.sampling import sampled
from tests.support.servers.https_server import Served, authority, client_pair, serve

pytestmark = pytest.mark.embedded

MIB = 1024**2
HOSTILE, QUICK = Key(NAMESPACE, "hostile"), Key(NAMESPACE, "quick")


@cache
def bomb() -> bytes:
    """Half a GiB of zeros; compressed where it is needed, for that takes a second."""
    return gzip.compress(bytes(512 * MIB), 1)


class Hostile:
    """An API server that answers every request in one way; `largest` is the most that one request took of it."""

    def __init__(self, part: bytes, parts: int, *, status: int = 200, **headers: str) -> None:
        self.part, self.parts, self.status, self.headers = part, parts, status, headers
        self.asked = 0
        self.largest = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked += 1
        sent = 0
        response = web.StreamResponse(
            status=self.status, headers={name.replace("_", "-"): value for name, value in self.headers.items()}
        )
        await response.prepare(request)
        for _ in range(self.parts):
            if request.transport is None or request.transport.is_closing():
                break
            await response.write(self.part)
            sent += len(self.part)
            self.largest = max(self.largest, sent)
            await asyncio.sleep(0)
        return response

    def reached(self, served: Served) -> Transport:
        """The way there, as the manager makes it of a kubeconfig."""
        kubeconfig = Kubeconfig.of_cluster(
            HOSTILE.name,
            server=served.url,
            certificate_authority=authority().certificate,
            user="admin",
            credentials=client_pair("admin"),
        )
        return HttpTransport(Kubeconfig.parse(kubeconfig.to_bytes()).context(), environment={})


STATUS = msgspec.json.encode({"kind": "Status", "status": "Failure", "code": 500, "message": "m" * (7 * MIB)})

ATTACKS: dict[str, tuple[Callable[[], Hostile], str]] = {
    "a body without end": (lambda: Hostile(b"[" * MIB, 4000), "more than 8 MiB"),
    "an error without end": (lambda: Hostile(b"x" * MIB, 4000, status=500), "more than 8 MiB"),
    "a body that is said to be huge": (lambda: Hostile(b"x", 1, content_length=str(10**12)), "more than 8 MiB"),
    "a small body that grows": (lambda: Hostile(bomb(), 1, content_encoding="gzip"), "which was not requested"),
    "a long message": (lambda: Hostile(STATUS, 1, status=500), "mmm"),
    "a deep body": (lambda: Hostile(b'{"metadata":{"name":"a"},"spec":' + b'{"a":' * MIB, 1), "begins with"),
    "no text": (lambda: Hostile(b'{"metadata":{"name":"\xff"}}', 1), "begins with"),
}


@pytest.mark.parametrize("attack", sampled(ATTACKS, *range(0, len(ATTACKS), 8)))
async def test_workload_clusters_can_not_harm_the_manager(attack: str) -> None:
    make, message = ATTACKS[attack]
    hostile = make()
    transports: list[Transport] = []
    spreads = True

    def wrap(transport: Transport) -> Transport:
        if spreads and isinstance(transport, WorkloadTransport):
            transports.append(hostile.reached(served))
            return transports[-1]
        return transport

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with (
        serve(hostile.handle) as served,
        managed_environment(SystemClock(), wrap=wrap, timing=Timing(boot=0.05)) as env,
    ):

        def says_why(cluster: Cluster) -> bool:
            return any(
                condition.type == names.READY and message in condition.message
                for condition in cluster.status.conditions
            )

        await env.apply(name=HOSTILE.name)
        cluster = await env.until(says_why, HOSTILE, seconds=60)
        assert all(len(condition.message) < 32 * 1024 for condition in cluster.status.conditions), (
            "what a condition takes"
        )
        spreads = False
        await env.apply(name=QUICK.name)
        await env.until_ready(QUICK)
        for transport in transports:
            await transport.close()
    assert hostile.asked
    assert hostile.largest <= LARGEST_REMOTE_ANSWER + 16 * MIB, "what the buffers on the way take on top"
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert grown < 200, "MiB: a few answers, the world and its database"
