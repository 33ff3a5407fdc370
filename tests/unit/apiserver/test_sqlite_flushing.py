from __future__ import annotations

import asyncio
from pathlib import Path

from espalier.api.resource import Key
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import Change
from espalier.kube.objects import Object, encode_json


def write(store: SqliteStore, name: str) -> int:
    metadata = {"name": name, "resourceVersion": str(store.revision + 1)}
    return store.put("configmaps", Key("default", name), Object(encode_json({"metadata": metadata}))).revision


async def test_write_at_the_end_of_a_flush_is_flushed_too(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "objects.db")
    await store.start()
    loop = asyncio.get_running_loop()
    second: asyncio.Future[int] = loop.create_future()

    def follow(change: Change) -> None:
        if change.key.name == "first":
            # Runs after the flush has nothing left to do, and before callbacks of its task would.
            loop.call_soon(lambda: second.set_result(write(store, "second")))

    store.follow(follow)
    async with asyncio.timeout(60):
        await store.flushed(write(store, "first"))
        await store.flushed(await second)
    assert store.durable == await second
    await store.close()
