"""Watches over connections that break at any place, and servers that misbehave."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import pytest
from grpc import StatusCode

from espalier.etcd import watch as watching
from espalier.etcd.client import Client, connect
from espalier.etcd.errors import Compacted, Denied, EtcdError, NotEtcd, Unavailable
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import WATCH, CallContext
from tests.support.etcd.etcd_members import Member, running
from tests.support.tasks import left_over


def message(*revisions: int, more: bool = False) -> rpc.WatchResponse:
    events = [
        rpc.Event(kv=rpc.KeyValue(key=b"k%d" % at, mod_revision=revision)) for at, revision in enumerate(revisions)
    ]
    return rpc.WatchResponse(header=rpc.ResponseHeader(revision=99), events=events, fragment=more)


CREATED = rpc.WatchResponse(header=rpc.ResponseHeader(revision=10, cluster_id=5), created=True)
Script = list[rpc.WatchResponse | tuple[StatusCode, str] | None]
"""The answers of one stream: messages, an error, or None to leave the stream open and say nothing."""


class Watched(Member):
    """Plays one script for each stream that is opened; the last one again and again."""

    def __init__(self, address: str, *scripts: Script) -> None:
        super().__init__(address)
        self.scripts = list(scripts)
        self.starts: list[int] = []
        self.others = [WATCH.answered_by(self._watch)]

    async def _watch(
        self, requests: AsyncIterable[rpc.WatchRequest], context: CallContext[rpc.WatchRequest, rpc.WatchResponse]
    ) -> AsyncIterator[rpc.WatchResponse]:
        request = await anext(aiter(requests))
        self.starts.append(request.create_request.start_revision)
        assert request.create_request.fragment
        assert dict(context.invocation_metadata() or ())["hasleader"] == "true"
        for answer in self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]:
            match answer:
                case None:
                    await asyncio.Event().wait()
                case rpc.WatchResponse():
                    yield answer
                case (code, text):
                    await context.abort(code, text)


CUT = (StatusCode.UNAVAILABLE, "etcdserver: server stopped")


def scripted(tmp_path: Path, *scripts: Script) -> Watched:
    return Watched(f"unix:{tmp_path}/a", *scripts)


def client_of(member: Member, timeout: float = 10.0) -> Client:
    return connect(member.address.replace("unix:", "unix://"), timeout=timeout, rng=random.Random(1))


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_PAUSE", 0.001)


async def test_watch_goes_on_behind_last_whole_revision(tmp_path: Path) -> None:
    member = scripted(
        tmp_path,
        [CREATED, message(11), message(12, 12, more=True), CUT],  # the rest of 12 was never sent
        [CREATED, message(12, 12, 12), CUT],
        [CUT],
        [],
        [CREATED, message(13), None],
    )
    async with running(member), client_of(member) as client, client.watch(b"k", start_revision=11) as watch:
        batches = [await anext(watch) for _ in range(3)]
    assert [(changes.revision, len(changes.events)) for changes in batches] == [(11, 1), (12, 3), (13, 1)]
    assert member.starts == [11, 12, 13, 13, 13]


async def test_watch_from_now_survives_a_broken_connection(tmp_path: Path) -> None:
    member = scripted(tmp_path, [CREATED, CUT], [CREATED, message(11), None])
    async with running(member), client_of(member) as client, client.watch(b"k") as watch:
        assert (watch.revision, watch.store_revision, watch.cluster_id) == (10, 10, 5)
        assert (await anext(watch)).revision == 11
    assert member.starts == [0, 11]


async def test_progress_moves_the_place_to_go_on_from(tmp_path: Path) -> None:
    progress = rpc.WatchResponse(header=rpc.ResponseHeader(revision=50), watch_id=-1)
    member = scripted(tmp_path, [CREATED, message(11), progress, CUT], [CREATED, message(51), None])
    async with running(member), client_of(member) as client, client.watch(b"k", start_revision=11) as watch:
        assert [(await anext(watch)).revision for _ in range(3)] == [11, 50, 51]
    assert member.starts == [11, 51]


async def test_progress_may_be_asked_for_by_many_at_once(tmp_path: Path) -> None:
    member = scripted(tmp_path, [CREATED, message(11), None])
    async with running(member), client_of(member) as client, client.watch(b"k", start_revision=11) as watch:
        await asyncio.gather(*(watch.request_progress() for _ in range(100)))
        assert (await anext(watch)).revision == 11
    assert member.starts == [11]  # the stream was not cut


async def test_compaction_during_a_break_is_reported(tmp_path: Path) -> None:
    compacted = rpc.WatchResponse(header=rpc.ResponseHeader(revision=99), canceled=True, compact_revision=40)
    member = scripted(tmp_path, [CREATED, message(11), CUT], [CREATED, compacted])
    async with running(member), client_of(member) as client, client.watch(b"k", start_revision=11) as watch:
        await anext(watch)
        with pytest.raises(Compacted) as error:
            await anext(watch)
    assert error.value.revision == 40


async def test_watch_that_is_not_allowed_is_not_opened_again(tmp_path: Path) -> None:
    for answer in (
        rpc.WatchResponse(created=True, canceled=True, cancel_reason="etcdserver: permission denied"),
        (StatusCode.UNAUTHENTICATED, "etcdserver: invalid auth token"),
    ):
        member = scripted(tmp_path, [answer])
        async with running(member), client_of(member) as client:
            with pytest.raises(Denied):
                async with client.watch(b"k"):
                    pass
        assert len(member.starts) == 1


async def test_repeated_revisions_are_not_believed(tmp_path: Path) -> None:
    member = scripted(tmp_path, [CREATED, message(11), message(11), None])
    async with running(member), client_of(member) as client, client.watch(b"k", start_revision=11) as watch:
        await anext(watch)
        with pytest.raises(NotEtcd, match="a watch went back from revision 12 to 11"):
            await anext(watch)


async def test_patience_ends_where_no_member_opens_the_watch(tmp_path: Path) -> None:
    member = scripted(tmp_path, [CREATED, message(11), CUT], [CUT])
    async with (
        running(member),
        client_of(member) as client,
        client.watch(b"k", start_revision=11, patience=0.5) as watch,
    ):
        await anext(watch)
        with pytest.raises(Unavailable, match="etcdserver: server stopped"):
            await anext(watch)


async def test_last_attempt_hides_no_cause(tmp_path: Path) -> None:
    member = scripted(tmp_path, [CREATED, message(11), CUT], [CUT], [None])
    async with (
        running(member),
        client_of(member) as client,
        client.watch(b"k", start_revision=11, patience=0.2) as watch,
    ):
        await anext(watch)
        with pytest.raises(Unavailable, match="etcdserver: server stopped"):
            await anext(watch)


async def test_member_that_never_opens_a_watch_is_left(tmp_path: Path) -> None:
    member = scripted(tmp_path, [None], [CREATED, message(11), None])
    async with running(member), client_of(member, timeout=2) as client, client.watch(b"k") as watch:
        assert (await anext(watch)).revision == 11


async def test_no_task_is_left_wherever_a_watch_is_cancelled(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    member = scripted(tmp_path, [CREATED, message(11), CUT], [CUT], [CREATED, None])

    async def follow(client: Client) -> None:
        async with client.watch(b"k", start_revision=11) as watch:
            async for _ in watch:
                pass

    async with running(member), client_of(member) as client:
        for turns in range(0, 60, 3):
            following = asyncio.ensure_future(follow(client))
            for _ in range(turns):
                await asyncio.sleep(0)
            following.cancel()
            with pytest.raises((asyncio.CancelledError, EtcdError)):
                await following
    assert not await left_over(before)
