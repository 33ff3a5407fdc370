"""Control planes that move, on virtual time: agents, copies, etcds and doors as they are put together in earnest."""

from __future__ import annotations

import asyncio

from tests.support.moves import Moves, moving


def test_in_the_good_case_nothing_that_was_acknowledged_is_lost() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        await moves.initiated(source)
        destination = moves.seat()
        await moves.taken_over(destination)
        assert moves.witnesses.acknowledged
        assert await moves.missing(destination) == []
        assert moves.witnesses.first(2) - moves.witnesses.last(1) < 60

    moving(story)
