"""When clusters that gave no answer are asked again: ever later, once at a time, and not after they answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from espalier.api.resource import Key
from espalier.clusters.design.drift.rate_limit import FIRST_PAUSE, FORGOTTEN_AFTER, LONGEST_PAUSE, TOLERATED, RateLimits
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GARDEN, OTHER = Key("team-a", "garden"), Key("team-a", "other")


def test_cluster_is_tried_ever_later() -> None:
    async def main(simulation: Simulation) -> None:
        rate_limits, tried, again = RateLimits(), list[float](), asyncio.Event()
        began = simulation.clock.now()

        def over(_key: Key) -> None:
            tried.append((simulation.clock.now() - began).total_seconds())
            again.set()

        rate_limits.subscribe(over)
        for _ in range(9):
            again.clear()
            rate_limits.try_again(GARDEN)
            rate_limits.try_again(GARDEN)  # passes come for other reasons as well
            await again.wait()
        pauses = [round(after - at) for at, after in zip([0.0, *tried], tried, strict=False)]
        assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
        assert pauses[-2:] == [LONGEST_PAUSE, LONGEST_PAUSE]

    run(main, epoch=EPOCH, seed=1)


def test_cluster_that_answered_begins_anew() -> None:
    async def main(_simulation: Simulation) -> None:
        rate_limits, tried = RateLimits(), list[Key]()
        rate_limits.subscribe(tried.append)
        rate_limits.try_again(GARDEN)
        rate_limits.try_again(OTHER)
        rate_limits.answered(GARDEN)
        await asyncio.sleep(FIRST_PAUSE + 1)
        assert tried == [OTHER]
        rate_limits.try_again(GARDEN)
        await asyncio.sleep(FIRST_PAUSE + 1)
        assert tried == [OTHER, GARDEN]

    run(main, epoch=EPOCH, seed=1)


def test_contested_field_rests_longer_than_others() -> None:
    async def main(simulation: Simulation) -> None:
        rate_limits, tried, again = RateLimits(), list[float](), asyncio.Event()
        loop = asyncio.get_running_loop()

        def over(_key: Key) -> None:
            tried.append(loop.time())
            again.set()

        rate_limits.subscribe(over)
        pauses = []
        for times in range(1, 1200):  # longer than a float can double
            rate_limits.corrected(GARDEN, ["a"])
            assert rate_limits.disputed(GARDEN, ["b"]) == rate_limits.disputed(OTHER, ["a"]) == {}
            began = loop.time()
            held = rate_limits.disputed(GARDEN, ["a", "b"])
            assert held == ({} if times < TOLERATED else {"a": times})
            assert rate_limits.disputed(GARDEN, ["a"]) == held  # passes come for other reasons as well
            if held:
                again.clear()
                await again.wait()
                pauses.append(tried[-1] - began)
        assert pauses[:3] == pytest.approx([FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE])
        assert pauses[-1] == pytest.approx(LONGEST_PAUSE)
        assert len(tried) == len(pauses), "once each"
        await asyncio.sleep(LONGEST_PAUSE + FORGOTTEN_AFTER)
        rate_limits.corrected(GARDEN, ["a"])
        assert rate_limits.disputed(GARDEN, ["a"]) == {}
        rate_limits.forget(GARDEN)

    run(main, epoch=EPOCH, seed=1)
