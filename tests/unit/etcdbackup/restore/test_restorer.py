"""Restores without an etcd: what is in the database, and what is left alone when there can't be one."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import tempfile
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.database.backend import NEVER_COMPACTED, Record, State, read_records, read_state
from espalier.etcd.requests import DeleteRange, Put
from espalier.etcd.results import Event
from espalier.etcdbackup.restore import data_directory, wal
from espalier.etcdbackup.restore.data_directory import WAL
from espalier.etcdbackup.restore.errors import Incomplete, NothingToRestore, NotWritten, Occupied
from espalier.etcdbackup.restore.restorer import Options, Restored, restore
from espalier.etcdbackup.snapshots.names import Compression
from espalier.etcdbackup.stores.errors import Corrupt
from espalier.etcdbackup.stores.local import LocalStore
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import SystemClock
from tests.support.etcd.backups import delta, full
from tests.support.etcd.disk_order import DiskOrder
from tests.support.etcd.etcd_histories import Grant, Model, Step, histories
from tests.support.etcd.restored_etcd import database, full_content, put_delta, put_full, records

STORY: list[Step] = [
    Put(b"a", b"1"), Put(b"b", b"2"), Put(b"a", b"3"), DeleteRange(b"b"), Put(b"b", b"4"), Grant(7), Put(b"c", b"5", 7),
    Put(b"d", b"6"), DeleteRange(b"a", b"c"), Put(b"e", b"7"),
]  # fmt: skip
"""Leads to revision 10."""
AGAIN = Options(bump=0)


def played(steps: list[Step]) -> Model:
    model = Model()
    for step in steps:
        model.play(step)
    return model


def between(model: Model, start: int, last: int) -> list[Event]:
    return [event for event in model.events if start <= event.item.mod_revision <= last]


async def backed_up(
    store: Store,
    model: Model,
    at: int,
    cuts: list[tuple[int, int]],
    *,
    name: int | None = None,
    state: State | None = None,
    final: bool = False,
) -> None:
    """A full snapshot at a revision, and deltas of these ranges."""
    content = full_content(between(model, 0, at), state or State(revision=at))
    await put_full(store, full(name or at, 0, final=final), content)
    for start, last in cuts:
        compression = Compression.ZLIB if start % 2 else Compression.NONE
        await put_delta(store, delta(start, last, last, compression), between(model, start, last))


def restored(folder: Path) -> tuple[list[Record], State]:
    with Database.open(database(folder)) as opened:
        check(opened)
        return list(read_records(opened)), read_state(opened)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore(SystemClock())


async def test_all_records_come_back_with_their_numbers(store: MemoryStore, tmp_path: Path) -> None:
    model = played(STORY)
    await backed_up(store, model, 4, [(5, 6), (7, 10)], state=State(revision=4, leases={9: 60}, index=77, term=5))
    done = await restore(store, tmp_path / "data", AGAIN)
    back, state = restored(tmp_path / "data")
    assert back == records(model.events)
    assert (state.revision, state.leases, state.index, state.term) == (10, {7: 3600, 9: 60}, 1, 1)
    assert [stored.snapshot.last for stored in done.deltas] == [6, 10]
    assert (done.contents.leases, done.is_complete, done.passed_over) == ((7,), True, ())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


@settings(max_examples=settings().max_examples // 3)  # each one waits for the disk
@given(st.data())
def test_any_cut_of_history_leads_to_same_records(data: st.DataObject) -> None:
    """Deltas overlap, and the full snapshot may have more revisions than its name."""
    without = histories.map(lambda steps: [step for step in steps if isinstance(step, Put | DeleteRange)])
    model = played([Put(b"a", b"1"), *data.draw(without)])
    last = model.revision
    name = data.draw(st.integers(2, last))
    at = data.draw(st.integers(name, last))
    cuts, reach = [], name
    while reach < last:
        end = data.draw(st.integers(reach + 1, last))
        cuts.append((data.draw(st.integers(2, reach + 1)), end))
        reach = end
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)

        async def story() -> Restored:
            store = MemoryStore(SystemClock())
            await backed_up(store, model, at, cuts, name=name)
            return await restore(store, folder / "data", AGAIN)

        done = asyncio.run(story())
        assert restored(folder / "data")[0] == records(model.events)
        assert done.contents.revision == last


async def test_revisions_are_raised_unless_it_is_final(store: MemoryStore, tmp_path: Path) -> None:
    model = played(STORY)
    await backed_up(store, model, 10, [])
    done = await restore(store, tmp_path / "data", Options())
    back, state = restored(tmp_path / "data")
    assert (done.contents.revision, done.contents.served) == (10, 10 + 10**9)
    assert (back[-1].main, back[-1].kv.key, state.compacted) == (10 + 10**9, b"", 10 + 10**9)
    final = MemoryStore(SystemClock())
    await backed_up(final, model, 10, [], final=True)
    done = await restore(final, tmp_path / "final", Options())
    assert (done.contents.served, restored(tmp_path / "final")[1].compacted) == (10, NEVER_COMPACTED)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "flipped": lambda data: data[:40] + bytes([data[40] ^ 1]) + data[41:],
    "cut off": lambda data: data[:-5],
    "longer": lambda data: data + b"more",
    "another": lambda data: bytes(len(data)),
    "empty": lambda data: b"",
}


@pytest.mark.parametrize("which", [0, 1, 2], ids=["full", "first delta", "last delta"])
@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_object_is_named_without_a_change(
    store: MemoryStore, tmp_path: Path, which: int, damage: str
) -> None:
    await backed_up(store, played(STORY), 4, [(5, 6), (7, 10)])
    (tmp_path / "data/member").mkdir(parents=True)
    (tmp_path / "data/member/kept").write_text("as it was")
    before = contents(tmp_path)
    key = sorted([stored.key async for stored in store.list()], key=lambda key: key.split("-")[2])[which]
    await store.put(key, DAMAGES[damage]((await store.read(key, most=1 << 20)).data))
    with pytest.raises(Corrupt, match=key):
        await restore(store, tmp_path / "data", Options(replace=True))
    assert contents(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]


async def test_damaged_full_snapshot_is_bridged_by_deltas(store: MemoryStore, tmp_path: Path) -> None:
    model = played(STORY)
    await backed_up(store, model, 4, [(5, 7), (8, 10)])
    await store.put(full(7, 7).key, b"damaged")
    done = await restore(store, tmp_path / "data", AGAIN)
    assert restored(tmp_path / "data")[0] == records(model.events)
    assert (done.full.snapshot.last, done.is_complete) == (4, True)
    assert [full(7, 7).key in cause for cause in done.passed_over] == [True]


async def test_a_gap_is_refused_unless_less_is_wanted(store: MemoryStore, tmp_path: Path) -> None:
    model = played(STORY)
    await backed_up(store, model, 4, [(5, 6), (8, 10)])
    with pytest.raises(Incomplete, match=r"revision 6 can be restored .* 7 to 7 are missing"):
        await restore(store, tmp_path / "data", AGAIN)
    assert not (tmp_path / "data").exists()
    done = await restore(store, tmp_path / "data", Options(partial=True))
    assert (done.contents.revision, done.is_complete) == (6, False)
    assert done.contents.served > 10


async def test_missing_revision_in_a_delta_is_named(store: MemoryStore, tmp_path: Path) -> None:
    model = played(STORY)
    await backed_up(store, model, 4, [])
    holed = delta(5, 10, 10)
    await put_delta(store, holed, [event for event in between(model, 5, 10) if event.item.mod_revision != 7])
    with pytest.raises(Corrupt, match=f"{holed.key}: an event has revision 8 after 6"):
        await restore(store, tmp_path / "data", AGAIN)


@pytest.mark.parametrize("options", [Options(), Options(partial=True)])
async def test_a_store_without_a_backup_is_refused(store: MemoryStore, tmp_path: Path, options: Options) -> None:
    await store.put("v2/readme", b"foreign")
    with pytest.raises(NothingToRestore):
        await restore(store, tmp_path / "data", options)
    await backed_up(store, Model(), 1, [])
    with pytest.raises(NothingToRestore, match="an empty etcd"):
        await restore(store, tmp_path / "data", options)
    assert list(tmp_path.iterdir()) == []


async def test_all_of_it_is_on_disk_before_it_has_its_name(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine that loses power would start an etcd with half of it, and find no backup needed."""
    await backed_up(store, played(STORY), 10, [])
    order, data = DiskOrder(monkeypatch), tmp_path / "data"
    await restore(store, data, AGAIN, notes={Path("member/note.json"): b"{}"})
    taken = Path("member/snap", wal.snapshot_name(AGAIN.members))
    files = {Path("member/snap/db"), taken, WAL / wal.SEGMENT, Path("member/note.json")}
    folders = {Path("member/snap"), WAL, Path("member"), Path()}
    assert {tmp_path / "data.part" / path for path in files | folders} <= order.before(data)
    assert tmp_path in order.after(data)


async def test_existing_data_are_put_aside_when_told(store: MemoryStore, tmp_path: Path) -> None:
    await backed_up(store, played(STORY), 10, [])
    data = tmp_path / "data"
    (data / "member/snap").mkdir(parents=True)
    database(data).write_bytes(b"old")
    with pytest.raises(Occupied, match="--replace"):
        await restore(store, data, AGAIN)
    with database(data).open("rb") as used:
        fcntl.flock(used, fcntl.LOCK_EX)
        with pytest.raises(Occupied, match="in use by another process"):
            await restore(store, data, Options(replace=True))
    assert database(data).read_bytes() == b"old"
    done = await restore(store, data, Options(replace=True))
    assert done.replaced == tmp_path / "data.replaced"
    assert database(tmp_path / "data.replaced").read_bytes() == b"old"
    assert restored(data)[1].revision == 10 + 10**9
    with pytest.raises(Occupied, match="holds data replaced by an earlier restore"):
        await restore(store, data, Options(replace=True))


@pytest.mark.parametrize("target", ["file", "link"])
async def test_a_target_that_is_no_folder_is_occupied(store: MemoryStore, tmp_path: Path, target: str) -> None:
    """A restore renames a folder to it, which would leave the target of a link as it was."""
    await backed_up(store, played(STORY), 10, [])
    (tmp_path / "file").write_text("")
    (tmp_path / "empty").mkdir()
    (tmp_path / "link").symlink_to("empty")
    with pytest.raises(Occupied, match="already has data"):
        await restore(store, tmp_path / target, Options())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file", "link"]


async def test_empty_folder_is_filled_after_a_killed_restore(store: MemoryStore, tmp_path: Path) -> None:
    await backed_up(store, played(STORY), 10, [])
    (tmp_path / "data").mkdir()
    (tmp_path / "data.part/member/snap").mkdir(parents=True)
    (tmp_path / "data.part/member/snap/db").write_bytes(b"half")
    await restore(store, tmp_path / "data", AGAIN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data"]
    modes = [(tmp_path / "data" / name).stat().st_mode & 0o777 for name in (".", "member", "member/wal")]
    assert modes == [0o700] * 3


async def test_two_restores_do_not_meet(store: MemoryStore, tmp_path: Path) -> None:
    await backed_up(store, played(STORY), 10, [])
    with (
        data_directory.side_folder(tmp_path / "data", replace=False),
        pytest.raises(Occupied, match=r"data\.part is in use"),
    ):
        await restore(store, tmp_path / "data", AGAIN)


@pytest.mark.parametrize("at", ["fsync", "replace"])
async def test_a_full_disk_is_said_and_nothing_is_left(
    store: MemoryStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    await backed_up(store, played(STORY), 4, [(5, 10)])

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if at == "fsync":
        monkeypatch.setattr(os, "fsync", full_disk)
    else:
        monkeypatch.setattr(data_directory, "flush_folder", full_disk)
    with pytest.raises(NotWritten, match="No space left on device; free space, or restore elsewhere"):
        await restore(store, tmp_path / "data", AGAIN)
    assert list(tmp_path.iterdir()) == []


async def test_a_restore_that_is_interrupted_leaves_nothing(tmp_path: Path) -> None:
    class Endless(LocalStore):
        """Never comes to the end of a delta."""

        async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
            if "Incr" in key:
                reached.set()
                await asyncio.Event().wait()
            async for chunk in super().stream(key, start=start, end=end):
                yield chunk

    reached = asyncio.Event()
    store = Endless(tmp_path / "store")
    await backed_up(store, played(STORY), 4, [(5, 10)])
    running = asyncio.ensure_future(restore(store, tmp_path / "data", AGAIN))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store"]
