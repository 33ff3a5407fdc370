"""The agent beside a real etcd: whatever is killed in whatever moment, what was stored leads to the exact numbers."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE
from espalier.etcd.client import connect
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.restore.restorer import Options, restore
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.etcd import calls
from tests.support.etcd.agents import AgentProcess, running_agent
from tests.support.etcd.etcd_load import Load
from tests.support.etcd.real_etcd import RealEtcd, programs_of, real_cluster, real_etcd
from tests.support.etcd.restored_etcd import OF_TESTS, everything
from tests.support.sampling import sampled
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]
FLAGS = ("--delta-snapshot-period", "1s", "--delta-snapshot-memory-limit", "2000")


async def again(etcd: RealEtcd) -> None:
    await etcd.kill()
    await etcd.start()


VARIANTS = [(component, seed) for seed in range(500) for component in (ETCD, ETCD_BEFORE)]


@pytest.mark.parametrize(("component", "seed"), sampled(VARIANTS, 0, 1, 2, 5))
async def test_everything_stored_is_restored_after_kills(component: Component, seed: int, tmp_path: Path) -> None:
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
    assert done.is_complete
    async with real_etcd(programs, target) as etcd, etcd.client() as client:
        assert await everything(client) == load.at(done.contents.revision)


async def test_two_members_that_follow_take_no_snapshots(tmp_path: Path) -> None:
    async with real_cluster(programs_of(ETCD), tmp_path) as members:
        async with members[0].client() as client:
            leader = (await client.status()).leader
            ids = [(await member.client().status()).header.member_id for member in members]
        leading = members[ids.index(leader)]
        following = next(member for member in members if member is not leading)
        store = f"file://{tmp_path}/store"
        async with (
            running_agent(store, following.endpoint, tmp_path / "following.log", *FLAGS) as follower,
            running_agent(store, leading.endpoint, tmp_path / "leading.log", *FLAGS) as leader_agent,
        ):
            await leader_agent.ask("/snapshot/full", until_taken=True)
            assert await follower.ask("/healthz", until_taken=True) == {"health": True}
            status, text = await follower.answer("/snapshot/full")
            assert status == 503
            assert "another member is the leader" in text
            async with leading.client() as client:
                await calls.move_leader(client, ids[members.index(following)])
                with suppress(EtcdError):
                    await client.put(b"/after", b"the change")
            await follower.ask("/snapshot/full", until_taken=True)


async def leading_of(members: list[RealEtcd]) -> int:
    """Which of the members leads, once one does."""

    async def leading() -> list[int]:
        results = []
        for at, member in enumerate(members):
            with suppress(EtcdError):
                async with member.client(timeout=2.0) as client:
                    if (await client.status()).leads:
                        results.append(at)
        return results

    return (await eventually(leading))[0]


async def stored_by_the_leader(members: list[RealEtcd], agents: list[AgentProcess]) -> None:
    """Have the agent of whoever leads store all that was acknowledged."""

    async def answer() -> tuple[int, object]:
        return await agents[await leading_of(members)].answer("/snapshot/delta", method="POST")

    await eventually(answer, lambda answer: answer[0] == 200)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
async def test_killed_leader_of_three_loses_nothing_stored(seed: int, tmp_path: Path) -> None:
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
                            await calls.move_leader(leading, (await other.status()).header.member_id)
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
