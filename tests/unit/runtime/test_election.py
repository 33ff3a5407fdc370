"""Two candidates, one Lease, and a clock that jumps: at no moment may both write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, LEASE
from espalier.kube.client import Client
from espalier.kube.errors import ServerFailure
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request
from espalier.runtime import clock as clocks
from espalier.runtime.clock import SystemClock
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.fencing import Fence, Fenced, fenced
from espalier.runtime.options import Options
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.no_retry import NO_RETRY
from tests.support.servers.small_server import SmallServer, config_map

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/eksa-system/leases/manager"


class Candidate:
    """An election with its own way to the server, which can be cut."""

    def __init__(self, name: str, server: SmallServer, simulation: Simulation) -> None:
        self.name = name
        self.alive = True
        self.cut = False
        self.unheard = False
        """Its requests are carried out, and no answer comes."""
        self._server = server
        self.client = Client(InProcessTransport(self), retry=NO_RETRY)
        self.fence = Fence(simulation.clock.monotonic)
        self.election = Election(
            self.client,
            namespace="eksa-system",
            name="manager",
            identity=name,
            fence=self.fence,
            clock=simulation.clock,
            rng=simulation.random,
            alive=lambda: self.alive,
        )

    async def serve(self, request: Request, user: Any) -> Any:
        if self.cut:
            await asyncio.sleep(3600)
        answer = await self._server.serve(request, user)
        if self.unheard:
            await asyncio.sleep(3600)
        return answer

    async def watch(self, request: Request, user: Any) -> Any:
        return await self._server.watch(request, user)


def lease(server: SmallServer) -> Any:
    return server.objects[LEASE_PATH]["spec"]


def play(story: Callable[[SmallServer, Candidate, Candidate], Any]) -> Any:
    async def main(simulation: Simulation) -> Any:
        server = SmallServer()
        return await story(server, *(Candidate(name, server, simulation) for name in ("one", "two")))

    return simulate(main)


def test_second_candidate_waits_for_the_lease() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        waiting = asyncio.create_task(two.election.acquire())
        await asyncio.sleep(300)
        assert first.fence.is_open
        assert not waiting.done()
        holding.cancel()
        await asyncio.sleep(0)
        await first.election.release()
        released = asyncio.get_running_loop().time()
        await waiting
        assert asyncio.get_running_loop().time() - released < 4
        assert (first.fence.is_open, two.fence.is_open) == (False, True)
        assert (lease(server)["holderIdentity"], lease(server)["leaseTransitions"]) == ("two", 1)

    play(story)


def test_lease_is_released_after_a_cancelled_renewal() -> None:
    """Of a manager that is stopped while it renews: the next one would wait for the Lease to expire."""

    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        first.unheard = True
        await asyncio.sleep(3)
        first.unheard = False
        holding.cancel()
        await asyncio.sleep(0)
        await first.election.release()
        assert lease(server)["holderIdentity"] == ""

    play(story)


def test_lease_of_another_is_not_released() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        await asyncio.sleep(16)
        waiting = asyncio.create_task(two.election.acquire())
        await asyncio.sleep(20)
        assert waiting.done()
        await first.election.release()
        assert lease(server)["holderIdentity"] == "two"

    play(story)


def test_steady_leader_renews_every_two_seconds() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        asyncio.create_task(first.election.hold())  # noqa: RUF006 - ends with the loop
        del server.requests[:]
        await asyncio.sleep(60)
        assert {request.method for request in server.requests} == {"PATCH"}
        assert 29 <= len(server.requests) <= 31

    play(story)


def test_cut_off_leader_stops_before_the_next_begins() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        waiting = asyncio.create_task(two.election.acquire())
        await asyncio.sleep(33.3)
        first.cut = True
        cut = asyncio.get_running_loop().time()
        await holding
        stopped = asyncio.get_running_loop().time()
        assert 6 <= stopped - cut <= 10
        assert not first.fence.is_open
        with pytest.raises(Fenced, match="does not hold its Lease"):
            await fenced(first.client, first.fence).create(CONFIG_MAP, config_map("a"))
        await waiting
        assert asyncio.get_running_loop().time() - stopped >= 3
        await fenced(two.client, two.fence).create(CONFIG_MAP, config_map("a"))

    play(story)


def test_a_process_that_hangs_does_not_renew() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        first.alive = False
        async with asyncio.timeout(13):
            await holding
        assert not first.fence.is_open

    play(story)


def test_failures_that_pass_do_not_end_leadership() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        for _ in range(10):

            def refuse(request: Request) -> None:
                raise ServerFailure.of("not now")

            server.before = refuse
            await asyncio.sleep(5)
            server.before = lambda request: None
            await asyncio.sleep(5)
        assert not holding.done()
        assert first.fence.is_open

    play(story)


def test_leader_with_a_taken_lease_stops_at_once() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        await first.election.acquire()
        holding = asyncio.create_task(first.election.hold())
        server.put(
            {"metadata": {"name": "manager", "namespace": "eksa-system"}, "spec": {"holderIdentity": "x"}}, LEASE
        )
        async with asyncio.timeout(5):
            await holding

    play(story)


def test_abandoned_lease_is_taken_after_its_time() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        spec = {"holderIdentity": "dead", "leaseDurationSeconds": 15, "renewTime": "2019-01-01T00:00:00.000000Z"}
        server.put({"metadata": {"name": "manager", "namespace": "eksa-system"}, "spec": spec}, LEASE)
        await first.election.acquire()
        # Other machines' clocks are not trusted: that the renewal looks old means nothing.
        assert 15 <= asyncio.get_running_loop().time() <= 19
        assert lease(server)["holderIdentity"] == "one"

    play(story)


def test_two_who_begin_at_once_do_not_both_lead() -> None:
    async def story(server: SmallServer, first: Candidate, two: Candidate) -> None:
        server.slow = 0.1
        tasks = [asyncio.create_task(candidate.election.acquire()) for candidate in (first, two)]
        await asyncio.sleep(8)
        assert [task.done() for task in tasks].count(True) == 1
        assert [first.fence.is_open, two.fence.is_open].count(True) == 1

    play(story)


async def test_reads_pass_a_closed_fence() -> None:
    server = SmallServer()
    client = fenced(Client(InProcessTransport(server), retry=NO_RETRY), Fence(lambda: 0.0))
    assert (await client.list(CONFIG_MAP)).items == []


def test_managers_of_shares_have_different_leases() -> None:
    shares = [
        Options(),
        Options(namespaces=("team-a",)),
        Options(watch_filter="team-a"),
        Options(watch_filter="Team_A"),
        Options(controllers=("cluster",)),
    ]
    names = [share.lease_name("espalier") for share in shares]
    assert names[0] == "espalier"
    assert len({*names}) == len(names)
    assert all(name == name.lower() and "_" not in name for name in names)
    assert Options(controllers=("a", "b")).lease_name("x") != Options(controllers=("b",)).lease_name("x")


# -- a machine that is suspended


class Suspended:
    """The clock of one machine, that of all others plus the time it was suspended."""

    def __init__(self, simulation: Simulation) -> None:
        self._clock = simulation.clock
        self.slept = 0.0

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.slept)

    def monotonic(self) -> float:
        return self._clock.monotonic() + self.slept


@pytest.mark.parametrize("slept", [9.0, 12.0, 3600.0])
def test_suspended_machine_does_not_believe_to_lead(slept: float) -> None:
    """Its timers did not go on meanwhile, so nothing but the clock tells it."""

    async def main(simulation: Simulation) -> None:
        server = SmallServer()
        clock = Suspended(simulation)
        candidate = Candidate("one", server, Simulation(clock, simulation.random))  # type: ignore[arg-type]
        await candidate.election.acquire()
        holding = asyncio.create_task(candidate.election.hold())
        await asyncio.sleep(1.9)
        clock.slept = slept
        client = fenced(candidate.client, candidate.fence)
        with pytest.raises(Fenced):
            await client.create(CONFIG_MAP, config_map("a"))
        async with asyncio.timeout(2.1):
            await holding
        assert not candidate.fence.is_open

    simulate(main)


def test_system_clock_goes_on_in_a_suspension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.monotonic", lambda: 5.0)
    monkeypatch.setattr("time.clock_gettime", lambda which: {"boot": 3605.0}[which])
    monkeypatch.setattr(clocks, "_SINCE_BOOT", "boot")
    assert SystemClock().monotonic() == 3605.0
    monkeypatch.setattr(clocks, "_SINCE_BOOT", None)
    assert SystemClock().monotonic() == 5.0
