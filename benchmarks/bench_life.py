"""The life of clusters in one process on a simulated clock: CPU to create, scale, upgrade and delete each.

    python -m benchmarks.bench_life [--clusters 10]

API server, manager, Cluster API and machines are the embedded and simulated ones, and no time passes between their
events: what is measured is the work of all of them. Two builds are compared by running it with each `PYTHONPATH` in
turn.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import structlog

from benchmarks.measure import arguments, report, size
from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, managed_environment

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CLUSTERS = size(10, 1)


async def live(env: ManagedEnvironment, keys: list[Key]) -> list[tuple[str, float]]:
    """The parts of their life, all clusters at once, each with its CPU seconds."""

    async def each(act: Callable[[Key], Awaitable[object]]) -> float:
        began = time.process_time()
        await asyncio.gather(*map(act, keys))
        return time.process_time() - began

    async def create(key: Key) -> None:
        await env.apply(name=key.name)
        await env.until_ready(key)

    async def scale(key: Key) -> None:
        await env.change(key, workerNodeGroupConfigurations=[{"name": "md-0", "count": 4}])
        await env.until_ready(key)

    async def upgrade(key: Key) -> None:
        await env.change(key, kubernetesVersion="1.36")
        await env.until_ready(key)

    async def delete(key: Key) -> None:
        await env.client.delete(Cluster.resource, key.name, key.namespace)
        await env.until_gone(key)

    return [(act.__name__, await each(act)) for act in (create, scale, upgrade, delete)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--clusters", type=int, default=CLUSTERS)
    count = parser.parse_args().clusters
    costs: list[tuple[str, float]] = []
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))

    async def story(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await live(env, [Key(NAMESPACE, "first")])  # imports, schemas and the like are not a cluster's
            costs.extend(await live(env, [Key(NAMESPACE, f"garden-{number}") for number in range(count)]))

    run(story, epoch=EPOCH, seed=1)
    figures = ", ".join(f"{name} {1000 * seconds / count:.0f} ms" for name, seconds in costs)
    total = 1000 * sum(seconds for _, seconds in costs) / count
    report(f"life of {count} clusters at once, CPU of each", f"{figures}; together {total:.0f} ms")


if __name__ == "__main__":
    main()
