"""The agent beside a real etcd: whatever is killed in whatever moment, what was stored leads to the exact numbers."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE
from espalier.etcd.client import Client, connect
from espalier.etcd.errors import Compacted, EtcdError, Unavailable
from espalier.etcd.requests import FROM_KEY, DeleteRange, Put, Txn
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.restore.restorer import Options, restore
from espalier.etcdbackup.snapshotter.full import newest_revision
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.agents import AgentProcess, running_agent
from tests.support.real_etcd import RealEtcd, programs_of, real_cluster, real_etcd
from tests.support.restored_etcd import OF_TESTS, everything
from tests.support.sampling import sampled
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]
FLAGS = ("--delta-snapshot-period", "1s", "--delta-snapshot-memory-limit", "2000")


class Load:
    """A client that writes, and all that happened to its etcd."""

    def __init__(self, client: Client, rng: random.Random) -> None:
        self.client, self.rng = client, rng
        self.acknowledged = 0
        self.compacts = True
        self.events: list[Event] = []
        self._came = asyncio.Event()

    async def watched(self) -> None:
        async with self.client.watch(b"\0", FROM_KEY, start_revision=1) as watch:
            async for changes in watch:
                self.events += changes.events
                self._came.set()

    async def write(self) -> None:
        """One write of some kind, if etcd is there."""
        rng = self.rng
        keys = [b"/registry/%d" % rng.randrange(30) for _ in range(4)]
        value = rng.randbytes(rng.randrange(300))
        with suppress(Unavailable, Compacted):
            match rng.randrange(8):
                case 0:
                    answer = await self.client.do(DeleteRange(keys[0], keys[0] + b"\xff"))
                    self.acknowledged = answer.header.revision
                case 1:
                    puts = tuple(Put(key, value) for key in dict.fromkeys(keys))
                    self.acknowledged = (await self.client.do(Txn((), puts))).header.revision
                case 2:
                    granted = await self.client.grant(3600)
                    self.acknowledged = await self.client.put(keys[0], value, lease=granted.id)
                case 3 if self.compacts and len(self.events) > 40 and rng.random() < 0.3:
                    await self.client.compact(self.events[-20].item.mod_revision)  # never what is still to be seen here
                case _:
                    self.acknowledged = await self.client.put(keys[0], value)

    async def seen_all(self) -> int:
        """The last revision of etcd, once its events are here."""
        revision = await newest_revision(self.client)
        while not self.events or self.events[-1].item.mod_revision < revision:
            self._came.clear()
            await self._came.wait()
        return revision

    def at(self, revision: int) -> tuple[KeyValue, ...]:
        """All keys as they were at a revision."""
        found: dict[bytes, KeyValue] = {}
        for event in self.events:
            if event.item.mod_revision > revision:
                break
            if event.type == "DELETE":
                del found[event.item.key]
            else:
                found[event.item.key] = event.item
        return tuple(found[key] for key in sorted(found))


async def again(etcd: RealEtcd) -> None:
    await etcd.kill()
    await etcd.start()


VARIANTS = [(component, seed) for seed in range(500) for component in (ETCD, ETCD_BEFORE)]


@pytest.mark.parametrize(("component", "seed"), sampled(VARIANTS, 0, 1, 2, 5))
async def test_all_that_was_stored_is_restored_whatever_was_killed(
    component: Component, seed: int, tmp_path: Path
) -> None:
    programs, rng = programs_of(component), random.Random(seed)
    (tmp_path / "source").mkdir()
    store = f"file://{tmp_path}/store"
    async with real_etcd(programs, tmp_path / "source") as etcd, etcd.client() as client:
        load = Load(client, rng)
        watching = asyncio.create_task(load.watched())
        stored = 0
        async with running_agent(store, etcd.endpoint, tmp_path / "agent.log", *FLAGS) as agent:
            for _ in range(6):
                for _ in range(rng.randrange(5, 40)):
                    await load.write()
                match rng.randrange(4):
                    case 0:
                        await agent.kill()
                        for _ in range(rng.randrange(10)):
                            await load.write()
                        await agent.start()
                    case 1:
                        await again(etcd)
                    case 2:
                        answer = await agent.ask("/snapshot/full", until_taken=True)
                        stored = max(stored, answer["lastRevision"])
                    case _:
                        before = load.acknowledged
                        await agent.ask("/snapshot/delta", until_taken=True)
                        stored = max(stored, before)
            before = load.acknowledged
            await agent.ask("/snapshot/delta", method="POST", until_taken=True)
            stored = max(stored, before)
            for _ in range(rng.randrange(10)):
                await load.write()
            await agent.kill()
        last = await load.seen_all()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    await restored_as_it_was(tmp_path, load, range(stored, last + 1), programs)


async def restored_as_it_was(folder: Path, load: Load, reached: range, programs: Path) -> None:
    """The store's content is whole, up to one of these revisions, and an etcd serves it as it was then."""
    target = folder / "target"
    target.mkdir()
    done = await restore(LocalStore(folder / "store"), target / "data", Options(members=OF_TESTS, bump=0))
    assert done.contents.revision in reached
    assert done.is_whole
    async with real_etcd(programs, target) as etcd, etcd.client() as client:
        assert await everything(client) == load.at(done.contents.revision)


async def test_two_members_that_follow_take_no_snapshots(tmp_path: Path) -> None:
    async with real_cluster(programs_of(ETCD), tmp_path) as members:
        async with members[0].client() as client:
            leader = (await client.status()).leader
            ids = [(await one.client().status()).header.member_id for one in members]
        leading = members[ids.index(leader)]
        following = next(one for one in members if one is not leading)
        store = f"file://{tmp_path}/store"
        async with (
            running_agent(store, following.endpoint, tmp_path / "following.log", *FLAGS) as follower,
            running_agent(store, leading.endpoint, tmp_path / "leading.log", *FLAGS) as leader_agent,
        ):
            await leader_agent.ask("/snapshot/full", until_taken=True)
            assert await follower.ask("/healthz", until_taken=True) == {"health": True}
            status, said = await follower.answer("/snapshot/full")
            assert status == 503
            assert "another member is the leader" in said
            async with leading.client() as client:
                await client.move_leader(ids[members.index(following)])
                with suppress(EtcdError):
                    await client.put(b"/after", b"the change")
            await follower.ask("/snapshot/full", until_taken=True)


async def leading_of(members: list[RealEtcd]) -> int:
    """Which of the members leads, once one does."""

    async def leading() -> list[int]:
        found = []
        for at, member in enumerate(members):
            with suppress(EtcdError):
                async with member.client(timeout=2.0) as client:
                    if (await client.status()).leads:
                        found.append(at)
        return found

    return (await eventually(leading))[0]


async def stored_by_the_leader(members: list[RealEtcd], agents: list[AgentProcess]) -> None:
    """Have the agent of whoever leads store all that was acknowledged."""

    async def answer() -> tuple[int, object]:
        return await agents[await leading_of(members)].answer("/snapshot/delta", method="POST")

    await eventually(answer, lambda answer: answer[0] == 200)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
async def test_whichever_of_three_members_leads_and_is_killed_all_that_was_stored_is_restored(
    seed: int, tmp_path: Path
) -> None:
    rng, store = random.Random(seed), f"file://{tmp_path}/store"
    async with AsyncExitStack() as stack:
        members = await stack.enter_async_context(real_cluster(programs_of(ETCD), tmp_path))
        endpoints = [member.endpoint for member in members]
        client = await stack.enter_async_context(connect(*endpoints, timeout=20.0))
        agents = [
            await stack.enter_async_context(running_agent(store, endpoint, tmp_path / f"agent-{at}.log", *FLAGS))
            for at, endpoint in enumerate(endpoints)
        ]
        load, stored = Load(client, rng), 0
        watching = asyncio.create_task(load.watched())
        for _ in range(5):
            for _ in range(rng.randrange(5, 40)):
                await load.write()
            at = await leading_of(members)
            match rng.randrange(4):
                case 0:
                    async with members[(at + 1) % 3].client() as other, members[at].client() as leading:
                        with suppress(EtcdError):
                            await leading.move_leader((await other.status()).header.member_id)
                case 1:
                    await members[at].kill()
                    for _ in range(rng.randrange(10)):
                        await load.write()
                    await members[at].start()
                case 2:
                    await agents[at].kill()
                    await agents[at].start()
                case _:
                    before = load.acknowledged
                    await stored_by_the_leader(members, agents)
                    stored = max(stored, before)
        before = load.acknowledged
        await stored_by_the_leader(members, agents)
        stored = max(stored, before)
        last = await load.seen_all()
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching
    await restored_as_it_was(tmp_path, load, range(stored, last + 1), programs_of(ETCD))
