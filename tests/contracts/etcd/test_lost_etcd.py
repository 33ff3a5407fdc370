"""An API server whose etcd ends, freezes or is exchanged: it goes on, or serves nothing any more."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from espalier.api.core import CONFIG_MAP
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore, StoreLost
from espalier.assets.recipes import ETCD
from espalier.kube.client import Client
from espalier.kube.errors import ApiError, ServerFailure
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from tests.support.etcd.real_etcd import RealEtcd, built, real_etcd

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

LOST_AFTER = 1.0
SOON = 20.0


@pytest_asyncio.fixture(loop_scope="session")
async def etcd(tmp_path: Path) -> AsyncIterator[RealEtcd]:
    programs = built(ETCD)
    if programs is None:
        pytest.skip(f"etcd {ETCD.version} was not built: run make real-assets")
    async with real_etcd(programs, tmp_path) as running:
        yield running


def new_server(etcd: RealEtcd, lost_after: float = LOST_AFTER) -> Server:
    store = EtcdStore(etcd.client(), Keys(KINDS), lost_after=lost_after)
    return Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))


@contextlib.asynccontextmanager
async def serving(etcd: RealEtcd, lost_after: float = LOST_AFTER) -> AsyncIterator[tuple[Server, Client]]:
    server = new_server(etcd, lost_after)
    client = Client(InProcessTransport(server), user_agent="tester", retry=Retry(attempts=1))
    try:
        await server.start()
        yield server, client
    finally:
        await client.close()
        await server.close()


def config_map(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}}


async def watched(client: Client, into: list[str]) -> None:
    """Follow config maps until the stream ends."""
    async for event in client.watch(CONFIG_MAP, "default", resource_version="0"):
        into.append(event.object.name)


async def told(client: Client, name: str) -> None:
    """Follow config maps until one of this name comes. The stream must not end before."""
    async for event in client.watch(CONFIG_MAP, "default", resource_version="0"):
        if event.object.name == name:
            return
    raise AssertionError("the watch has ended")


async def ended(server: Server) -> str:
    async with asyncio.timeout(SOON):
        return await server.lost()


@pytest.mark.parametrize("how", ["frozen", "killed"])
async def test_lost_etcd_ends_watches_and_serves_nothing(etcd: RealEtcd, how: str) -> None:
    async with serving(etcd) as (server, client):
        await client.create(CONFIG_MAP, config_map("a"))
        seen: list[str] = []
        watching = asyncio.ensure_future(watched(client, seen))
        loop = asyncio.get_running_loop()
        before = loop.time()
        if how == "frozen":
            etcd.freeze()
        else:
            await etcd.kill()
        with pytest.raises(ApiError):
            await client.get(CONFIG_MAP, "a", "default")
        assert await ended(server) == "etcd has not answered for 1 s"
        assert loop.time() - before < LOST_AFTER + 5  # by itself, and not only when it comes back
        async with asyncio.timeout(SOON):
            await watching
        assert "a" in seen
        for answered in (
            client.get(CONFIG_MAP, "a", "default"),
            client.list(CONFIG_MAP, "default"),
            client.create(CONFIG_MAP, config_map("b")),
            watched(client, []),
        ):
            with pytest.raises(ServerFailure, match="not running") as refused:
                await answered
            assert refused.value.status.code == 503
        if how == "frozen":
            etcd.thaw()
        with pytest.raises(ServerFailure):  # for good: who was told that it ended does not find it back
            await client.get(CONFIG_MAP, "a", "default")


async def test_a_short_absence_is_not_noticed_but_by_waiting(etcd: RealEtcd) -> None:
    async with serving(etcd, 30.0) as (_, client):
        await client.create(CONFIG_MAP, config_map("a"))
        watching = asyncio.ensure_future(told(client, "b"))
        await etcd.kill()
        waiting = asyncio.ensure_future(client.get(CONFIG_MAP, "a", "default"))
        await etcd.start()
        async with asyncio.timeout(SOON):
            assert (await waiting).name == "a"
            await client.create(CONFIG_MAP, config_map("b"))
            await watching


async def test_etcd_that_was_put_back_in_time_is_not_served(etcd: RealEtcd) -> None:
    async with serving(etcd, 30.0) as (server, client):
        await client.create(CONFIG_MAP, config_map("a"))
        await etcd.kill()
        copied_data = etcd.folder / "kept"
        await asyncio.to_thread(shutil.copytree, etcd.data, copied_data)
        await etcd.start()
        for name in ("b", "c"):
            await client.create(CONFIG_MAP, config_map(name))
        await etcd.kill()
        await asyncio.to_thread(shutil.rmtree, etcd.data)
        copied_data.rename(etcd.data)
        await etcd.start()
        with pytest.raises(ApiError):
            await client.get(CONFIG_MAP, "c", "default")
        assert "etcd went back from revision" in await ended(server)


async def test_another_etcd_is_not_served(etcd: RealEtcd) -> None:
    async with serving(etcd, 30.0) as (server, client):
        await client.create(CONFIG_MAP, config_map("a"))
        await etcd.kill()
        await asyncio.to_thread(shutil.rmtree, etcd.data)
        etcd.flags = {"initial-cluster-token": "another"}
        await etcd.start()
        with pytest.raises(ApiError):
            await client.get(CONFIG_MAP, "a", "default")
        assert "etcd belongs to another cluster" in await ended(server)


async def test_a_value_that_is_no_object_is_named(etcd: RealEtcd) -> None:
    async with serving(etcd) as (server, _), etcd.client() as other:
        await other.put(b"/registry/configmaps/default/wrong", b"\0protobuf")
        assert "/registry/configmaps/default/wrong" in await ended(server)
    server = new_server(etcd)
    with pytest.raises(StoreLost, match="/registry/configmaps/default/wrong"):
        await server.start()


async def test_a_server_does_not_start_without_etcd(etcd: RealEtcd) -> None:
    await etcd.kill()
    store = EtcdStore(etcd.client(timeout=2), Keys(KINDS))
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    with pytest.raises(StoreLost, match="the objects in etcd can't be read: no member of etcd can be reached"):
        await server.start()
