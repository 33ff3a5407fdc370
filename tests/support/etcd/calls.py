"""Calls of etcd that only tests make: leases, hashes, and what an administrator does."""

from __future__ import annotations

import asyncio

from espalier.etcd import results
from espalier.etcd.client import SLOW_TIMEOUT, TIMEOUT, Client
from espalier.etcd.errors import Code, LeaseNotFound, Unavailable, error_of
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages import services
from espalier.etcd.results import Alarm, HashResult, Header, LeaseResult


async def grant(client: Client, ttl: int, *, lease: int = 0) -> LeaseResult:
    """Create a lease of `ttl` seconds; with 0 as its ID etcd chooses one. Raises `LeaseExists`, `Refused`."""
    answer = await client.call(services.LEASE_GRANT, rpc.LeaseGrantRequest(ttl=ttl, id=lease))
    if answer.error:
        raise error_of(Code.FAILED_PRECONDITION, answer.error)
    return LeaseResult(answer.id, answer.ttl, answer.ttl)


async def revoke(client: Client, lease: int) -> Header:
    """End a lease; its keys are deleted. Raises `LeaseNotFound`."""
    return results.header((await client.call(services.LEASE_REVOKE, rpc.LeaseRevokeRequest(id=lease))).header)


async def keep_alive(client: Client, lease: int) -> LeaseResult:
    """Renew a lease once. Raises `LeaseNotFound` for one that ended."""
    stream = await client.transport.open(services.LEASE_KEEP_ALIVE, rpc.LeaseKeepAliveRequest(id=lease), TIMEOUT)
    try:
        async with asyncio.timeout(TIMEOUT):
            answer = await stream.receive()
    except TimeoutError:
        raise Unavailable(f"etcd did not renew a lease within {TIMEOUT:g} s") from None
    finally:
        await stream.close()
    if answer is None:
        raise Unavailable("etcd ended the stream of a lease")
    if answer.ttl <= 0:
        raise LeaseNotFound("etcdserver: requested lease not found")
    return LeaseResult(answer.id, answer.ttl)


async def time_to_live(client: Client, lease: int, *, keys: bool = False) -> LeaseResult:
    """The remaining time of a lease, and its keys. One that ended has a `ttl` of -1."""
    message = rpc.LeaseTimeToLiveRequest(id=lease, keys=keys)
    answer = await client.call(services.LEASE_TIME_TO_LIVE, message, repeatable=True)
    return LeaseResult(answer.id, answer.ttl, answer.granted_ttl, tuple(answer.keys))


async def leases(client: Client) -> tuple[int, ...]:
    """The IDs of all leases."""
    answer = await client.call(services.LEASE_LEASES, rpc.LeaseLeasesRequest(), repeatable=True)
    return tuple(lease.id for lease in answer.leases)


async def hash_kv(client: Client, revision: int = 0, *, timeout: float = SLOW_TIMEOUT) -> HashResult:
    """A hash of all keys and their history up to a revision (0: the newest), equal on all members. Raises `Compacted`
    and `FutureRevision`."""
    answer = await client.call(services.HASH_KV, rpc.HashKVRequest(revision=revision), timeout, repeatable=True)
    header = results.header(answer.header)
    hashed_revision = answer.hash_revision or revision or header.revision
    return HashResult(header, answer.hash, answer.compact_revision, hashed_revision)


async def database_hash(client: Client) -> int:
    """A hash of a member's whole database."""
    return (await client.call(services.HASH, rpc.HashRequest(), SLOW_TIMEOUT, repeatable=True)).hash


async def disarm(client: Client, alarm: Alarm) -> None:
    """Disarm an alarm."""
    message = rpc.AlarmRequest(action=rpc.AlarmRequest.DEACTIVATE, member_id=alarm.member_id, alarm=alarm.type)
    await client.call(services.ALARM, message)


async def move_leader(client: Client, member: int) -> None:
    """Have the leader, which must be the member that is called, hand over to another one."""
    await client.call(services.MOVE_LEADER, rpc.MoveLeaderRequest(target_id=member))
