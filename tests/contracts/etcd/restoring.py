"""A real etcd, backups of its history, and what is restored of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from espalier.assets.component import Component
from espalier.etcd.client import Client
from espalier.etcd.requests import FROM_KEY, DeleteRange, Put, Txn
from espalier.etcd.results import Event
from espalier.etcdbackup.restore.restorer import Options, Restored, restore
from espalier.etcdbackup.snapshots.names import Kind, Snapshot
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.etcd.backups import EPOCH
from tests.support.etcd.etcd_histories import Grant, Model, Step, play
from tests.support.etcd.real_etcd import RealEtcd, programs_of, real_etcd
from tests.support.etcd.restored_etcd import OF_TESTS, put_delta

BEFORE: list[Step] = [
    Put(b"a", b"1"), Put(b"a", b"2"), Grant(11), Put(b"b", b"with a lease", 11), Put(b"c", b"3"), DeleteRange(b"c"),
]  # fmt: skip
AFTER: list[Step] = [
    Put(b"c", b"again"), Txn((), (Put(b"a", b"3"), Put(b"d", b"4"), DeleteRange(b"b"))), Grant(12),
    Put(b"e", b"later", 12), DeleteRange(b"a"), Put(b"a", b"anew"),
]  # fmt: skip


class Source:
    """An etcd, its backups, and what happened to it."""

    def __init__(self, etcd: RealEtcd, client: Client, store: LocalStore) -> None:
        self.etcd, self.client, self.store = etcd, client, store
        self.model = Model()

    async def play(self, history: list[Step]) -> None:
        for step in history:
            answer = await play(self.client, step, compacted=self.model.compacted, revision=self.model.revision)
            if not isinstance(answer, str):
                self.model.play(step)

    async def full(self, *, name: int | None = None, final: bool = False) -> int:
        """Take a full snapshot, whose name may have another revision than its content."""
        async with aclosing(self.client.snapshot()) as chunks:
            content = b"".join([chunk.data async for chunk in chunks])
        last = name or self.model.revision
        await self.store.put(Snapshot(Kind.FULL, 0, last, EPOCH, is_final=final).key, content)
        return last

    async def delta(self, start: int, last: int) -> None:
        """Take a delta of these revisions."""
        events: list[Event] = []
        async with self.client.watch(b"\0", FROM_KEY, start_revision=start) as watch:
            async for batch in watch:
                events += batch.events
                if events and events[-1].item.mod_revision >= last:
                    break
        those = [event for event in events if event.item.mod_revision <= last]
        await put_delta(self.store, Snapshot(Kind.DELTA, start, last, EPOCH + last), those)


@asynccontextmanager
async def source(component: Component, folder: Path) -> AsyncIterator[Source]:
    (folder / "source").mkdir()
    async with real_etcd(programs_of(component), folder / "source") as etcd, etcd.client() as client:
        yield Source(etcd, client, LocalStore(folder / "store"))


async def restored(of: Source, folder: Path, **options: object) -> tuple[Restored, Path]:
    target = folder / "target"
    target.mkdir(exist_ok=True)
    return await restore(of.store, target / "data", Options(members=OF_TESTS, **options)), target  # type: ignore[arg-type]
