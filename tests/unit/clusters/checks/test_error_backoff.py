"""A server is asked one thing at a time; one that was away, or refused an account, is left alone for a while."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import NamedTuple

import pytest

from espalier.clusters.report.checks.error_backoff import REFUSED, UNREACHABLE, ErrorBackoff
from espalier.clusters.report.checks.questions import Credentials, LookUpError, Server
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Query(NamedTuple):
    server: Server
    what: str = "all"


A, B = Query(Server("a.example.com")), Query(Server("b.example.com"))
ANN, EVE = Credentials("ann", "apple"), Credentials("ann", "elder")
SESSION = 7.0
"""Seconds."""


class Api:
    """Counts what it is asked, and answers by the errors that are set."""

    def __init__(self, seconds: float = 0) -> None:
        self.query = 0
        self.at_once: dict[Server, int] = {}
        self.most_at_once = 0
        self.seconds = seconds
        self.errors: dict[tuple[Query, Credentials], LookUpError] = {}

    async def __call__(self, query: Query, credentials: Credentials, /) -> str:
        self.query += 1
        self.at_once[query.server] = self.at_once.get(query.server, 0) + 1
        self.most_at_once = max(self.most_at_once, *self.at_once.values())
        await asyncio.sleep(self.seconds)
        self.at_once[query.server] -= 1
        if (query, credentials) in self.errors:
            raise self.errors[query, credentials]
        return "answers"


@pytest.mark.parametrize(("refused", "pause", "spares_account"), [(False, UNREACHABLE, True), (True, REFUSED, False)])
def test_same_error_is_reported_without_asking_again(refused: bool, pause: float, spares_account: bool) -> None:
    async def story(simulation: Simulation) -> None:
        api = Api()
        api.errors[A, ANN] = LookUpError("Reason", "message", refused=refused)
        look_up = ErrorBackoff(api, simulation.clock)
        for _ in range(3):
            with pytest.raises(LookUpError, match="message") as told:
                await look_up(A, ANN)
            assert told.value.refused is refused
        assert api.query == 1
        await look_up(B, ANN)  # another server is asked
        assert api.query == 2
        if spares_account:
            with pytest.raises(LookUpError):
                await look_up(A, EVE)
            assert api.query == 2
        else:
            await look_up(A, EVE)  # another password is tried at once
            assert api.query == 3
        api.errors.clear()
        await asyncio.sleep(pause - 1)
        with pytest.raises(LookUpError):
            await look_up(A, ANN)
        await asyncio.sleep(2)
        assert await look_up(A, ANN) == "answers"

    run(story, epoch=EPOCH, seed=0)


def test_other_question_does_not_get_a_known_error() -> None:
    async def story(simulation: Simulation) -> None:
        api = Api()
        api.errors[A, ANN] = LookUpError("UnexpectedAnswer", "what?", is_there=True)
        look_up = ErrorBackoff(api, simulation.clock)
        for _ in range(3):
            with pytest.raises(LookUpError, match="what"):
                await look_up(A, ANN)
        assert api.query == 1
        assert await look_up(Query(A.server, "something else"), ANN) == "answers"
        api.errors.clear()
        await asyncio.sleep(UNREACHABLE + 1)
        assert await look_up(A, ANN) == "answers"

    run(story, epoch=EPOCH, seed=0)


def test_objects_of_one_server_take_turns() -> None:
    async def story(simulation: Simulation) -> None:
        api = Api(SESSION)
        look_up = ErrorBackoff(api, simulation.clock)
        begun = simulation.clock.monotonic()
        many = [asyncio.create_task(look_up(Query(A.server, str(number)), ANN)) for number in range(100)]
        await look_up(B, ANN)
        assert simulation.clock.monotonic() - begun == pytest.approx(SESSION)
        assert set(await asyncio.gather(*many)) == {"answers"}
        assert api.most_at_once == 1

    run(story, epoch=EPOCH, seed=0)


def test_waiting_objects_do_not_ask_lost_server_again() -> None:
    async def story(simulation: Simulation) -> None:
        api = Api(SESSION)
        api.errors[A, ANN] = LookUpError("Unreachable", "away")
        look_up = ErrorBackoff(api, simulation.clock)
        told = await asyncio.gather(*(look_up(A, ANN) for _ in range(100)), return_exceptions=True)
        assert {str(item) for item in told} == {"away"}
        assert api.query == 1

    run(story, epoch=EPOCH, seed=0)


def test_no_repr_has_the_password() -> None:
    assert "apple" not in repr(ANN)
