"""The member on virtual time: leases run out, streams end with it, and every run is the same."""

from __future__ import annotations

import asyncio
import random

import pytest

from espalier.etcd.client import Client
from espalier.etcd.errors import LeaseNotFound, Unavailable
from espalier.etcd.requests import FROM_KEY, Put
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from tests.support.etcd import calls
from tests.support.etcd.simulated_etcd import told


def test_leases_run_out_on_time_and_are_kept_alive() -> None:
    async def story(member: Member, client: Client) -> None:
        loop = asyncio.get_running_loop()
        short, renewed = await calls.grant(client, 60), await calls.grant(client, 60)
        await client.do(Put(b"short", b"", short.id))
        await client.do(Put(b"kept", b"", renewed.id))
        async with client.watch(FROM_KEY, FROM_KEY) as watch:
            await asyncio.sleep(59)
            assert (await calls.time_to_live(client, short.id)).ttl == 1
            await calls.keep_alive(client, renewed.id)
            (event,) = (await anext(watch)).events
            assert (event.type, event.item.key, round(loop.time())) == ("DELETE", b"short", 60)
            (event,) = (await anext(watch)).events
            assert (event.type, event.item.key, round(loop.time())) == ("DELETE", b"kept", 59 + 60)
        with pytest.raises(LeaseNotFound):
            await calls.keep_alive(client, renewed.id)

    told(story)


def test_quiet_watch_gets_progress_in_ten_minutes() -> None:
    async def story(member: Member, client: Client) -> None:
        loop = asyncio.get_running_loop()
        async with client.watch(b"a", progress_notify=True) as watch:
            revision = await client.put(b"b", b"")
            changes = await anext(watch)
            assert (changes.events, changes.revision) == ((), revision)
            assert round(loop.time()) == 600

    told(story)


def test_a_member_that_closes_ends_its_watches() -> None:
    async def story(member: Member, client: Client) -> None:
        async with client.watch(b"a", patience=1.0) as watch:
            waiting = asyncio.ensure_future(anext(watch))
            await asyncio.sleep(0)
            await member.close()
            with pytest.raises(Unavailable):
                await waiting
        with pytest.raises(Unavailable, match="server stopped"):
            await client.put(b"a", b"")

    told(story)


def test_two_runs_are_the_same() -> None:
    async def story(member: Member, client: Client) -> object:
        rng = random.Random(5)
        seen: list[object] = []

        async def write(name: bytes) -> None:
            async with Client(MemoryTransport(member)) as own:
                for number in range(20):
                    await asyncio.sleep(rng.random())
                    lease = await calls.grant(own, rng.randrange(2, 9))
                    seen.append((name, await own.put(name, b"%d" % number, lease=lease.id)))

        async with client.watch(FROM_KEY, FROM_KEY) as watch:
            writers = [asyncio.ensure_future(write(name)) for name in (b"a", b"b", b"c")]
            await asyncio.wait(writers)
            await asyncio.sleep(60)
            end = (await client.status()).header.revision
            while watch.revision < end:
                seen.append(await anext(watch))
        return seen, await calls.leases(client), (await calls.hash_kv(client)).hash

    first, second = told(story), told(story)
    assert first == second
    assert "b'c'" in str(first)


def test_impatient_caller_does_not_undo_its_write() -> None:
    async def story(member: Member, client: Client) -> None:
        sent = asyncio.ensure_future(client.put(b"a", b"1"))
        await asyncio.sleep(0)
        sent.cancel()
        await asyncio.gather(sent, return_exceptions=True)
        assert await client.get(b"a") is not None

    told(story)


def test_killed_member_keeps_all_acknowledged() -> None:
    async def story(member: Member, client: Client) -> None:
        lease = await calls.grant(client, 60)
        first = await client.do(Put(b"a", b"1", lease.id))
        async with client.watch(b"a", patience=1.0) as watch:
            member.kill()
            with pytest.raises(Unavailable):
                await anext(watch)
        with pytest.raises(Unavailable, match="server stopped"):
            await client.put(b"a", b"2")
        again = Member(member._storage, member._clock, random.Random(2))
        await again.start()
        async with Client(MemoryTransport(again)) as other:
            pair = await other.get(b"a")
            assert pair is not None
            assert (pair.value, pair.mod_revision) == (b"1", first.header.revision)
            assert (await other.status()).header.raft_term == first.header.raft_term + 1
            await asyncio.sleep(61)
            assert await other.get(b"a") is None
        await again.close()

    told(story)
