"""Work that is done together: all of it ends, and a failure is told."""

from __future__ import annotations

import asyncio

import pytest

from espalier.runtime.concurrency import together


async def test_failure_is_raised_after_all_has_ended() -> None:
    ended: list[str] = []

    async def fails(why: str) -> None:
        raise ValueError(why)

    async def ends() -> None:
        for _ in range(10):
            await asyncio.sleep(0)
        ended.append("late")

    with pytest.raises(ValueError, match="first"):
        await together([fails("first"), ends(), fails("second")])
    assert ended == ["late"]
    await together([ends()])
    await together([])
