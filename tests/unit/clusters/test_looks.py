"""Looks into workload clusters: few at once, never in the way, and an answer is no older than it may be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.clusters import looks
from espalier.clusters.looks import Looks, Question
from espalier.clusters.rendered import Manifest
from espalier.kube.client import Client
from espalier.kube.wire import Request, Response, Stream
from espalier.runtime.remote import RemoteClients
from espalier.runtime.virtual import Simulation, run

GARDEN = Key("team-a", "garden")
MANIFEST = Manifest(CONFIG_MAP, {"metadata": {"name": "cni", "namespace": "kube-system"}, "data": {"a": "b"}})


class Slow:
    """A workload cluster that has nothing, and takes its time to say so."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.asked = 0
        self.at_once = 0
        self.most_at_once = 0

    async def request(self, request: Request) -> Response:
        self.asked += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await asyncio.sleep(self.seconds)
        finally:
            self.at_once -= 1
        status = b'{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}'
        return Response(404, status, {"content-type": "application/json"})

    async def stream(self, request: Request) -> Stream | Response:
        raise AssertionError("nobody watches here")

    async def close(self) -> None: ...


def question(mark: str = "cni-1", wish: str = "") -> Question:
    return Question([MANIFEST], mark, b"kubeconfig", wish)


def looking(seconds: float, tell: Callable[[Looks, Slow, list[Key]], Awaitable[None]]) -> None:
    async def main(_simulation: Simulation) -> None:
        slow = Slow(seconds)
        remotes = RemoteClients(lambda _kubeconfig: Client(slow))
        made = Looks(remotes)
        done: list[Key] = []
        made.when_done = done.append
        running = asyncio.create_task(made.run())
        await tell(made, slow, done)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await remotes.close()

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def test_a_quick_look_is_waited_for_and_told_nobody_else() -> None:
    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        answer = await made.ask(GARDEN, question())
        assert answer is not None
        assert [str(one) for one in answer.drifts] == ["ConfigMap kube-system/cni of the workload cluster is missing"]
        await asyncio.sleep(1)
        assert done == []

    looking(0.1, tell)


def test_a_slow_look_holds_up_nobody_and_says_when_it_is_done() -> None:
    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        assert await made.ask(GARDEN, question()) is None
        await asyncio.sleep(5)
        assert done == [GARDEN]
        assert await made.ask(GARDEN, question()) is not None
        assert slow.asked == 1

    looking(3, tell)


def test_an_answer_is_good_for_a_while_and_for_its_own_question() -> None:
    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        for _ in range(3):
            await made.ask(GARDEN, question())
        assert slow.asked == 1
        await made.ask(GARDEN, question(wish="correct"))
        await made.ask(GARDEN, question("cni-2", wish="correct"))
        assert slow.asked == 3
        await asyncio.sleep(looks.FRESH + 1)
        await made.ask(GARDEN, question("cni-2", wish="correct"))
        assert slow.asked == 4
        made.forget(GARDEN)
        await made.ask(GARDEN, question("cni-2", wish="correct"))
        assert slow.asked == 5

    looking(0.1, tell)


def test_who_asks_something_else_meanwhile_is_told_to_come_again() -> None:
    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        assert await made.ask(GARDEN, question()) is None
        assert await made.ask(GARDEN, question("cni-2")) is None
        await asyncio.sleep(5)
        assert done == [GARDEN]
        assert await made.ask(GARDEN, question("cni-2")) is None
        await asyncio.sleep(5)
        assert await made.ask(GARDEN, question("cni-2")) is not None

    looking(3, tell)


def test_a_cluster_that_never_answers_is_given_up_and_the_answer_says_why() -> None:
    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        assert await made.ask(GARDEN, question()) is None
        await asyncio.sleep(looks.LONGEST + 1)
        answer = await made.ask(GARDEN, question())
        assert answer is not None
        assert answer.failure
        assert answer.drifts == ()

    looking(1000, tell)


@pytest.mark.parametrize("count", [50])
class Strange(Slow):
    """A workload cluster, or a program, with an error that nobody thought of."""

    async def request(self, request: Request) -> Response:
        self.asked += 1
        raise ZeroDivisionError


def test_an_error_that_nobody_thought_of_is_an_answer_too_so_that_nobody_asks_for_ever() -> None:
    async def main(_simulation: Simulation) -> None:
        strange = Strange(0)
        remotes = RemoteClients(lambda _kubeconfig: Client(strange))
        answer = await Looks(remotes).ask(GARDEN, question())
        assert answer is not None
        assert answer.failure == "ZeroDivisionError"
        await remotes.close()

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)


def test_few_looks_run_at_once() -> None:
    count = 50

    async def tell(made: Looks, slow: Slow, done: list[Key]) -> None:
        keys = [Key("team-a", f"garden-{number}") for number in range(count)]
        await asyncio.gather(*(made.ask(key, question()) for key in keys))
        await asyncio.sleep(20)
        assert slow.most_at_once == looks.AT_ONCE
        assert slow.asked == count
        answered = [await made.ask(key, question()) for key in keys[-5:]]
        assert None not in answered

    looking(2, tell)
