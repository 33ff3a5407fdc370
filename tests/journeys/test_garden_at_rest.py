"""A garden whose shoots are settled: what its programs ask and write, and what that costs.

ESPALIER_RESTING_SHOOTS says how many shoots there are. What is found is printed (`pytest -s`).
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.runtime import logs, virtual
from espalier.runtime.clock import LoopClock, SystemClock
from tests.support.gardens.garden_users import is_whole
from tests.support.gardens.gardens import EPOCH, GARDENLET, World, garden

pytestmark = pytest.mark.soak

SHOOTS = int(os.environ.get("ESPALIER_RESTING_SHOOTS", "5"))
MINUTES, SECONDS = 20, 60
READS = frozenset({"get", "list", "watch"})
RENEWAL = ("patch", "clusters", "", GARDENLET)
HEARTBEAT = ("patch", "leases", "", GARDENLET)
MOST_CPU = 0.004
"""Of a core, for each shoot and all programs: ten times what was measured."""


def test_a_garden_at_rest_writes_leases_alone() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with settled(simulation, SHOOTS) as world:
            logs.setup(level="critical")
            before, began = requests(world), time.process_time()
            await asyncio.sleep(MINUTES * 60)
            asked, cpu = requests(world) - before, time.process_time() - began
            told(asked, f"{SHOOTS} shoots, {MINUTES} minutes of simulated time", cpu)
            writes = {what: count for what, count in asked.items() if what[0] not in READS}
            lease = world.timing.lease_renewal
            assert set(writes) == {RENEWAL, HEARTBEAT}
            assert writes[RENEWAL] == pytest.approx(SHOOTS * MINUTES * 60 / lease, abs=SHOOTS)
            assert cpu < MINUTES * 60 * MOST_CPU * SHOOTS

    virtual.run(main, epoch=EPOCH, seed=1)


async def test_a_garden_at_rest_needs_little_cpu() -> None:
    """On the real clock: programs of garden, seeds and extensions, with the API servers that they ask."""
    logs.setup(level="critical")
    simulation = virtual.Simulation(cast(LoopClock, SystemClock()), random.Random(1))
    async with settled(simulation, SHOOTS, delay=0.01, rest=5) as world:
        before, began = requests(world), time.process_time()
        await asyncio.sleep(SECONDS)
        asked, cpu = requests(world) - before, time.process_time() - began
        told(asked, f"{SHOOTS} shoots, {SECONDS} s of real time", cpu)
        assert {what for what in asked if what[0] not in READS} <= {RENEWAL, HEARTBEAT}
        assert cpu < SECONDS * MOST_CPU * max(SHOOTS, 10)


@asynccontextmanager
async def settled(
    simulation: virtual.Simulation, shoots: int, *, delay: float = 0.2, rest: float = 120
) -> AsyncIterator[World]:
    async with garden(simulation, "a", "b", delay=delay, with_cloud=True) as world:
        for number in range(shoots):
            await world.create_shoot(f"shoot-{number}", "ab"[number % 2])
        while not await are_whole(world):  # noqa: ASYNC110  also on virtual time
            await asyncio.sleep(5)
        await asyncio.sleep(rest)
        yield world


async def are_whole(world: World) -> bool:
    shoots = [item.decode(Shoot) for item in (await world.client.list(Shoot.resource)).items]
    return all(is_whole(item, item.spec.seed_name or "") for item in shoots)


def requests(world: World) -> Counter[tuple[str, str, str, str]]:
    """Of all programs, by verb, resource, subresource and program."""
    servers = (world.server, *(seed.server for seed in world.seeds.values()))
    total = sum((Counter(server.requests) for server in servers), Counter[tuple[str, str, str, str]]())
    return Counter({what: count for what, count in total.items() if what[3] != "user"})


def told(asked: Counter[tuple[str, str, str, str]], what: str, cpu: float) -> None:
    """Print what was asked."""
    reads = sum(count for (verb, *_), count in asked.items() if verb in READS)
    writes = ", ".join(f"{count} {verb} {kind}" for (verb, kind, *_), count in asked.items() if verb not in READS)
    print(f"\n{what}: {asked.total()} requests, of which {reads} are reads, and {writes}; {cpu:.2f} s of CPU")
    for (verb, kind, part, program), count in sorted(asked.items()):
        print(f"  {program:12} {verb:6} {kind}{part and '/' + part}  {count}")
