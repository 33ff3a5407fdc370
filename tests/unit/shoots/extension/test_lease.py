"""Leases: two clocks that have to agree, and what is no lease."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest

from espalier.api.etcd.timing import Timing
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.leases import micro_time
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import Leases
from espalier.shoots.extension.actuator import Actuator
from espalier.shoots.extension.attempt import Attempt, AttemptTools, Extension
from espalier.shoots.extension.errors import Stopped
from espalier.shoots.extension.guard import Guard, Verdict
from tests.support.environments.simulated_loop import simulate

NAME = "shoot--garden--rose"
START = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Clocks:
    """Two clocks that are set apart from each other."""

    wall: datetime = START
    boot: float = 1000.0

    def now(self) -> datetime:
        return self.wall

    def monotonic(self) -> float:
        return self.boot

    def passes(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.boot += seconds


class World:
    def __init__(self) -> None:
        self.clocks = Clocks()
        self.caches = Snapshot()
        self.leases = Leases(self.caches.of(Cluster.resource), self.clocks, Timing())
        self._version = 0

    def write(self, expiration: Any, *seeds: str) -> None:
        self._version += 1
        metadata = {"name": NAME, "resourceVersion": str(self._version)}
        tree = {"apiVersion": Cluster.resource.api_version, "kind": "Cluster", "metadata": metadata}
        spec: dict[str, Any] = {"leaseExpiration": expiration}
        if seeds:
            spec["shoot"] = {"spec": {"seedName": seeds[0]}, "status": {"seedName": seeds[1]}}
        self.caches.put(Object(msgspec.json.encode({**tree, "spec": spec})))

    def renew(self, seconds: float = 120) -> None:
        self.write(micro_time(self.clocks.wall + timedelta(seconds=seconds)))

    @property
    def reason(self) -> str:
        return self.leases.of(NAME).reason


def test_lease_is_valid_again_once_renewed() -> None:
    world = World()
    assert world.reason == "ClusterMissing"
    world.renew()
    assert world.leases.of(NAME).seconds == 120
    world.clocks.passes(119.9)
    assert world.leases.of(NAME).is_valid
    world.clocks.passes(0.1)
    assert world.reason == "LeaseExpired"
    world.renew()
    assert world.leases.of(NAME).is_valid


def test_clock_set_back_extends_no_lease() -> None:
    world = World()
    world.renew()
    world.clocks.boot += 120
    world.clocks.wall -= timedelta(seconds=3)
    assert world.reason == "LeaseExpired"


def test_a_wall_clock_that_is_set_ahead_ends_a_lease() -> None:
    world = World()
    world.renew()
    world.clocks.wall += timedelta(seconds=121)
    assert world.reason == "LeaseExpired"


def test_event_without_news_extends_no_lease() -> None:
    world = World()
    world.renew()
    expiration = micro_time(START + timedelta(seconds=120))
    world.clocks.passes(100)
    world.write(expiration)
    assert world.leases.of(NAME).seconds == pytest.approx(20)


def test_event_after_a_clock_set_back_extends_no_lease() -> None:
    """The Cluster was changed, and its lease was not renewed: what has passed since it was seen stays passed."""
    world = World()
    world.renew()
    expiration = micro_time(START + timedelta(seconds=120))
    world.clocks.passes(100)
    world.clocks.wall -= timedelta(seconds=100)
    world.write(expiration)
    assert world.leases.of(NAME).seconds == pytest.approx(20)


def test_lease_too_far_ahead_is_a_wrong_clock() -> None:
    world = World()
    world.renew(seconds=3600)
    assert world.reason == "ClockSkew"
    assert "correct the clock of this machine" in world.leases.of(NAME).message


NO_TIMES: list[Any] = [None, "", "soon", 7, [], "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:02:00", "9" * 5000]


@pytest.mark.parametrize("value", NO_TIMES)
def test_an_invalid_time_is_no_lease(value: Any) -> None:
    world = World()
    world.renew()
    world.write(value)
    assert world.reason == "LeaseMissing"


def test_a_cluster_that_was_deleted_has_no_lease() -> None:
    """One of its name counts from when it is seen."""
    world = World()
    world.renew()
    cluster = world.caches.get(Cluster.resource.api_version, "Cluster", Key("", NAME))
    world.leases._changed(cluster, None, False)
    assert world.reason == "LeaseMissing"
    world.leases._changed(None, None, False)  # as of an object that came and went before it was listed
    world.leases._changed(None, cluster, False)
    assert world.leases.of(NAME).seconds == 120


async def _forever() -> None:
    await asyncio.sleep(10_000)


def guarded(story: Callable[[Guard], Awaitable[None]], *, seconds: float, longest: float = 1000.0) -> float:
    """How long a story took under a verdict that is over after so many seconds."""

    async def main(simulation: Simulation) -> float:
        clock = simulation.clock

        def judge() -> Verdict:
            left = seconds - clock.monotonic()
            return Verdict(left) if left > 0 else Verdict(0, "Over", "it is over")

        await story(Guard(judge, clock, longest))
        return clock.monotonic()

    return simulate(main)


@pytest.mark.parametrize(("seconds", "longest", "reason"), [(42, 1000, "Over"), (1000, 17, "OperationTooLong")])
def test_work_that_would_go_on_is_cancelled_in_time(seconds: float, longest: float, reason: str) -> None:
    async def story(guard: Guard) -> None:
        with pytest.raises(Stopped) as stopped:
            await guard.run(_forever())
        assert stopped.value.reason == reason

    assert guarded(story, seconds=seconds, longest=longest) == pytest.approx(min(seconds, longest))


def test_stopped_operation_stays_stopped_when_renewed() -> None:
    """Its author may hold a call back since; another operation has begun by then."""
    verdicts = [Verdict(0, "LeaseExpired", "it is over"), Verdict(120)]

    async def story(simulation: Simulation) -> None:
        guard = Guard(lambda: verdicts.pop(0), simulation.clock, 1000.0)
        for _ in range(2):
            with pytest.raises(Stopped, match="it is over"):
                guard.check()

    simulate(story)


def test_author_who_swallows_end_is_stopped_all_same() -> None:
    called: list[str] = []

    async def call() -> None:
        called.append("called")

    async def story(guard: Guard) -> None:
        async def stubborn() -> str:
            for _ in range(50):
                try:
                    await guard.call(call)
                    await asyncio.sleep(1)
                except (Stopped, asyncio.CancelledError):
                    continue
            return "done"

        with pytest.raises(Stopped):
            await guard.run(stubborn())

    guarded(story, seconds=10)
    assert len(called) == 10


def test_leaving_shoot_has_no_lease() -> None:
    """Whatever its resources say: with an edited status the source would otherwise create again what it released."""
    world = World()
    expiration = micro_time(world.clocks.wall + timedelta(seconds=120))
    for seeds, reason in ((("a", "a"), ""), (("b", "a"), "ShootMigrating"), (("a", "a"), "")):
        world.write(expiration, *seeds)
        assert world.reason == reason


KEY = Key(NAME, "apple")


def attempt(world: World, requested: str = "", last: str = "Create Processing", unleased: bool = False) -> Attempt[Any]:
    """An attempt at the operation of a resource in the shoot's namespace."""
    kind, state = last.split()
    annotations = {metadata_keys.OPERATION: requested} if requested else {}
    tree = {
        "apiVersion": Infrastructure.resource.api_version,
        "kind": "Infrastructure",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace, "annotations": annotations},
        "spec": {"type": "local"},
        "status": {"lastOperation": {"type": kind, "state": state}},
    }
    shoot_object = Object(msgspec.json.encode(tree))
    world.caches.put(shoot_object)
    extension: Extension[Any] = Extension(
        Infrastructure.resource,
        "local",
        cast(Actuator[Any], None),
        unleased=tuple(OperationType) if unleased else (),
    )
    cache = world.caches.of(Infrastructure.resource)
    tools = AttemptTools(extension, cache, cast(Writer, None), world.leases, world.clocks, longest=60)
    return Attempt(tools, shoot_object)


def test_an_operation_may_last_as_long_as_its_lease() -> None:
    """A second longer, and another seed may act for the same machines."""
    world = World()
    assert attempt(world).verdict().reason == "ClusterMissing"
    world.renew(100)
    made = attempt(world)
    assert made.verdict() == Verdict(100)
    world.clocks.passes(99)
    assert made.verdict().seconds == 1
    made.guard.check()
    world.clocks.passes(1)
    assert made.verdict().reason == "LeaseExpired"
    with pytest.raises(Stopped):
        made.guard.check()
    assert attempt(world, unleased=True).verdict() == Verdict(math.inf), "it creates nothing"


def test_resource_is_migrated_without_a_lease() -> None:
    world = World()
    world.renew()
    running = attempt(world)
    assert running.verdict().reason == ""
    assert attempt(world, "migrate").verdict() == Verdict(math.inf)
    assert running.verdict().reason == "Superseded", "what is in the cache must be migrated"
