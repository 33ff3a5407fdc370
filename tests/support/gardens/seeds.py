"""Seeds on virtual time, for tests: their programs are coroutines."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from espalier.api.core import NAMESPACE, POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.pods.runtimes.in_process import InProcessPrograms
from espalier.simulator.seeds import Seed
from tests.support.waiting import eventually

T = TypeVar("T")

EPOCH = datetime(2026, 3, 1, 8, 30, tzinfo=UTC)
PATIENCE = 900.0
"""Virtual seconds after which something that is waited for is given up."""
SHOOT = "shoot--team--garden"


def on_a_seed(programs: InProcessPrograms, story: Callable[[Seed], Awaitable[T]], *, seed: int = 1) -> T:
    """Tell a story on a seed that has the namespace of a shoot."""

    async def told(simulation: Simulation) -> T:
        made = Seed("a", programs, clock=simulation.clock, rng=simulation.random, keys=random.Random(seed))
        await made.start()
        try:
            await made.workload.client.create(NAMESPACE, namespace(SHOOT))
            return await story(made)
        finally:
            await made.destroy()

    return run(told, epoch=EPOCH, seed=seed)


def namespace(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


async def until(holds: Callable[[], object], *, seconds: float = PATIENCE) -> None:
    """Wait until something holds. On virtual time looking often costs little."""
    await eventually(holds, within=seconds)


def pod_of(seed: Seed, name: str, namespace: str = SHOOT) -> Tree | None:
    result = seed.workload.object(POD, Key(namespace, name))
    return None if result is None else result.tree


def is_ready(seed: Seed, name: str, namespace: str = SHOOT) -> bool:
    """True if a pod is Ready."""
    status = (pod_of(seed, name, namespace) or {}).get("status") or {}
    return any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in status.get("conditions") or ()
    )
