"""When clusters that gave no answer are asked again: ever later, once at a time, and not after they answered."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from espalier.api.resource import Key
from espalier.clusters.rate_limit import FIRST_PAUSE, LONGEST_PAUSE, RateLimits
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GARDEN, OTHER = Key("team-a", "garden"), Key("team-a", "other")


def test_a_cluster_is_tried_ever_later_however_often_that_is_asked_for() -> None:
    async def main(simulation: Simulation) -> None:
        rate_limits, tried, again = RateLimits(), list[float](), asyncio.Event()
        began = simulation.clock.now()

        def over(_key: Key) -> None:
            tried.append((simulation.clock.now() - began).total_seconds())
            again.set()

        rate_limits.when_over = over
        for _ in range(9):
            again.clear()
            rate_limits.try_again(GARDEN)
            rate_limits.try_again(GARDEN)  # passes come for other reasons as well
            await again.wait()
        pauses = [round(after - at) for at, after in zip([0.0, *tried], tried, strict=False)]
        assert pauses[:3] == [FIRST_PAUSE, 2 * FIRST_PAUSE, 4 * FIRST_PAUSE]
        assert pauses[-2:] == [LONGEST_PAUSE, LONGEST_PAUSE]

    run(main, epoch=EPOCH, seed=1)


def test_one_that_answered_meanwhile_is_not_tried_and_begins_anew() -> None:
    async def main(_simulation: Simulation) -> None:
        rate_limits, tried = RateLimits(), list[Key]()
        rate_limits.when_over = tried.append
        rate_limits.try_again(GARDEN)
        rate_limits.try_again(OTHER)
        rate_limits.answered(GARDEN)
        await asyncio.sleep(FIRST_PAUSE + 1)
        assert tried == [OTHER]
        rate_limits.try_again(GARDEN)
        await asyncio.sleep(FIRST_PAUSE + 1)
        assert tried == [OTHER, GARDEN]

    run(main, epoch=EPOCH, seed=1)
