"""The local folder: what stands on the disk, who may read it, and who may write at the same time."""

from __future__ import annotations

import asyncio
import fcntl
import io
import os
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from espalier.etcdbackup.stores import local
from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.local import LOCK, UPLOADS, LocalStore
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import CHUNK
from tests.support.etcd.disk_order import DiskOrder


async def chunks(data: bytes) -> AsyncGenerator[bytes, None]:
    yield data


async def test_folders_and_files_are_their_owners_alone(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "default.bkp" / "etcd-main")
    await store.put("v2/a", b"1")
    await store.upload("v2/b", chunks(b"2"))
    modes = {path.relative_to(tmp_path).as_posix(): path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    folders = ("default.bkp", "default.bkp/etcd-main", "default.bkp/etcd-main/v2", f"default.bkp/etcd-main/{UPLOADS}")
    assert {path for path, mode in modes.items() if mode == 0o700} == set(folders)
    assert {mode for path, mode in modes.items() if path not in folders} == {0o600}


async def test_object_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And its name, and the folders above it, before it is called stored."""
    store, order = LocalStore(tmp_path / "etcd-main"), DiskOrder(monkeypatch)
    await store.put("v2/a", b"1")
    await store.upload("v2/b", chunks(b"2"))
    for path in (tmp_path / "etcd-main/v2/a", tmp_path / "etcd-main/v2/b"):
        assert [path_ for path_ in order.before(path) if path_.parent.name == UPLOADS]
        assert path.parent in order.after(path)
    assert {tmp_path, tmp_path / "etcd-main"} <= order.before(tmp_path / "etcd-main/v2/a")


async def test_folder_created_meanwhile_has_not_disappeared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "etcd-main"
    store, stat, looks = LocalStore(folder), Path.stat, count(1)

    def slow(path: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        is_first = path == folder and next(looks) == 1
        try:
            return stat(path, follow_symlinks=follow_symlinks)
        finally:
            if is_first:  # before what it found is known
                asyncio.run(store.put("a", b"1"))

    monkeypatch.setattr(Path, "stat", slow)
    await store.put("b", b"2")
    assert sorted([stored.key async for stored in store.list()]) == ["a", "b"]


class Hanging(io.FileIO):
    """A file whose file system hangs as soon as something is written."""

    goes_on = threading.Event()
    was_waited_for = False

    def write(self, data: Any, /) -> int:
        if not self.goes_on.wait(10):
            Hanging.was_waited_for = True
        return super().write(data)


async def test_hanging_file_system_blocks_no_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(descriptor: int, mode: str) -> io.BufferedRandom:
        return io.BufferedRandom(Hanging(descriptor, "r+b"), buffer_size=16)

    store = LocalStore(tmp_path, retries=Retries(attempt=0.05, stall=0.05))
    monkeypatch.setattr(local, "open", opened, raising=False)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    try:
        with pytest.raises(Unavailable, match="the file system does not answer"):
            await store.upload("v2/a", chunks(b"1" * 1000))
        assert await asyncio.to_thread(int, 7) == 7
    finally:
        Hanging.goes_on.set()
    assert not Hanging.was_waited_for
    monkeypatch.undo()
    await store.put("b", b"2")
    assert [stored.key async for stored in store.list()] == ["b"]


async def test_lock_and_unfinished_uploads_are_no_objects(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("v2/a", b"1")
    (tmp_path / UPLOADS / "torn").write_bytes(b"to")
    assert [stored.key async for stored in store.list()] == ["v2/a"]
    for key in (LOCK, f"{UPLOADS}/torn"):
        with pytest.raises(ValueError, match="reserves"):
            await store.read(key, most=9)


async def test_uploads_abandoned_a_day_ago_are_removed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("a", b"1")
    old, new = tmp_path / UPLOADS / "old", tmp_path / UPLOADS / "new"
    for path in (old, new):
        path.write_bytes(b"to")
    os.utime(old, (0, 0))
    await store.put("a", b"2")
    assert (old.exists(), new.exists()) == (False, True)


async def test_full_disk_is_said_and_torn_upload_makes_room(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, before[0][1]))  # the next nearest thing to a disk that is full
    try:
        with pytest.raises(StoreError, match="v2/a"):
            await store.upload("v2/a", chunks(bytes(1 << 12) + b"more"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])
    assert not list((tmp_path / UPLOADS).iterdir())


async def test_a_link_leads_nowhere(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    store = LocalStore(tmp_path / "store")
    await store.put("a", b"1")
    (tmp_path / "store" / "b").symlink_to(secret)
    assert [stored.key async for stored in store.list()] == ["a"]
    with pytest.raises(Refused, match="store/b"):
        await store.read("b", most=9)
    with pytest.raises(Conflict):
        await store.create("b", b"2")
    await store.put("b", b"3")
    assert secret.read_bytes() == b"secret"


async def test_a_pipe_is_no_object_and_nobody_waits_for_it(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("v2/a", b"1")
    os.mkfifo(tmp_path / "v2" / "pipe")
    assert [stored.key async for stored in store.list()] == ["v2/a"]
    with pytest.raises(NotFound):
        await store.read("v2/pipe", most=9)


async def test_a_file_where_the_store_should_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "store").write_bytes(b"x")
    store = LocalStore(tmp_path / "store")
    with pytest.raises(Refused, match="it is not a folder"):
        [stored async for stored in store.list()]


async def test_unmounted_folder_is_no_empty_bucket(tmp_path: Path) -> None:
    mounted, away = tmp_path / "buckets", tmp_path / "elsewhere"
    store = LocalStore(mounted / "a")
    assert [stored.key async for stored in store.list()] == [], "nobody has written yet"
    await store.put("v2/full", b"1")
    mounted.rename(away)
    mounted.mkdir()
    for attempt in (
        lambda: keys_of(store),
        lambda: store.read("v2/copy-operation", most=9),
        lambda: store.head("v2/full"),
        lambda: store.put("v2/delta", b"2"),
        lambda: store.upload("v2/delta", chunks(b"2")),
        lambda: store.delete("v2/full"),
    ):
        with pytest.raises(Unavailable, match="has disappeared"):
            await attempt()
    assert list(mounted.iterdir()) == [], "nothing was written below"
    mounted.rmdir()
    away.rename(mounted)
    assert await keys_of(store) == ["v2/full"]


async def test_other_file_system_is_no_empty_bucket(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    through = tmp_path / "through"
    through.symlink_to(folder)
    store = LocalStore(through)
    await store.put("v2/full", b"1")
    through.unlink()
    through.symlink_to("/dev/shm", target_is_directory=True)
    with pytest.raises(Unavailable, match="on another file system"):
        await store.read("v2/full", most=9)


async def keys_of(store: LocalStore) -> list[str]:
    return [stored.key async for stored in store.list()]


async def test_a_folder_in_place_of_a_file_is_not_found(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("v2/a", b"1")
    for key in ("v2", "v2/a/b"):
        with pytest.raises(NotFound):
            await store.read(key, most=9)


async def test_endless_lock_stops_writers_but_no_reader(tmp_path: Path) -> None:
    store, hasty = LocalStore(tmp_path), LocalStore(tmp_path, retries=Retries(attempt=0.25, retries=0))
    await store.put("a", b"1")
    with (tmp_path / LOCK).open("r+b") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match=r"another writer has held .*\.lock"):
            await hasty.put("a", b"2")
        assert (await store.read("a", most=9)).data == b"1"
        fcntl.flock(held, fcntl.LOCK_SH)  # who would take it shared as well lets two write at once
        with pytest.raises(Unavailable, match="another writer"):
            await hasty.put("a", b"2")
    await store.put("a", b"2")


WRITER = """
import asyncio, sys
from pathlib import Path
from espalier.etcdbackup.stores.local import LocalStore

async def main():
    store = LocalStore(Path(sys.argv[1]))
    for number in range(10**9):
        data = b"%d" % (number % 10) * 300_000
        await store.put("sync", data)
        async def chunks():
            yield data
        await store.upload("v2/Full", chunks())

asyncio.run(main())
"""


def kill_a_writer(folder: Path) -> None:
    """Have a process write there, and kill it in the middle."""
    with subprocess.Popen([sys.executable, "-c", WRITER, str(folder)]) as writer:
        while not (folder / "v2" / "Full").exists():
            os.sched_yield()
        writer.kill()


async def test_killed_writer_leaves_complete_objects(tmp_path: Path) -> None:
    kill_a_writer(tmp_path)
    store = LocalStore(tmp_path)
    for key in ("sync", "v2/Full"):
        data = (await store.read(key, most=300_000)).data
        assert (len(data), len(set(data))) == (300_000, 1)
    await store.put("sync", b"mine")


async def test_vanishing_folder_is_no_empty_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As when its file system is unmounted, after it was seen."""
    folder = tmp_path / "backups"
    store = LocalStore(folder)
    await store.put("a", b"1")

    async def look(name: str) -> object:
        return await store.read("a", most=9) if name == "open" else [stored async for stored in store.list()]

    for name in ("open", "walk"):
        real = getattr(os, name)

        def goes(*given: object, real: Callable[..., object] = real, **named: object) -> object:
            folder.rename(tmp_path / "gone")
            return real(*given, **named)

        with monkeypatch.context() as patched:
            patched.setattr(os, name, goes)
            with pytest.raises(Unavailable, match="has disappeared"):
                await look(name)
        (tmp_path / "gone").rename(folder)


async def test_shrinking_file_is_reported(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("a", bytes(3 * CHUNK))
    read = store.stream("a")
    assert len(await anext(read)) == CHUNK
    os.truncate(tmp_path / "a", CHUNK)
    with pytest.raises(Corrupt, match=rf"ended after {CHUNK} of {3 * CHUNK} bytes"):
        await anext(read)
    await read.aclose()


async def test_a_file_altered_by_the_disk_is_no_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append = vars(local)["_append"]
    monkeypatch.setattr(local, "_append", lambda file, digest, chunk: append(file, digest, chunk) or file.seek(-1, 1))
    store = LocalStore(tmp_path)

    async def two() -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"

    with pytest.raises(Corrupt, match="the stored bytes differ from those written"):
        await store.upload("a", two())
    assert not [stored async for stored in store.list()]
