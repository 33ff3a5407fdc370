"""Keys that come by themselves: when a value is over."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from espalier.api.resource import Key
from espalier.runtime.controllers.sources import Expiry, Source
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
GARDEN, OTHER = Key("team-a", "garden"), Key("team-a", "other")


def test_value_lasts_and_its_key_is_sent_at_the_end() -> None:
    async def main(_simulation: Simulation) -> None:
        expiry, sent = Expiry(), list[Key]()
        expiry.subscribe(sent.append)
        expiry.keep(GARDEN, "a", 10.0)
        expiry.keep(OTHER, "a", 10.0)
        assert expiry.is_valid(GARDEN, "a")
        assert not expiry.is_valid(GARDEN, "b")
        expiry.forget(OTHER)
        await asyncio.sleep(5.0)
        expiry.keep(GARDEN, "b", 10.0)
        assert not expiry.is_valid(GARDEN, "a")
        await asyncio.sleep(9.0)
        assert (sent, expiry.has_expired(GARDEN, "b")) == ([], False)
        await asyncio.sleep(2.0)
        assert (sent, expiry.has_expired(GARDEN, "b"), expiry.has_expired(GARDEN, "a")) == ([GARDEN], True, False)
        assert not expiry.is_valid(GARDEN, "b")
        expiry.forget(GARDEN)
        assert not expiry.has_expired(GARDEN, "b")

    run(main, epoch=EPOCH, seed=1)


def test_a_source_sends_to_all_who_listen() -> None:
    source, first, other = Source(), list[Key](), list[Key]()
    source.send(OTHER)
    source.subscribe(first.append)
    source.subscribe(other.append)
    source.send(GARDEN)
    assert (first, other) == ([GARDEN], [GARDEN])
