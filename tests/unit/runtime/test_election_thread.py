from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import pytest

from espalier.kube.client import Client
from espalier.runtime.clock import SystemClock
from espalier.runtime.leadership.election import Election, Timing
from espalier.runtime.leadership.election_thread import ElectionThread
from espalier.runtime.leadership.fencing import Fence
from tests.support.servers.small_server import SmallServer, client_of

QUICK = Timing(lease=1.0, renew=0.5, retry=0.05)


@pytest.mark.soak
async def test_lease_is_renewed_while_event_loop_is_busy() -> None:
    server = SmallServer()
    fence = Fence(time.monotonic)
    election = elected(server, fence)
    await election.acquire()
    holding = asyncio.create_task(election.hold())
    await asyncio.sleep(0)
    busy_until = time.monotonic() + 3 * QUICK.renew
    while time.monotonic() < busy_until:
        sum(range(1000))
    assert fence.is_open
    holding.cancel()
    await asyncio.wait([holding])
    await election.release()
    assert not fence.is_open
    assert server.objects[PATH]["spec"]["holderIdentity"] == ""


PATH = "/apis/coordination.k8s.io/v1/namespaces/eksa-system/leases/manager"


def elected(server: SmallServer, fence: Fence) -> ElectionThread:
    def candidate(client: Client, alive: Callable[[], bool]) -> Election:
        return Election(
            client,
            namespace="eksa-system",
            name="manager",
            identity="one",
            fence=fence,
            clock=SystemClock(),
            rng=random.Random(1),
            timing=QUICK,
            alive=alive,
        )

    return ElectionThread("manager", candidate, lambda: client_of(server), fence)


async def test_event_loop_that_does_not_answer_loses_lease() -> None:
    server = SmallServer()
    fence = Fence(time.monotonic)
    election = elected(server, fence)
    await election.acquire()
    holding = asyncio.create_task(election.hold())
    await asyncio.sleep(0)
    election._last_heartbeat = time.monotonic() - 60  # the loop has not answered for a minute,
    assert election._heartbeat_timer is not None
    election._heartbeat_timer.cancel()  # and goes on so
    async with asyncio.timeout(60):
        await holding
    assert not fence.is_open
    await election.release()
