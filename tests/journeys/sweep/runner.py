"""Random histories of a cluster: what users ask, what hands edit, what fails; and whether it ends well.

A history is drawn from its seed alone. When it is over, the faults end, and what people paused goes on. Then the
cluster is what is asked for, or a condition says what to do: the harness does that, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator, Sequence
from functools import cache

from espalier.apiserver.storage.store import MemoryStore
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.journeys.sweep.checks import ENDS, end_of
from tests.journeys.sweep.hands import HANDS
from tests.journeys.sweep.history import Act, History, Where, Wish
from tests.journeys.sweep.remedies import ends_well
from tests.journeys.sweep.users import USERS
from tests.support.environments.in_place_environment import EPOCH
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.recording import EnvironmentState
from tests.support.environments.upgraders import Upgraders
from tests.support.servers.faults import Fault, Faults


@cache
def beginning(*, in_place: bool = False) -> EnvironmentState:
    """A cluster that is ready, and nothing was ever wrong."""

    async def main(simulation: Simulation) -> EnvironmentState:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores) as env:
            await env.apply(**Wish(in_place=in_place).spec())
            await env.until_ready()
            await asyncio.sleep(60)
            return EnvironmentState.of(store, stores, simulation.clock)

    return run(main, epoch=EPOCH, seed=1)


def learn(wish: Wish) -> None:
    """Have an environment come to its end undisturbed, once for each wish."""
    key = tuple(vars(wish).items())
    if key in ENDS:
        return

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            Upgraders(env.workloads)
            await env.apply(**wish.spec())
            await env.until_ready()
            await asyncio.sleep(60)
            ENDS[key] = await end_of(History(env, random.Random(1), wish, Faults(random.Random(1))))

    run(main, epoch=EPOCH, seed=1)


class Unlearned(Exception):
    """The end that a history is to be compared with is not known yet."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(wish)
        self.wish = wish


def tell(seed: int, acts: Sequence[str] = (), *, in_place: bool | None = None) -> list[str]:
    """Live through the history of a seed, or through these acts. Returns what was done.

    Raises `AssertionError` that tells the history when it does not end well.
    """
    for _ in range(2):
        try:
            return _tell(seed, acts, in_place)
        except Unlearned as unlearned:
            learn(unlearned.wish)
    raise AssertionError("a history that is told again is another one: it is not deterministic")


def _tell(seed: int, acts: Sequence[str], in_place: bool | None) -> list[str]:
    rng = random.Random(seed)
    is_in_place = rng.random() < 0.3 if in_place is None else in_place
    state = beginning(in_place=is_in_place)
    known = {**USERS, **HANDS}
    chosen = list(acts) or [rng.choice([*known]) for _ in range(rng.randint(3, 8))]

    async def main(simulation: Simulation) -> list[str]:
        store, stores = state.opened()
        faults = Faults(random.Random(rng.getrandbits(64)))
        wish, told = Wish(in_place=is_in_place), [f"seed {seed}"]
        foreign_ones: list[Where] = []
        left = iter(chosen)
        over = False
        while not over:
            async with managed_environment(
                simulation.clock,
                seed=rng.getrandbits(32),
                store=store,
                stores=stores,
                wrap=faults,
            ) as env:
                Upgraders(env.workloads)
                h = History(env, rng, wish, faults, told, foreign_ones)
                over = await _live(h, left, known, fails=not acts)
                if over:
                    faults.present, faults.after_write = (), None
                    if tuple(vars(h.wish).items()) not in ENDS:
                        raise Unlearned(h.wish)
                    await ends_well(h)
                wish = h.wish
        return told

    return run(main, epoch=state.at, seed=seed)


async def _live(h: History, left: Iterator[str], known: dict[str, Act], *, fails: bool) -> bool:
    """Act after act, until there is none left (True), or until the manager crashes."""
    crashed = asyncio.Event()
    for name in left:
        if fails:
            h.faults.present = tuple(item for item in Fault if h.rng.random() < 0.2)
            if h.faults.present:
                h.say(f"faults: {', '.join(item.value for item in h.faults.present)}")
        h.say(await known[name](h))
        if fails and h.rng.random() < 0.25:
            h.faults.after_write = crashed.set
        try:
            async with asyncio.timeout(h.rng.choice((0.0, 1.0, 7.0, 30.0, 200.0, 1000.0))):
                await crashed.wait()
        except TimeoutError:
            continue
        h.say("the manager crashes after a write")
        return False
    return True
