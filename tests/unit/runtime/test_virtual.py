from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from espalier.runtime import virtual
from espalier.runtime.virtual import NotInSimulation, Simulation, Stalled

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_year_passes_in_a_moment() -> None:
    async def main(simulation: Simulation) -> datetime:
        await asyncio.sleep(365 * 86400)
        return simulation.clock.now()

    assert virtual.run(main, epoch=EPOCH, seed=1) == EPOCH + timedelta(days=365)


def test_timers_ring_in_order() -> None:
    async def main(simulation: Simulation) -> list[tuple[str, float]]:
        rung: list[tuple[str, float]] = []

        async def ring(name: str, after: float) -> None:
            await asyncio.sleep(after)
            rung.append((name, simulation.clock.monotonic()))

        await asyncio.gather(ring("late", 7.3), ring("soon", 0.1), ring("never", 1e6), ring("middle", 0.1 + 0.2))
        return rung

    assert [name for name, _ in virtual.run(main, epoch=EPOCH, seed=1)] == ["soon", "middle", "late", "never"]


def test_equal_seeds_replay_equally() -> None:
    async def main(simulation: Simulation) -> list[str]:
        story: list[str] = []

        async def walk(name: str) -> None:
            for _ in range(20):
                await asyncio.sleep(simulation.random.random())
                story.append(f"{name} {simulation.clock.now().isoformat()}")

        await asyncio.gather(*(walk(name) for name in "abc"))
        return story

    first, again, other = (virtual.run(main, epoch=EPOCH, seed=seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_endless_wait_is_an_error_with_its_name() -> None:
    async def main(simulation: Simulation) -> None:
        asyncio.current_task().set_name("the patient one")  # type: ignore[union-attr]
        await asyncio.Event().wait()

    with pytest.raises(Stalled, match="the patient one"):
        virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    "outside",
    [
        lambda: asyncio.to_thread(time.monotonic),
        lambda: asyncio.open_connection("127.0.0.1", 1),
        lambda: asyncio.start_server(lambda reader, writer: None, "localhost", 0),
        lambda: asyncio.create_subprocess_exec("true"),
    ],
)
def test_sockets_threads_and_processes_are_refused(outside: Callable[[], Awaitable[object]]) -> None:
    async def main(simulation: Simulation) -> None:
        await outside()

    with pytest.raises(NotInSimulation):
        virtual.run(main, epoch=EPOCH, seed=1)


def test_a_timeout_is_simulated_as_well() -> None:
    async def main(simulation: Simulation) -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await asyncio.sleep(3600)
        return simulation.clock.monotonic()

    assert virtual.run(main, epoch=EPOCH, seed=1) == pytest.approx(30)


def test_wait_for_the_rest_of_a_time_ends() -> None:
    async def main(simulation: Simulation) -> int:
        due, turns = 0.1 + 0.2 + 20.7, 0
        await asyncio.sleep(due - 1e-14)
        while (left := due - simulation.clock.monotonic()) > 0:
            woken = asyncio.ensure_future(asyncio.Event().wait())
            await asyncio.wait((woken,), timeout=left)
            woken.cancel()
            turns += 1
            assert turns < 10
        return turns

    virtual.run(main, epoch=EPOCH, seed=1)
