"""Leases: their keys go with them."""

from __future__ import annotations

import asyncio

import pytest

from espalier.etcd.client import Client
from espalier.etcd.errors import LeaseExists, LeaseNotFound, Refused
from espalier.etcd.requests import Put, prefix_range_end
from tests.support.etcd import calls

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_lease_has_an_id_and_a_time(client: Client) -> None:
    lease = await calls.grant(client, 600)
    assert lease.id > 0
    assert lease.ttl == 600
    assert lease.id in await calls.leases(client)
    left = await calls.time_to_live(client, lease.id)
    assert (left.id, left.granted_ttl, left.keys) == (lease.id, 600, ())
    assert 590 <= left.ttl <= 600
    await calls.revoke(client, lease.id)


async def test_lease_may_have_id_of_ones_own_but_only_once(client: Client) -> None:
    lease = await calls.grant(client, 600, lease=4711)
    assert lease.id == 4711
    with pytest.raises(LeaseExists, match="etcdserver: lease already exists"):
        await calls.grant(client, 600, lease=4711)
    await calls.revoke(client, 4711)


async def test_a_lease_can_not_last_for_ever(client: Client) -> None:
    with pytest.raises(Refused, match="etcdserver: too large lease TTL"):
        await calls.grant(client, 9_000_000_001)


async def test_keys_go_when_their_lease_is_revoked(client: Client, prefix: bytes) -> None:
    lease = await calls.grant(client, 600)
    for key in (b"a", b"b", b"c"):
        await client.do(Put(prefix + key, b"", lease.id))
    await client.put(prefix + b"b", b"without the lease now")
    assert set((await calls.time_to_live(client, lease.id, keys=True)).keys) == {prefix + b"a", prefix + b"c"}
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        header = await calls.revoke(client, lease.id)
        async with asyncio.timeout(20):
            changes = await anext(watch)
    assert {event.item.key for event in changes.events} == {prefix + b"a", prefix + b"c"}
    assert {event.type for event in changes.events} == {"DELETE"}
    assert {event.item.mod_revision for event in changes.events} == {header.revision}
    assert await client.get(prefix + b"a") is None
    assert await client.get(prefix + b"b") is not None


@pytest.mark.often("embedded", "etcd")
async def test_keys_go_when_their_lease_runs_out(client: Client, prefix: bytes) -> None:
    lease = await calls.grant(client, 1)
    async with client.watch(prefix, prefix_range_end(prefix)) as watch:
        put = await client.do(Put(prefix + b"a", b"", lease.id))
        async with asyncio.timeout(20):
            while (event := (await anext(watch)).events[0]).type != "DELETE":
                assert event.item.mod_revision == put.header.revision
    assert event.item.key == prefix + b"a"
    assert (await calls.time_to_live(client, lease.id)).ttl == -1
    assert lease.id not in await calls.leases(client)
    with pytest.raises(LeaseNotFound):
        await client.do(Put(prefix + b"a", b"", lease.id))


async def test_a_lease_is_kept_alive(client: Client) -> None:
    lease = await calls.grant(client, 600)
    renewed = await calls.keep_alive(client, lease.id)
    assert (renewed.id, renewed.ttl) == (lease.id, 600)
    await calls.revoke(client, lease.id)


async def test_a_lease_that_is_not_there(client: Client) -> None:
    with pytest.raises(LeaseNotFound, match="etcdserver: requested lease not found"):
        await calls.revoke(client, 12345)
    with pytest.raises(LeaseNotFound):
        await calls.keep_alive(client, 12345)
    gone = await calls.time_to_live(client, 12345)
    assert (gone.id, gone.ttl, gone.granted_ttl) == (12345, -1, 0)
