"""Clusters moved to another management cluster, at once: how long it takes, what it asks of both API servers, and what
the managers do about it.

    python -m benchmarks.bench_moves [--clusters 500]

Both management clusters with their managers, the machines and the command run in this process, one after the other: its
CPU time is what they would need together.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import structlog

from benchmarks.measure import arguments, report, size
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.runtime import virtual
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.control_plane import READING_VERBS
from tests.support.environments.managed_environment import CALM, NAMESPACE, managed_environment
from tests.support.environments.many_clusters import all_ready, apply
from tests.support.environments.two_management_clusters import mover

SECONDS = 3600.0
COMMAND = "journey"
"""User agent of the command here."""


def asked(servers: list[Server]) -> Counter[str]:
    """The requests of the command, by verb."""
    result: Counter[str] = Counter()
    for server in servers:
        for (verb, _, _, who), count in server.requests.items():
            if who == COMMAND:
                result["reads" if verb in READING_VERBS else "writes"] += count
    return result


async def measured(simulation: virtual.Simulation, count: int) -> list[str]:
    async with (
        managed_environment(simulation.clock) as source,
        managed_environment(simulation.clock, seed=2, machines_of=source.workloads) as target,
    ):
        await apply(source.client, count)
        await target.apply(name="other")  # with its first cluster, the record of a management cluster gets a finalizer
        await all_ready(source.clusters, count, seconds=SECONDS)
        await asyncio.sleep(CALM)
        keys = [Key(NAMESPACE, f"garden-{number:03}") for number in range(count)]
        servers = [source.server, target.server]
        before, written = asked(servers), target.written()
        began = time.process_time()
        await (await mover(source.client, target.client)).move(keys)
        cpu = time.process_time() - began
        requests = asked(servers) - before
        await asyncio.sleep(CALM)
        settled = time.process_time() - began
        writes = (target.written() - written).total()
    return [
        f"CPU of the move       {cpu:.1f} s: {cpu / count * 1000:.0f} ms for each cluster",
        f"until all is calm     {settled:.1f} s",
        f"asked of both         {requests['reads']} reads, {requests['writes'] / count:.1f} writes for each cluster",
        f"written by the target {writes} times afterwards",
    ]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=size(500, 2))
    given = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    lines = virtual.run(lambda simulation: measured(simulation, given.clusters), epoch=EPOCH, seed=1)
    report(f"{given.clusters} clusters moved to another management cluster", *lines)


if __name__ == "__main__":
    main()
