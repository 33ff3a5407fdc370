"""Load on an etcd: a client that writes, and the history that it caused."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

from espalier.etcd.client import Client
from espalier.etcd.errors import Compacted, Unavailable
from espalier.etcd.requests import FROM_KEY, DeleteRange, Put, Txn
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.snapshotter.full import newest_revision
from tests.support.etcd import calls


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
                    granted = await calls.grant(self.client, 3600)
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
        results: dict[bytes, KeyValue] = {}
        for event in self.events:
            if event.item.mod_revision > revision:
                break
            if event.type == "DELETE":
                del results[event.item.key]
            else:
                results[event.item.key] = event.item
        return tuple(results[key] for key in sorted(results))
