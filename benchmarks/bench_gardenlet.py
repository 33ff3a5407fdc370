"""A gardenlet with settled shoots over an hour of virtual time: what it writes, what it costs, what it holds.

    python -m benchmarks.bench_gardenlet [--shoots 200]

Seed and garden are embedded API servers of this process, and control planes take no pods: what is measured is the
gardenlet, as the difference between an hour with it and one without it.
"""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections import Counter

import structlog

from benchmarks.measure import arguments, report, size
from espalier.api.gardener.garden.shoot import Shoot
from espalier.apiserver.server import Server
from espalier.runtime import virtual
from tests.support.gardens.garden_users import is_whole
from tests.support.gardens.gardens import EPOCH, GARDENLET, World, garden

HOUR = 3600.0
READS = ("get", "list", "watch")
MIB = 1 << 20


def asked(server: Server) -> Counter[str]:
    """Requests of gardenlets, by verb and resource."""
    result: Counter[str] = Counter()
    for (verb, resource, sub, who), count in server.requests.items():
        if who == GARDENLET:
            result[f"{verb} {resource}{f'/{sub}' if sub else ''}"] += count
    return result


async def settled(world: World) -> None:
    while not all(is_whole(item.decode(Shoot), "a") for item in (await world.client.list(Shoot.resource)).items):  # noqa: ASYNC110
        await asyncio.sleep(10)


async def an_hour() -> float:
    """CPU seconds of an hour of virtual time."""
    began = time.process_time()
    await asyncio.sleep(HOUR)
    return time.process_time() - began


async def measured(simulation: virtual.Simulation, shoots: int) -> list[str]:
    async with garden(simulation, "a", delay=0.2) as world:
        for number in range(shoots):
            await world.create_shoot(f"shoot-{number}", "a")
        await settled(world)
        await asyncio.sleep(600)
        garden_before, seed_before = asked(world.server), asked(world.seeds["a"].server)
        with_it = await an_hour()
        to_garden = asked(world.server) - garden_before
        to_seed = asked(world.seeds["a"].server) - seed_before
        await world.garden.kill("gardenlet a")
        without = await an_hour()
        gc.collect()
        tracemalloc.start()
        began = time.process_time()
        world.seeds["a"].run_gardenlet()
        await asyncio.sleep(120)
        start = time.process_time() - began
        gc.collect()
        held = tracemalloc.get_traced_memory()[0] / MIB
        tracemalloc.stop()
    return [
        f"writes to the garden   {written(to_garden)}",
        f"writes to the seed     {written(to_seed)}",
        f"reads                  {read(to_garden)} of the garden, {read(to_seed)} of the seed",
        f"CPU                    {with_it - without:.1f} s: {(with_it - without) / HOUR:.2%} of a core",
        f"CPU of a start         {start:.1f} s, with what it is measured by",
        f"memory                 {held:.0f} MiB more with it: {held * 1024 / shoots:.0f} KiB for each shoot",
    ]


def written(requests: Counter[str]) -> str:
    writes = {what: count for what, count in requests.items() if what.partition(" ")[0] not in READS}
    return ", ".join(f"{count} {what}" for what, count in sorted(writes.items())) or "none"


def read(requests: Counter[str]) -> int:
    return sum(count for what, count in requests.items() if what.partition(" ")[0] in READS)


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--shoots", type=int, default=size(200, 1))
    shoots = parser.parse_args().shoots
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    lines = virtual.run(lambda simulation: measured(simulation, shoots), epoch=EPOCH, seed=1)
    report(f"a gardenlet with {shoots} settled shoots, an hour of virtual time", *lines)


if __name__ == "__main__":
    main()
