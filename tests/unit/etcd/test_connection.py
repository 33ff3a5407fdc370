"""Connections to members: which one is asked, what happens when it fails, and what is sent again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest
from grpc import StatusCode

from espalier.etcd import connection
from espalier.etcd.client import Client, connect
from espalier.etcd.errors import Closed, Denied, NotEtcd, RequestTooLarge, ResponseTooLarge, Unavailable
from tests.support.etcd.etcd_members import Member, running
from tests.support.tasks import left_over


@pytest.fixture
def a(tmp_path: Path) -> Member:
    return Member(f"unix:{tmp_path}/a", "a")


@pytest.fixture
def b(tmp_path: Path) -> Member:
    return Member(f"unix:{tmp_path}/b", "b")


def client_of(*members: Member, timeout: float = 10.0) -> Client:
    urls = [member.address.replace("unix:", "unix://") for member in members]
    return connect(*urls, timeout=timeout, rng=random.Random(1))


async def name(client: Client) -> str:
    pair = await client.get(b"k")
    assert pair is not None
    return pair.value.decode()


async def test_a_member_is_asked_as_long_as_it_answers(a: Member, b: Member) -> None:
    async with running(a, b), client_of(a, b) as client:
        first = {await name(client) for _ in range(5)}
        assert len(first) == 1


async def test_another_member_is_asked_when_one_ends(a: Member, b: Member) -> None:
    async with running(a, b), client_of(a, b) as client:
        assert await name(client) in ("a", "b")
        await a.stop()
        assert await name(client) == "b"
        await b.stop()
        await a.start()
        assert await name(client) == "a"


async def test_a_member_that_starts_late_is_waited_for(a: Member) -> None:
    async with client_of(a) as client:
        asked = asyncio.ensure_future(name(client))
        await asyncio.sleep(0)
        async with running(a):
            assert await asked == "a"


async def test_read_is_repeated_at_member_that_has_leader(a: Member, b: Member) -> None:
    a.failing = (StatusCode.UNAVAILABLE, "etcdserver: no leader")
    async with running(a, b), client_of(a, b) as client:
        assert {await name(client) for _ in range(3)} == {"b"}


async def test_write_is_sent_once_and_may_have_been_made(a: Member) -> None:
    a.failing = (StatusCode.UNAVAILABLE, "etcdserver: request timed out")
    async with running(a), client_of(a) as client:
        with pytest.raises(Unavailable, match="etcdserver: request timed out") as failed:
            await client.put(b"k", b"")
        assert failed.value.sent
        assert a.asked == ["Put"]


async def test_write_without_a_member_was_not_made(a: Member) -> None:
    async with client_of(a, timeout=2) as client:
        with pytest.raises(Unavailable, match=r"no member of etcd can be reached \(unix://.*connect") as failed:
            await client.put(b"k", b"")
        assert not failed.value.sent


LEARNER = "etcdserver: rpc not supported for learner"


@pytest.mark.parametrize("code", [StatusCode.FAILED_PRECONDITION, StatusCode.UNAVAILABLE])
async def test_no_request_is_lost_at_a_learner(a: Member, b: Member, code: StatusCode) -> None:
    a.failing = (code, LEARNER)
    async with running(a, b), client_of(a, b) as client:
        await client.put(b"k", b"")
        assert {await name(client) for _ in range(3)} == {"b"}
        assert b.asked == ["Put", "Range", "Range", "Range"]


async def test_learner_alone_is_asked_until_it_votes(a: Member) -> None:
    a.failing = (StatusCode.FAILED_PRECONDITION, LEARNER)
    async with running(a), client_of(a) as client:
        asked = asyncio.ensure_future(name(client))
        while not a.asked:  # noqa: ASYNC110  the server runs in gRPC's threads
            await asyncio.sleep(0)
        a.failing = None
        assert await asked == "a"


async def test_learner_that_never_votes_executed_nothing(a: Member) -> None:
    a.failing = (StatusCode.FAILED_PRECONDITION, LEARNER)
    async with running(a), client_of(a, timeout=0.5) as client:
        with pytest.raises(Unavailable, match=LEARNER) as failed:
            await client.put(b"k", b"")
        assert not failed.value.sent


async def test_refused_request_is_not_sent_to_another_member(a: Member, b: Member) -> None:
    for member in (a, b):
        member.failing = (StatusCode.PERMISSION_DENIED, "etcdserver: permission denied")
    async with running(a, b), client_of(a, b) as client:
        with pytest.raises(Denied, match="etcdserver: permission denied"):
            await client.get(b"k")
        assert len(a.asked + b.asked) == 1


async def test_unimplemented_method_is_named_as_such(a: Member) -> None:
    async with running(a), client_of(a) as client:
        with pytest.raises(NotEtcd):
            await client.status()


@pytest.mark.soak
async def test_responses_are_held_up_to_a_limit_of_this_side(a: Member) -> None:
    async with running(a), client_of(a) as client:
        a.size = 5 * 1024 * 1024  # above gRPC's default
        assert len(await name(client)) == a.size + 1
        a.size = connection.MAX_RESPONSE
        with pytest.raises(ResponseTooLarge, match="larger than max"):
            await client.get(b"k")
        a.size = 0
        with pytest.raises(RequestTooLarge, match="larger than max"):  # 4 MiB, of this server
            await client.put(b"k", b"x" * 5 * 1024 * 1024)


async def test_a_closed_client_says_so(a: Member) -> None:
    async with running(a):
        client = client_of(a)
        assert await name(client) == "a"
        await client.close()
        await client.close()
        with pytest.raises(Closed):
            await client.get(b"k")


async def test_closing_ends_what_is_under_way(a: Member) -> None:
    client = client_of(a)
    asked = asyncio.ensure_future(client.get(b"k"))
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(Closed):
        await asyncio.wait_for(asked, 10)


async def test_nothing_is_left_of_a_cancelled_call(a: Member) -> None:
    before = asyncio.all_tasks()
    async with client_of(a) as client:
        asked = asyncio.ensure_future(client.get(b"k"))
        await asyncio.sleep(0)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
    assert not await left_over(before)
