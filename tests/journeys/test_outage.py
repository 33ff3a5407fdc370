"""An hour in which no write succeeds is over soon after it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from espalier.kube.errors import ApiError, Conflict, Forbidden, Invalid, ServerFailure, TooManyRequests, Unreachable
from espalier.kube.objects import encode_json
from espalier.kube.wire import Request, Response, Transport
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.journeys.faulty import Passing
from tests.journeys.managed import MANAGER_AGENT, managed_laptop
from tests.journeys.test_quiet import all_ready, apply

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Failing = Callable[[], Response]


def _away() -> Response:
    raise Unreachable("connection reset")


def _refused(error: type[ApiError]) -> Failing:
    status = error.of("not now").status
    return lambda: Response(status.code, encode_json(status))


class Outage(Passing):
    """While it lasts, nothing that the manager writes arrives."""

    def __init__(self, transport: Transport, lasts: asyncio.Event, failing: Failing) -> None:
        super().__init__(transport)
        self._lasts, self._failing = lasts, failing

    async def request(self, request: Request) -> Response:
        is_mine = request.headers.get("user-agent") == MANAGER_AGENT
        if self._lasts.is_set() and is_mine and request.method != "GET":
            return self._failing()
        return await self.transport.request(request)


@pytest.mark.embedded
@pytest.mark.parametrize(
    "failing",
    [_away, *map(_refused, (ServerFailure, Forbidden, Conflict, Invalid, TooManyRequests))],
    ids=["away", "500", "403", "409", "422", "429"],
)
def test_after_an_hour_of_failed_writes_a_cluster_is_ready_within_minutes(failing: Failing) -> None:
    async def main(simulation: Simulation) -> None:
        lasts = asyncio.Event()

        def wrap(transport: Transport) -> Transport:
            return Outage(transport, lasts, failing)

        async with managed_laptop(simulation.clock, wrap=wrap) as world:
            lasts.set()
            await apply(world.client, 3)
            await asyncio.sleep(3600)
            lasts.clear()
            await all_ready(world.clusters, 3, seconds=60 + 120)

    virtual.run(main, epoch=EPOCH, seed=1)
