"""Two API servers, writers and watchers on both, and an etcd that is killed, frozen and started meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.assets.recipes import ETCD
from espalier.kube.client import Client
from espalier.kube.errors import ApiError, Conflict, NotFound, ServerFailure
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from tests.support.etcd.real_etcd import RealEtcd, built, real_etcd
from tests.support.sampling import sampled

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

NAMES = [f"n{number}" for number in range(6)]
WRITES = 60
DONE = "done"


@dataclass
class Writer:
    """Counts up in objects, by read and replace; tells what was acknowledged and what may have been made."""

    client: Client
    rng: random.Random
    acknowledged: dict[str, set[int]] = field(default_factory=dict)
    uncertain: dict[str, set[int]] = field(default_factory=dict)
    """By object, the counts that were written."""

    async def run(self) -> None:
        for _ in range(WRITES):
            await self._count(self.rng.choice(NAMES))

    async def _count(self, name: str) -> None:
        try:
            tree = (await self.client.get(CONFIG_MAP, name, "default")).tree
        except (NotFound, ServerFailure, ApiError):
            return
        count = int(tree["data"]["count"]) + 1
        tree["data"] = {"count": str(count)}
        try:
            await self.client.replace(CONFIG_MAP, tree)
        except Conflict:
            return
        except ApiError:
            self.uncertain.setdefault(name, set()).add(count)
        else:
            assert count not in self.acknowledged.setdefault(name, set())
            self.acknowledged[name].add(count)


async def witness(client: Client, seen: dict[str, list[int]]) -> None:
    """Follow all counts, in the order in which they are told, until the last object comes."""
    async for event in client.watch(CONFIG_MAP, "default", resource_version="0"):
        if event.object.name == DONE:
            return
        count = event.object.tree.get("data", {}).get("count")
        if count is not None:
            seen.setdefault(event.object.name, []).append(int(count))


async def disturb(etcd: RealEtcd, rng: random.Random, stop: asyncio.Event) -> None:
    """Kill and start etcd, or freeze and thaw it, until told to stop; then it runs."""
    while not stop.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), rng.uniform(0.05, 0.3))
        if rng.random() < 0.5:
            await etcd.kill()
            await etcd.start()
        else:
            etcd.freeze()
            await asyncio.sleep(rng.uniform(0.0, 0.2))
            etcd.thaw()


@contextlib.asynccontextmanager
async def serving(etcd: RealEtcd, seed: int) -> AsyncIterator[Client]:
    store = EtcdStore(etcd.client(timeout=2.0), Keys(KINDS), lost_after=60.0)
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(seed))
    client = Client(InProcessTransport(server), user_agent="tester", retry=Retry(attempts=1))
    try:
        await server.start()
        yield client
    finally:
        await client.close()
        await server.close()


@pytest.mark.parametrize("seed", sampled(range(12), 0))
async def test_acknowledged_writes_survive_in_all_histories(tmp_path: Path, seed: int) -> None:
    programs = built(ETCD)
    if programs is None:
        pytest.skip(f"etcd {ETCD.version} was not built: run make real-assets")
    rng = random.Random(seed)
    async with (
        real_etcd(programs, tmp_path) as etcd,
        serving(etcd, 1) as opened,
        serving(etcd, 2) as other,
        asyncio.timeout(120),
    ):
        for name in NAMES:
            await opened.create(
                CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}, "data": {"count": "0"}}
            )
        stories: list[dict[str, list[int]]] = [{}, {}]
        witnesses = [asyncio.ensure_future(witness(*each)) for each in zip((opened, other), stories, strict=True)]
        writers = [Writer(client, random.Random(rng.random())) for client in (opened, other, opened, other)]
        stop = asyncio.Event()
        disturbing = asyncio.ensure_future(disturb(etcd, rng, stop))
        await asyncio.gather(*(writer.run() for writer in writers))
        stop.set()
        await disturbing
        await opened.create(CONFIG_MAP, {"metadata": {"name": DONE, "namespace": "default"}})
        await asyncio.gather(*witnesses)
        last = {
            item.name: int(item.tree["data"]["count"])
            for item in (await other.list(CONFIG_MAP, "default")).items
            if item.name in NAMES
        }
    acknowledged = sum(len(counts) for writer in writers for counts in writer.acknowledged.values())
    assert acknowledged > 20
    for name in NAMES:
        assert stories[0][name] == stories[1][name] == list(range(last[name] + 1))
        made = [count for writer in writers for count in writer.acknowledged.get(name, ())]
        maybe = {count for writer in writers for count in writer.uncertain.get(name, ())}
        assert len(made) == len(set(made))  # nobody was told of a write that another one made
        assert set(made) <= set(range(1, last[name] + 1)) <= set(made) | maybe
