"""The collections that a manager lists and watches when it starts: each of them once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.cli.programs import components
from espalier.clusters.observe.references import OF_OTHERS
from espalier.kube.client import Client
from espalier.kube.transports.wire import Request, Response
from espalier.providers.registry import PROVIDERS
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.options import Options
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SELECTED = (OF_OTHERS, metadata_keys.ADOPTED_LABEL)
"""Secrets and ConfigMaps with these labels are listed alone, too: none is made for each cluster."""


class Empty:
    """An API server with all kinds and no objects, which counts what is listed and watched."""

    def __init__(self) -> None:
        self.lists: Counter[str] = Counter()
        self.watches: Counter[str] = Counter()

    async def request(self, request: Request) -> Response:
        self.lists[request.path] += _is_whole(request)
        return Response(200, b'{"kind":"List","metadata":{"resourceVersion":"1"},"items":[]}')

    async def stream(self, request: Request) -> Silence:
        self.watches[request.path] += _is_whole(request)
        return Silence()

    async def close(self) -> None: ...


class Silence:
    """A watch without events."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        await asyncio.get_running_loop().create_future()
        yield b""

    async def close(self) -> None: ...


def _is_whole(request: Request) -> bool:
    """True if a kind is asked for, and not a few objects of it."""
    return "fieldSelector" not in request.query and request.query.get("labelSelector") not in SELECTED


@pytest.mark.parametrize("options", [Options(), Options(namespaces=("a",))], ids=["all", "one namespace"])
@pytest.mark.parametrize("front_end", FrontEnd)
def test_no_collection_is_listed_or_watched_twice(front_end: FrontEnd, options: Options) -> None:
    async def main(simulation: Simulation) -> None:
        server = Empty()
        manager = Manager(Client(server), clock=simulation.clock, rng=simulation.random, options=options)
        assemble(manager, components.of_manager(PROVIDERS, front_end=front_end))
        running = asyncio.create_task(manager.run())
        await manager.leading.wait()
        await asyncio.sleep(1)
        assert "/apis/cluster.x-k8s.io/v1beta2/namespaces/eksa-system/machinedeployments" in server.lists
        for requests in (server.lists, server.watches):
            assert {path for path, number in requests.items() if number > 1} == set()
        manager.stop()
        await running

    run(main, epoch=EPOCH, seed=1)
