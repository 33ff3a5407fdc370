"""One contract for all stores: memory, a local folder, S3 (moto), GCS and Azure (servers of the tests)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.opening import open_store
from espalier.etcdbackup.stores.remote import PART
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import CHUNK, Store
from espalier.runtime.clock import SystemClock
from tests.support.sampling import sampled
from tests.support.servers.azure import azure_environment, azure_files, azure_server
from tests.support.servers.buckets import BUCKET, google_files, google_server, s3_files, s3_server

KINDS = ("memory", "local", "s3", "gcs", "azure")


@asynccontextmanager
async def opened(
    kind: str, folder: Path, s3: Callable[[], str], retries: Retries | None = None
) -> AsyncIterator[Store]:
    prefix = f"{folder.name}/etcd-main"
    match kind:
        case "memory":
            yield MemoryStore(SystemClock(), retries=retries)
        case "local":
            yield open_store(f"file://{folder}/{prefix}", {}, retries=retries)
        case "s3":
            environ = {"AWS_APPLICATION_CREDENTIALS": str(s3_files(folder / "credentials", s3()))}
            yield open_store(f"s3://{BUCKET}/{prefix}", environ, retries=retries)
        case "gcs":
            async with google_server() as server:
                environ = {"GOOGLE_APPLICATION_CREDENTIALS": str(google_files(folder / "credentials", server))}
                yield open_store(f"gs://{BUCKET}/{prefix}", environ, retries=retries)
        case "azure":
            async with azure_server() as azure:
                environ = azure_environment(folder / "credentials", azure)
                yield open_store(f"az://{BUCKET}/{prefix}", environ, retries=retries)


@pytest.fixture(scope="module")
def s3(request: pytest.FixtureRequest) -> Callable[[], str]:
    """The server of S3, once it is needed."""
    started: list[str] = []

    def start() -> str:
        if not started:
            server = s3_server()
            started.append(server.__enter__())
            request.addfinalizer(lambda: server.__exit__(None, None, None))
        return started[0]

    return start


@pytest.fixture(params=KINDS)
async def store(request: pytest.FixtureRequest, tmp_path: Path, s3: Callable[[], str]) -> AsyncGenerator[Store, None]:
    async with opened(request.param, tmp_path, s3) as opened_store:
        yield opened_store


async def chunks_of(data: bytes, size: int = CHUNK) -> AsyncGenerator[bytes, None]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


async def keys_of(store: Store, folder: str = "") -> list[str]:
    return sorted([stored.key async for stored in store.list(folder)])


async def joined(chunks: AsyncIterable[bytes]) -> bytes:
    return b"".join([chunk async for chunk in chunks])


async def test_an_object_is_read_as_it_was_put(store: Store) -> None:
    stored = await store.put("v2/Full-1", b"rose")
    assert (stored.key, stored.size) == ("v2/Full-1", 4)
    content = await store.read("v2/Full-1", most=4)
    assert content.data == b"rose"
    assert content.stored.etag == stored.etag != ""
    assert (await store.head("v2/Full-1")).size == 4
    assert stored.modified.tzinfo is not None


async def test_an_empty_object_is_an_object(store: Store) -> None:
    await store.put("empty", b"")
    assert (await store.read("empty", most=10)).data == b""
    assert await joined(store.stream("empty")) == b""
    await store.upload("nothing", chunks_of(b""))
    assert (await store.head("nothing")).size == 0


async def test_the_last_writer_wins_without_a_condition(store: Store) -> None:
    await store.put("a", b"1")
    await store.put("a", b"22")
    assert (await store.read("a", most=9)).data == b"22"


async def test_a_missing_object_is_not_found_and_named(store: Store) -> None:
    await store.put("there", b"1")
    for asked in (store.head("v2/none"), store.read("v2/none", most=1), anext(store.stream("v2/none"))):
        with pytest.raises(NotFound, match=r"v2/none: no such object"):
            await asked


async def test_an_object_is_created_once(store: Store) -> None:
    await store.create("sync", b"first, nonce 1")
    with pytest.raises(Conflict, match=r"sync: .*there already"):
        await store.create("sync", b"second, nonce 2")
    assert (await store.read("sync", most=99)).data == b"first, nonce 1"


async def test_an_object_is_replaced_by_who_read_it_last(store: Store) -> None:
    first = await store.create("sync", b"1")
    second = await store.replace(first, b"2")
    with pytest.raises(Conflict, match=r"sync: .*changed since"):
        await store.replace(first, b"3")
    await store.replace((await store.read("sync", most=9)).stored, b"4")
    with pytest.raises(Conflict):
        await store.replace(second, b"5")
    assert (await store.read("sync", most=9)).data == b"4"


async def test_deleted_object_is_not_replaced_nor_revived(store: Store) -> None:
    first = await store.create("sync", b"1")
    await store.delete("sync")
    with pytest.raises(Conflict):
        await store.replace(first, b"2")
    assert await keys_of(store) == []


async def test_one_of_many_creators_succeeds(store: Store) -> None:
    ended = await asyncio.gather(*(store.create("sync", b"%d" % n) for n in range(6)), return_exceptions=True)
    won = [n for n, result in enumerate(ended) if not isinstance(result, BaseException)]
    assert [type(result) for result in ended if isinstance(result, BaseException)] == [Conflict] * 5
    assert (await store.read("sync", most=9)).data == b"%d" % won[0]


async def test_one_of_many_replacers_succeeds(store: Store) -> None:
    first = await store.create("sync", b"first")
    ended = await asyncio.gather(*(store.replace(first, b"%d" % n) for n in range(6)), return_exceptions=True)
    won = [n for n, result in enumerate(ended) if not isinstance(result, BaseException)]
    assert [type(result) for result in ended if isinstance(result, BaseException)] == [Conflict] * 5
    assert (await store.read("sync", most=9)).data == b"%d" % won[0]


@pytest.mark.parametrize("size", sampled([1, PART, PART + 1, 2 * PART + 12345], 0, 2))
async def test_an_uploaded_object_comes_back(store: Store, size: int) -> None:
    data = random.Random(size).randbytes(size)
    stored = await store.upload("v2/Full-1.gz", chunks_of(data, 700_000))
    assert stored.size == size
    assert await joined(store.stream("v2/Full-1.gz")) == data
    assert await joined(store.stream("v2/Full-1.gz", start=size // 2)) == data[size // 2 :]
    assert await joined(store.stream("v2/Full-1.gz", start=size // 3, end=size // 2)) == data[size // 3 : size // 2]
    assert await joined(store.stream("v2/Full-1.gz", start=size, end=size + 5)) == b""


@pytest.mark.parametrize("size", [10, PART + 10])
async def test_an_upload_whose_source_fails_leaves_nothing(store: Store, size: int) -> None:
    async def failing() -> AsyncGenerator[bytes, None]:
        yield bytes(size)
        raise Corrupt("elsewhere", "the hash is wrong")

    with pytest.raises(Corrupt, match="elsewhere"):
        await store.upload("v2/Full-1", failing())
    assert await keys_of(store) == []


@pytest.mark.parametrize("size", [10, PART + 10])
async def test_an_upload_that_is_cancelled_leaves_nothing(store: Store, size: int) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncGenerator[bytes, None]:
        yield bytes(size)
        begun.set()
        await asyncio.Event().wait()

    upload = asyncio.create_task(store.upload("v2/Full-1", endless()))
    await begun.wait()
    upload.cancel()
    with pytest.raises(asyncio.CancelledError):
        await upload
    assert await keys_of(store) == []


async def test_listing_has_what_is_below_a_folder_only(store: Store) -> None:
    keys = ["v2/Full-1", "v2/Full-0/0000000001", "v1/Backup-1/Full-2", "v22/Full-3", "sync.json", "v2/ü &<b>"]
    for key in keys:
        await store.put(key, b"x")
    assert await keys_of(store) == sorted(keys)
    assert await keys_of(store, "v2") == sorted(key for key in keys if key.startswith("v2/"))
    assert await keys_of(store, "v2/Full-0") == ["v2/Full-0/0000000001"]
    assert await keys_of(store, "none") == []


async def test_prefixes_that_begin_alike_do_not_mix(tmp_path: Path, s3: Callable[[], str]) -> None:
    environ = {"AWS_APPLICATION_CREDENTIALS": str(s3_files(tmp_path / "credentials", s3()))}
    result, other = (open_store(f"s3://{BUCKET}/{tmp_path.name}/etcd{end}", environ) for end in ("", "-2"))
    await result.put("a", b"1")
    await other.put("b", b"2")
    assert (await keys_of(result), await keys_of(other)) == (["a"], ["b"])


async def test_a_listing_longer_than_allowed_is_refused(store: Store) -> None:
    for number in range(4):
        await store.put(f"v2/{number}", b"x")
    assert len([stored async for stored in store.list(most=4)]) == 4
    with pytest.raises(Refused, match="more than 3"):
        [stored async for stored in store.list(most=3)]


async def test_a_small_object_that_is_large_is_not_read(store: Store) -> None:
    await store.put("sync", b"x" * 1001)
    with pytest.raises(Corrupt, match=r"sync: .*1000"):
        await store.read("sync", most=1000)


async def test_to_delete_what_is_not_there_is_no_error(store: Store) -> None:
    await store.put("a", b"1")
    await store.delete("a")
    await store.delete("a")
    assert await keys_of(store) == []


async def test_a_reader_may_leave_in_the_middle(store: Store) -> None:
    await store.upload("a", chunks_of(bytes(3 * CHUNK)))
    async with aclosing(store.stream("a")) as stream:
        assert len(await anext(stream)) >= CHUNK
    assert (await store.head("a")).size == 3 * CHUNK


async def test_keys_that_a_store_refuses_are_refused_by_all(store: Store) -> None:
    for key in ("", "/a", "a/", "a//b", "a/../b", ".", "a\nb", "a\\b", "a" * 1025):
        with pytest.raises(ValueError, match="found"):
            await store.put(key, b"1")


async def test_an_emulator_of_azure_is_named_by_files(tmp_path: Path) -> None:
    async with azure_server() as server:
        environ = {"AZURE_APPLICATION_CREDENTIALS": str(azure_files(tmp_path, server))}
        await open_store(f"az://{BUCKET}/a", environ).put("b", b"rose")
        assert server.blobs["a/b"].data == b"rose"
        (tmp_path / "domain").unlink()
        with pytest.raises(Refused, match="found no domain; add it"):
            await open_store(f"az://{BUCKET}/a", environ).head("b")
