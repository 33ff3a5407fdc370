"""An hour in which no write succeeds is over soon after it is over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from espalier.kube.errors import ApiError, Conflict, Forbidden, Invalid, ServerFailure, TooManyRequests, Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.many_clusters import all_ready, apply
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, is_of_manager, refusal

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)

Failing = Callable[[], Response]


def _away() -> Response:
    raise Unreachable("connection reset")


def _refused(error: type[ApiError]) -> Failing:
    return lambda: refusal(error.of("not now"))


class Outage(Interceptor):
    """While it lasts, nothing that the manager writes arrives."""

    def __init__(self, failing: Failing) -> None:
        self.lasts = False
        self._failing = failing

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.lasts and request.method != "GET" and is_of_manager(request):
            return self._failing()
        return await transport.request(request)


@pytest.mark.soak
@pytest.mark.embedded
@pytest.mark.parametrize(
    "failing",
    sampled([_away, *map(_refused, (ServerFailure, Forbidden, Conflict, Invalid, TooManyRequests))], 3),
    ids=["away", "500", "403", "409", "422", "429"],
)
def test_cluster_is_ready_soon_after_an_hour_of_outage(failing: Failing) -> None:
    async def main(simulation: Simulation) -> None:
        outage = Outage(failing)
        async with managed_environment(simulation.clock, wrap=outage) as env:
            outage.lasts = True
            await apply(env.client, 3)
            await asyncio.sleep(3600)
            outage.lasts = False
            await all_ready(env.clusters, 3, seconds=60 + 120)

    virtual.run(main, epoch=EPOCH, seed=1)
