"""Shoots evacuated from a dead seed at once: how long it takes, what it asks of garden and seeds, and what limits it.

    python -m benchmarks.bench_evacuation [--shoots 100] [--seeds 4]

Default times, and the source is released by hand as soon as it is dead. Extensions are those of type `local` on the
simulated cloud; control planes take no pods, so that is not measured which a kubelet would do.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter

import structlog

from benchmarks.measure import arguments, report, size
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.apiserver.server import Server
from espalier.runtime import virtual
from tests.support.gardens.garden_users import is_whole
from tests.support.gardens.gardens import EPOCH, World, garden

SOURCE = "a"


def asked(servers: list[Server]) -> Counter[str]:
    """Requests by program, users and fakes apart."""
    result: Counter[str] = Counter()
    for server in servers:
        for (verb, _, _, who), count in server.requests.items():
            if who in ("garden", "gardenlet", "extensions"):
                result[f"{who} {'reads' if verb in ('get', 'list', 'watch') else 'writes'}"] += count
    return result


async def ready_times(world: World, wanted: dict[str, str]) -> dict[str, float]:
    """When each shoot was whole on its seed."""
    done: dict[str, float] = {}
    while len(done) < len(wanted):
        for shoot in (await world.client.list(Shoot.resource)).items:
            if shoot.name not in done and is_whole(shoot.decode(Shoot), wanted[shoot.name]):
                done[shoot.name] = asyncio.get_running_loop().time()
        await asyncio.sleep(1)
    return done


async def measured(simulation: virtual.Simulation, shoots: int, seeds: int) -> list[str]:
    names = [chr(ord("a") + number) for number in range(seeds)]
    async with garden(simulation, *names, with_cloud=True) as world:
        at = {f"shoot-{number}": SOURCE for number in range(shoots)}
        for name in at:
            await world.create_shoot(name, SOURCE)
        await ready_times(world, at)
        await asyncio.sleep(60)
        await world.seeds[SOURCE].power_off()
        servers = [world.server, *(world.seeds[name].server for name in names[1:])]
        garden_before, seeds_before = asked(servers[:1]), asked(servers[1:])
        wanted = {name: names[1 + number % (seeds - 1)] for number, name in enumerate(at)}
        began, cpu = asyncio.get_running_loop().time(), time.process_time()
        for name, seed in wanted.items():
            await world.move(seed, name)
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}}, name)
        done = await ready_times(world, wanted)
        cpu = time.process_time() - cpu
        to_garden, to_seeds = asked(servers[:1]) - garden_before, asked(servers[1:]) - seeds_before
    times = [moment - began for moment in done.values()]
    timing = Timing()
    least = timing.progress_timeout + timing.lease_wait
    return [
        f"simulated time        {statistics.median(times):.0f} s (of {shoots}: {min(times):.0f} to {max(times):.0f})",
        f"of which are waits    {least:g} s: progressTimeout {timing.progress_timeout:g} and leaseWait"
        f" {timing.lease_wait:g}",
        f"CPU of all programs   {cpu:.0f} s: {cpu / shoots:.2f} s for each migration",
        f"asked of the garden   {each(to_garden, shoots)}, for each migration",
        f"asked of seeds        {each(to_seeds, shoots)}, for each migration",
    ]


def each(requests: Counter[str], shoots: int) -> str:
    return ", ".join(f"{what} {count / shoots:.1f}" for what, count in sorted(requests.items()))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--shoots", type=int, default=size(100, 1))
    parser.add_argument("--seeds", type=int, default=size(4, 2))
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    lines = virtual.run(lambda simulation: measured(simulation, given.shoots, given.seeds), epoch=EPOCH, seed=1)
    report(f"{given.shoots} shoots evacuated from a dead seed to {given.seeds - 1} others at once", *lines)


if __name__ == "__main__":
    main()
