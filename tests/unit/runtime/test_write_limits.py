"""Writes that undo each other become slow; writes that work are not held up."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import suppress
from uuid import UUID

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.api.core import CONFIG_MAP, CORE_EVENT
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.leadership.write_limits import (
    BURST,
    LONGEST_PAUSE,
    MAX_CONTENTS,
    REFILL,
    REPEAT_THRESHOLD,
    LimitedTransport,
    TooManyWrites,
    WriteLimit,
    limited,
)
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of, config_map
from tests.support.waiting import running

PATH = "/api/v1/namespaces/default/configmaps/a"
HEADERS = {"content-type": "application/apply-patch+yaml"}


def passed(limit: WriteLimit, moments: list[float]) -> list[float]:
    """Which of the writes at these moments, all of the same content, are let through."""
    through: list[float] = []
    refusals: list[TooManyWrites] = []
    for moment in moments:
        try:
            limit.check(PATH, "me", b"same", moment)
        except TooManyWrites as error:
            refusals.append(error)
        else:
            through.append(moment)
    assert all(0 < refusal.after <= LONGEST_PAUSE for refusal in refusals)
    return through


@given(st.lists(st.floats(0, 20), min_size=1, max_size=400), st.floats(0.001, 10))
@settings(max_examples=100, deadline=None)
def test_no_order_of_writes_exceeds_the_budget(pauses: list[float], scale: float) -> None:
    moments = list(itertools.accumulate(pause * scale / 10 for pause in pauses))
    through = passed(WriteLimit(), moments)
    for begin, moment in enumerate(through):
        within = [other for other in through[begin:] if other < moment + 60]
        assert len(within) <= BURST + 60 / REFILL + 7


@pytest.mark.soak
def test_a_storm_becomes_one_write_a_minute() -> None:
    through = passed(WriteLimit(), [number / 20 for number in range(20 * 3600)])
    assert len([moment for moment in through if moment < 60]) <= BURST + 10
    assert len([moment for moment in through if moment > 1800]) <= 31


@given(st.integers(MAX_CONTENTS, 2_000), st.floats(0, 10))
@settings(max_examples=20, deadline=None)
def test_progressing_writes_are_never_limited(count: int, pause: float) -> None:
    limit = WriteLimit()
    for number in range(count):
        for _ in range(REPEAT_THRESHOLD - 1):
            limit.check(PATH, "me", str(number).encode(), number * pause)


@pytest.mark.soak
@given(st.integers(1, 40), st.integers(0, 3))
@settings(max_examples=20, deadline=None)
def test_cycle_of_contents_is_limited_after_progress(count: int, progress: int) -> None:
    limit = WriteLimit()
    for number in range(progress * BURST):
        limit.check(PATH, "me", f"progress {number}".encode(), 0.0)
    through = 0
    for number in range(20 * BURST):
        with suppress(TooManyWrites):
            limit.check(PATH, "me", str(number % count).encode(), number / 100)
            through += 1
    assert through <= max(count * REPEAT_THRESHOLD, BURST) + 20 * BURST / 100 / REFILL + 7


def test_same_write_differs_by_message_only() -> None:
    async def main(_: Simulation) -> None:
        def status(number: int, message: str) -> Request:
            condition = {
                "type": "Ready",
                "message": message,
                "lastTransitionTime": f"2026-01-01T00:00:{number % 60:02}Z",
                "observedGeneration": number,
            }
            metadata = {"uid": str(UUID(int=number)), "resourceVersion": str(number)}
            body = {"metadata": metadata, "status": {"childrenObservedGeneration": number, "conditions": [condition]}}
            return Request("PATCH", PATH, headers=HEADERS, body=msgspec.json.encode(body))

        transport = LimitedTransport(client_of(SmallServer()).transport, WriteLimit())
        for number in range(3 * BURST):
            await transport.request(status(number, f"{number} of {3 * BURST} nodes are ready"))
        for number in range(BURST):
            await transport.request(status(number, "all nodes are ready"))
        await transport.request(status(0, "all nodes are ready"))  # the last one before a pause
        with pytest.raises(TooManyWrites):
            await transport.request(status(1, "all nodes are ready"))

    simulate(main)


def test_a_lease_that_is_renewed_is_no_repetition() -> None:
    async def main(_: Simulation) -> None:
        transport = LimitedTransport(client_of(SmallServer()).transport, WriteLimit())
        for number in range(3 * BURST):
            lease = {
                "metadata": {},
                "spec": {"leaseExpiration": f"2026-01-01T00:{number // 60:02}:{number % 60:02}.000000Z"},
            }
            await transport.request(Request("PATCH", PATH, headers=HEADERS, body=msgspec.json.encode(lease)))

    simulate(main)


def test_repeated_write_after_fight_is_not_held() -> None:
    limit = WriteLimit()
    passed(limit, [number / 100 for number in range(BURST * 100)])
    for number in range(BURST * 10):
        limit.check(PATH, "me", f"progress {number}".encode(), BURST + number)
    assert len(passed(limit, [BURST * 20 + number / 100 for number in range(BURST)])) == BURST


def test_steady_work_is_never_held_up() -> None:
    moments = [number * REFILL for number in range(10_000)]
    assert passed(WriteLimit(), moments) == moments


@pytest.mark.soak
def test_a_resting_reflector_begins_anew() -> None:
    limit = WriteLimit()
    storm = passed(limit, [number / 100 for number in range(60_000)])
    later = 600 + BURST * REFILL + 1
    assert len(passed(limit, [later + number / 100 for number in range(BURST)])) == BURST
    assert len(storm) < BURST + 30


def test_objects_and_managers_have_their_own_budgets() -> None:
    limit = WriteLimit()
    for number in range(10_000):
        limit.check(f"{PATH}{number}", "me", b"same", number / 10)
        limit.check(f"{PATH}{number}", "you", b"same", number / 10)
    assert len(limit._accounts) < 2 * 10 * (BURST * REFILL + 1)


async def _write_all_ways(client: Client) -> None:
    await client.create(CONFIG_MAP, config_map("a"))
    patch = {"data": {"a": "b"}}
    await client.patch(CONFIG_MAP, "a", "default", patch=patch, type=PatchType.MERGE)
    await client.delete(CONFIG_MAP, "a", "default")


async def _write_for_ever(client: Client) -> None:
    while True:
        await _write_all_ways(client)


def test_writes_count_and_reads_do_not() -> None:
    async def main(_: Simulation) -> None:
        server = SmallServer()
        refused: list[str] = []
        client = limited(client_of(server), WriteLimit(refused.append))
        for _number in range(BURST // 2):
            await _write_all_ways(client)
        with pytest.raises(TooManyWrites, match=r"configmaps/a is written too often.*managedFields") as refusal:
            await _write_for_ever(client)
        assert refusal.value.after > 0
        assert refused == ["configmaps"]
        before = len(server.requests)
        for number in range(3 * BURST):
            await client.list(CONFIG_MAP)
            metadata = {"name": f"e{number}", "namespace": "default"}
            await client.create(CORE_EVENT, {"metadata": metadata, "count": number})
            await client.create(CONFIG_MAP, config_map("b"), dry_run=True)
            server.objects.pop("/api/v1/namespaces/default/configmaps/b")
        assert len(server.requests) == before + 9 * BURST

    simulate(main)


def test_limited_controller_comes_again_when_it_may() -> None:
    """Against another writer, who answers each write at once."""

    async def main(simulation: Simulation) -> None:
        server = SmallServer()
        server.put(config_map("a", colour="red"))
        client = limited(client_of(server))
        caches = Caches(client_of(server))
        cache = caches.of(CONFIG_MAP)
        passes = 0

        async def reconcile(key: Key) -> Outcome:
            nonlocal passes
            passes += 1
            object_ = cache.get(key)
            if object_ is not None and object_.tree["data"]["colour"] != "red":
                patch = {"data": {"colour": "red"}}
                cache.wrote(await client.patch(CONFIG_MAP, key.name, key.namespace, patch=patch, type=PatchType.MERGE))
            return Done()

        def other(_old: Object | None, new: Object | None, _first: bool) -> None:
            if fights and new is not None and new.tree["data"]["colour"] == "red":
                asyncio.get_running_loop().call_later(0.001, server.put, config_map("a", colour="blue"))

        fights = True
        controller = Controller("painter", reconcile, resync=None)
        controller.watch(cache)
        async with running(caches, controller):
            await cache.wait_synced()
            cache.subscribe(other)
            await asyncio.sleep(600)
            assert server.writes["PATCH"] < BURST + 20
            assert passes < 4 * BURST
            fights = False
            await asyncio.sleep(LONGEST_PAUSE + 1)
            assert msgspec.json.encode(server.objects[PATH]["data"]) == b'{"colour":"red"}'

    simulate(main)
