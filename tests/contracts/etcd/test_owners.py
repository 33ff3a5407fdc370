"""Moves of a control plane's etcd on real processes: guards, agents, copies, and an etcd of ours or a real one.

Writers, readers and watches at both seeds are witnesses: never do two epochs serve.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE
from espalier.etcd.client import connect
from espalier.etcdbackup.restore.plan import BUMP
from tests.support.etcd.owners import QUICK, Seat, revision, seats
from tests.support.etcd.real_etcd import built
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
ETCDS = [
    pytest.param(None, id="embedded", marks=pytest.mark.embedded),
    pytest.param(ETCD_BEFORE, id="etcd-before", marks=[pytest.mark.envtest, pytest.mark.soak]),
    pytest.param(ETCD, id="etcd", marks=pytest.mark.envtest),
]


@pytest.fixture(params=ETCDS)
def component(request: pytest.FixtureRequest) -> Component | None:
    chosen: Component | None = request.param
    if chosen is not None and built(chosen) is None:
        pytest.skip(f"etcd {chosen.version} was not built: run make real-assets")
    return chosen


@pytest.mark.demand("G70", G37="beside a real etcd", G55="beside a real etcd")
@pytest.mark.often("etcd")
async def test_the_good_case_loses_nothing(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        assert (await source.ask("POST", "/copyop/initiate", {"epoch": 7}))[0] == 409
        assert (await source.ask("POST", "/copyop/initiate", {}))[0] == 400
        assert (await source.ask("GET", "/copyop/initiate"))[0] == 405
        assert await source.ask("GET", "/copyop/status") == (200, {"epoch": 1, "initiated": False})
        await source.initiated()
        assert not await source.is_ready()
        await eventually(lambda: source.etcd_pid() is None)
        assert (await source.ask("GET", "/copyop/status"))[1]["copyOperation"]["status"] == "Ready"
        destination = moves.seat()
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []
        async with connect(destination.etcd_url) as client:
            assert 0 < await revision(client) < BUMP
        assert await source.agent.stop() == 0
        assert await source.guard.stop() == 0


@pytest.mark.demand(G44="as processes, with a real etcd", G53="SIGSTOP beside a real etcd")
@pytest.mark.often("etcd")
async def test_thawed_source_serves_nothing(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        thaw = source.freeze()
        destination = moves.seat()
        await moves.taken_over(destination)
        before = moves.witnesses.count(1)
        thaw()
        await eventually(lambda: source.etcd_pid() is None, told=source.logs)
        await eventually(lambda: moves.witnesses.count(2) > 200)
        assert moves.witnesses.count(1) == before
        assert not await source.is_ready()
        async with connect(destination.etcd_url) as client:
            assert await revision(client) > BUMP


@pytest.mark.demand(G63="beside a real etcd")
@pytest.mark.often("etcd")
async def test_lost_store_closes_source_and_not_destination(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        store = tmp_path / "seen-by-the-source"
        real = tmp_path / "store-1"
        real.mkdir()
        store.symlink_to(real)
        source = await moves.founded(f"file://{store}")
        store.unlink()
        store.write_text("no folder: nothing can be read")
        cut = time.monotonic()
        await eventually(lambda: source.etcd_pid() is None, told=source.logs)
        closed = moves.witnesses.count(1)
        last = max(ended for _, ended, epoch, _ in moves.witnesses.served if epoch == 1)
        assert last <= cut + QUICK.validity + 0.5
        source.store = f"file://{real}"
        destination = moves.seat()
        await moves.taken_over(destination)
        store.unlink()
        store.symlink_to(real)
        await eventually(lambda: moves.witnesses.count(2) > 200)
        assert moves.witnesses.count(1) == closed


@pytest.mark.demand(G63="with the agent alone killed")
@pytest.mark.often("etcd")
async def test_killed_agent_leaves_a_proxy_that_shuts(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        await source.agent.kill()
        killed = time.monotonic()
        served = moves.witnesses.served
        await eventually(lambda: time.monotonic() - max(item[1] for item in served) > 3 * QUICK.poll_period)
        assert max(item[1] for item in served) <= killed + QUICK.validity + 0.5
        assert source.etcd_pid() is not None, "etcd lives, and nobody is let in"
        await source.start_agent()
        await source.serves()
        count = moves.witnesses.count(1)
        await eventually(lambda: moves.witnesses.count(1) > count + 50)


@pytest.mark.often("etcd")
async def test_etcd_dies_with_its_guard(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        pid = source.etcd_pid()
        assert pid is not None
        await source.guard.kill()
        await eventually(lambda: not is_alive(pid))
        await eventually(not_ready(source))
        await source.start_guard()
        await source.serves()
        count = moves.witnesses.count(1)
        await eventually(lambda: moves.witnesses.count(1) > count + 50, told=source.logs)


@pytest.mark.often("etcd")
async def test_a_data_directory_that_is_lost_is_restored(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        await source.ask("POST", "/snapshot/full")
        await source.ask("POST", "/snapshot/delta")
        known = set(moves.witnesses.acknowledged)
        await source.ask("POST", "/snapshot/delta")
        await source.agent.kill()
        await source.guard.kill()
        (source.data).rename(tmp_path / "lost")
        await source.start()
        await source.serves()
        async with connect(source.etcd_url) as client:
            assert await revision(client) > BUMP
            assert [key for key in known if await client.get(key) is None] == []


async def test_a_torn_data_directory_is_replaced_and_kept(tmp_path: Path, component: Component | None) -> None:
    if component is None:
        pytest.skip("the etcd for trying has a database of its own, which nobody else reads")
    async with seats(tmp_path, component) as moves:
        source = await moves.founded()
        known = set(moves.witnesses.acknowledged)
        await source.ask("POST", "/snapshot/delta")
        await source.agent.kill()
        await source.guard.kill()
        database = source.data / "member/snap/db"
        database.write_bytes(database.read_bytes()[:8192])
        await source.start()
        await source.serves()
        assert (source.data.with_name("data.replaced") / "member/snap/db").exists()
        async with connect(source.etcd_url) as client:
            assert await revision(client) > BUMP
            assert [key for key in known if await client.get(key) is None] == []


@pytest.mark.demand(G44="as processes, with a real etcd")
@pytest.mark.soak
@pytest.mark.parametrize("seed", range(30))
async def test_failures_in_a_move_never_let_two_serve(tmp_path: Path, component: Component | None, seed: int) -> None:
    async with seats(tmp_path, component) as moves:
        chance = random.Random(seed)
        source = await moves.founded()
        destination = moves.seat()
        copy = await moves.copy(destination)
        for _ in range(chance.randrange(1, 5)):
            await disturbed(chance, source)
        await eventually(destination.is_ready, told=destination.logs)
        await copy.kill()
        await destination.start()
        moves.witnesses.begin(destination)
        await destination.serves()
        await eventually(lambda: moves.witnesses.count(2) > 100, told=destination.logs)


async def disturbed(chance: random.Random, source: Seat) -> None:
    """One mishap at the source, at any moment."""
    moment = time.monotonic() + chance.uniform(0, 1)
    await eventually(lambda: time.monotonic() >= moment)
    match chance.choice(("agent", "guard", "etcd", "freeze")):
        case "agent":
            await source.agent.kill()
            await source.start_agent()
        case "guard":
            await source.guard.kill()
            await source.start_guard()
        case "etcd":
            source.kill_etcd()
        case "freeze":
            thaw = source.freeze(etcd=chance.random() < 0.5)
            moment = time.monotonic() + chance.uniform(0, 3)
            await eventually(lambda: time.monotonic() >= moment)
            thaw()


def is_alive(pid: int) -> bool:
    """True while there is such a process."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def not_ready(seat: Seat) -> Callable[[], Awaitable[bool]]:
    """True once its probe says no."""

    async def is_unready() -> bool:
        return not await seat.is_ready()

    return is_unready
