"""A cluster of three members: one client of all of them goes on while some are gone."""

from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

import pytest
import pytest_asyncio

from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.assets.recipes import ETCD
from espalier.etcd.client import Client, connect
from espalier.etcd.errors import Refused, Unavailable
from espalier.etcd.requests import Range, prefix_range_end
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request
from tests.support.etcd import calls
from tests.support.etcd.real_etcd import RealEtcd, built, real_cluster
from tests.support.left_files import folder_of_a_fixture

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

SOON = 30.0
T = TypeVar("T")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def members(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[list[RealEtcd]]:
    programs = built(ETCD)
    if programs is None:
        pytest.skip(f"etcd {ETCD.version} was not built: run make real-assets")
    with folder_of_a_fixture(tmp_path_factory, "cluster") as folder:
        async with real_cluster(programs, folder) as running:
            yield running


@pytest_asyncio.fixture(loop_scope="session")
async def client(members: list[RealEtcd]) -> AsyncIterator[Client]:
    async with connect(*(member.endpoint for member in members), timeout=SOON) as made:
        yield made


async def leader(members: list[RealEtcd]) -> RealEtcd:
    for member in members:
        async with member.client() as client:
            if (await client.status()).leads:
                return member
    raise AssertionError("no member leads")


async def repeated(change: Callable[[], Awaitable[T]]) -> T:
    """Change the members, once etcd takes the cluster for healthy: it wants five seconds without a lost connection."""
    async with asyncio.timeout(SOON):
        while True:
            try:
                return await change()
            except (Refused, Unavailable):
                await asyncio.sleep(0.1)


async def written(client: Client, prefix: bytes, count: int) -> set[bytes]:
    """Write keys, each as often as it takes until it is acknowledged."""
    keys = {prefix + str(number).encode() for number in range(count)}
    async with asyncio.timeout(SOON):
        for key in sorted(keys):
            while True:
                try:
                    await client.put(key, b"")
                except Unavailable:
                    continue
                break
    return keys


async def test_members_know_each_other_and_have_same_hash(members: list[RealEtcd], client: Client) -> None:
    revision = await client.put(b"/same", b"")
    known = await client.members()
    hashes, ids = set(), set()
    for member in members:
        async with member.client() as opened:
            await opened.get(b"/same")  # it has caught up
            result = await calls.hash_kv(opened, revision)
            hashes.add(result.hash)
            ids.add(result.header.member_id)
    assert len(hashes) == 1
    assert ids == {member.id for member in known}
    assert {member.name for member in known} == {"m0", "m1", "m2"}


async def test_the_leader_can_be_moved_by_the_leader_alone(members: list[RealEtcd]) -> None:
    first = await leader(members)
    others = [member for member in members if member is not first]
    async with others[0].client() as other, first.client() as leading:
        target = (await other.status()).header.member_id
        with pytest.raises(Refused, match="etcdserver: not leader"):
            await calls.move_leader(other, target)
        await calls.move_leader(leading, target)
        assert (await other.status()).leads


@pytest.mark.parametrize("which", ["leader", "follower"])
async def test_writes_and_watches_go_on_without_one_member(
    members: list[RealEtcd], client: Client, prefix: bytes, which: str
) -> None:
    below = prefix + which.encode() + b"/"
    first = await leader(members)
    gone = first if which == "leader" else next(member for member in members if member is not first)
    seen: list[bytes] = []
    async with client.watch(below, prefix_range_end(below)) as watch:
        before = await written(client, below + b"a", 3)
        await gone.kill()
        try:
            after = await written(client, below + b"b", 3)
            async with asyncio.timeout(SOON):
                while not before | after <= set(seen):
                    seen += [event.item.key for event in (await anext(watch)).events]
        finally:
            await gone.start()
    assert (await client.do(Range.of_prefix(below))).count == len(before | after)


async def test_member_alone_answers_nothing_that_may_be_old(members: list[RealEtcd], prefix: bytes) -> None:
    survivor, *others = members
    async with survivor.client(timeout=2.0) as opened:
        await opened.put(prefix, b"")
        for other in others:
            await other.kill()
        try:
            with pytest.raises(Unavailable):
                await opened.get(prefix)
            with pytest.raises(Unavailable) as failed:
                await opened.put(prefix, b"")
            assert failed.value.sent
            stale = await opened.do(Range(prefix, serializable=True))
            assert stale.count == 1
            assert len(await opened.members(linearizable=False)) == 3
        finally:
            await asyncio.gather(*(other.start() for other in others))
    async with survivor.client(timeout=SOON) as opened:
        assert await opened.get(prefix) is not None


async def test_read_is_answered_while_another_member_froze(members: list[RealEtcd], prefix: bytes) -> None:
    for member in members:
        async with connect(*(each.endpoint for each in members), timeout=6.0) as client:
            await client.get(prefix)
            member.freeze()
            try:
                assert await client.get(prefix) is None
            finally:
                member.thaw()


async def test_lost_member_joins_again_as_learner(members: list[RealEtcd], client: Client, prefix: bytes) -> None:
    first = await leader(members)
    lost = next(member for member in members if member is not first)
    name, url = lost.flags["name"], lost.flags["listen-peer-urls"]
    before = dict(lost.flags)
    await client.put(prefix, b"")
    await lost.kill()
    shutil.rmtree(lost.data)
    async with first.client() as leading:
        known = next(member.id for member in await client.members() if member.name == name)
        await repeated(lambda: client.remove_member(known))
        added = await repeated(lambda: leading.add_learner(url))
        assert added.is_learner
        assert added.name == ""
        with pytest.raises(Refused, match="too many learner members"):
            await leading.add_learner("http://127.0.0.1:1")
        with pytest.raises(Refused, match="in sync"):
            await leading.promote_member(added.id)
        others = [f"{known.name}={peer}" for known in await client.members() for peer in known.peer_urls if known.name]
        lost.flags = {
            **before,
            "initial-cluster": ",".join([*others, f"{name}={url}"]),
            "initial-cluster-state": "existing",
        }
        starting = asyncio.ensure_future(lost.start())
        try:
            async with lost.client() as learning, connect(lost.endpoint, first.endpoint, timeout=SOON) as both:
                assert (await repeated(learning.status)).is_learner
                await both.put(prefix, b"")  # the learner does not execute it
                assert not starting.done()
            await repeated(lambda: leading.promote_member(added.id))
        finally:
            await starting
        await leading.update_member(added.id, url)
        assert not any(known.is_learner for known in await leading.members())
    async with lost.client() as again:
        assert await again.get(prefix) is not None


@pytest.mark.soak
async def test_api_server_goes_on_while_member_is_frozen(members: list[RealEtcd], prefix: bytes) -> None:
    """Whichever it is: the one that the watch comes from, too."""
    for number, member in enumerate(members):
        store = EtcdStore(
            connect(*(each.endpoint for each in members)), Keys(KINDS, f"{prefix.decode()}{number}"), lost_after=4.0
        )
        server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
        await server.start()
        transport = InProcessTransport(server)
        request = Request("GET", "/api/v1/namespaces/default", {}, {}, b"")
        assert (await transport.request(request)).status == 200
        member.freeze()
        try:
            async with asyncio.timeout(SOON):
                while (answer := await transport.request(request)).status != 200:
                    assert answer.status in (503, 504)
            lost = asyncio.ensure_future(server.lost())
            assert not (await asyncio.wait((lost,), timeout=4.5))[0]
            lost.cancel()
            assert (await transport.request(request)).status == 200
        finally:
            member.thaw()
        await server.close()
