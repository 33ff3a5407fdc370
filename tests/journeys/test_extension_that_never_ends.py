"""An extension that does not finish: the Shoot tells of it in time, and goes on whenever it does finish."""

from __future__ import annotations

import asyncio

from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, garden

MINUTE = 60.0


def test_endless_extension_is_error_after_ten_minutes() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a") as world:
            world.seeds["a"].troubles.stuck.add("Infrastructure")
            await world.create_shoot()
            await asyncio.sleep(9 * MINUTE)
            assert not (await world.shoot()).status.last_errors
            await asyncio.sleep(2 * MINUTE)
            late = (await world.shoot()).status
            assert [error.task_id for error in late.last_errors] == ["Deploy infrastructure"]
            assert "its extension has not finished" in late.last_errors[0].description
            assert late.last_operation is not None
            assert late.last_operation.state == "Error"
            await asyncio.sleep(20 * MINUTE)
            assert (await world.shoot()).status == late, "nothing is new, so nothing is written"
            world.seeds["a"].troubles.stuck.clear()
            settled = await world.healthy("a")
            assert not settled.status.last_errors

    virtual.run(main, epoch=EPOCH, seed=1)
