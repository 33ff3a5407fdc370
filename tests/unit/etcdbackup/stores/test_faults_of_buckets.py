"""Faults of networks and stores: each has its own error, which names bucket and key, or is survived."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.opening import open_store
from espalier.etcdbackup.stores.remote import PART
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import Store
from tests.support.servers.buckets import BUCKET, google_files, google_server, s3_files, s3_put, s3_server
from tests.support.servers.faulty_http import Fault, FaultyHttp, faulty_http
from tests.support.servers.https_server import authority, serving_context

SHORT = Retries(attempt=0.5, retries=2, longest_wait=0.01, stall=1.0, part=1.0)


def bucket_in(tmp_path: Path, url: str, bucket: str = BUCKET, retries: Retries = SHORT, **files: str) -> Store:
    environ = {"AWS_APPLICATION_CREDENTIALS": str(s3_files(tmp_path / "credentials", url, **files))}
    return open_store(f"s3://{bucket}/{tmp_path.name}", environ, retries=retries)


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.fixture
async def proxy(server: str) -> AsyncGenerator[FaultyHttp, None]:
    async with faulty_http(server) as faulty:
        yield faulty


@pytest.fixture
def store(tmp_path: Path, proxy: FaultyHttp) -> Store:
    return bucket_in(tmp_path, proxy.url)


def is_put(request: web.Request) -> bool:
    return request.method == "PUT"


def is_get(request: web.Request) -> bool:
    return request.method == "GET"


async def chunks(size: int) -> AsyncGenerator[bytes, None]:
    for _ in range(0, size, 1 << 20):
        yield bytes(1 << 20)


async def test_create_with_a_lost_answer_is_recognized(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults.append(Fault(is_put, lost=True))
    await store.create("sync", b"nonce 1")
    assert [line for line in proxy.seen if line.startswith("PUT")] == [f"PUT /{BUCKET}/{_key(store, 'sync')}"] * 2
    assert (await store.read("sync", most=99)).data == b"nonce 1"


async def test_replace_with_a_lost_answer_is_recognized(store: Store, proxy: FaultyHttp) -> None:
    first = await store.create("sync", b"nonce 1")
    proxy.faults.append(Fault(is_put, lost=True))
    second = await store.replace(first, b"nonce 2")
    await store.replace(second, b"nonce 3")
    assert (await store.read("sync", most=99)).data == b"nonce 3"


async def test_create_with_a_lost_request_loses_to_another(store: Store, proxy: FaultyHttp, server: str) -> None:
    def came_between(data: bytes) -> bytes:
        s3_put(server, _key(store, "sync"), b"nonce of another")
        return data

    proxy.faults.append(Fault(is_put, sent=came_between))
    with pytest.raises(Conflict, match=r"sync: the object is there already"):
        await store.create("sync", b"nonce 1")


async def test_failures_of_the_store_pass_within_the_retries(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults += [Fault(is_put, status=500), Fault(is_put, status=503)]
    await store.put("a", b"1")
    assert (await store.read("a", most=9)).data == b"1"


async def test_failures_that_do_not_pass_are_unavailable(store: Store, proxy: FaultyHttp) -> None:
    body = b"<Error><Code>SlowDown</Code><Message>Reduce your rate</Message></Error>"
    proxy.faults += [Fault(status=503, body=body) for _ in range(3)]
    with pytest.raises(Unavailable, match=r"/a: .*SlowDown: Reduce your rate"):
        await store.read("a", most=9)


@pytest.mark.soak
async def test_a_store_that_never_answers_is_given_up(tmp_path: Path, proxy: FaultyHttp) -> None:
    store = bucket_in(tmp_path, proxy.url, retries=Retries(attempt=0.05, retries=1, longest_wait=0.01))
    proxy.faults += [Fault(silent=True) for _ in range(99)]
    for asked in (store.read("a", most=9), store.put("a", b"1"), store.head("a"), store.delete("a")):
        with pytest.raises(Unavailable, match=r"/a: "):
            await asked
    with pytest.raises(Unavailable):
        await anext(store.list())


async def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"s3://backups/.*no connection"):
        await bucket_in(tmp_path, "http://127.0.0.1:1").head("a")


@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AccessDenied"), (403, "InvalidAccessKeyId"), (400, "ExpiredToken"), (401, "Unauthorized")],
)
async def test_refused_credentials_are_not_tried_again(store: Store, proxy: FaultyHttp, status: int, code: str) -> None:
    body = f"<Error><Code>{code}</Code><Message>No</Message></Error>".encode()
    proxy.faults += [Fault(status=status, body=body)] * 1
    with pytest.raises(Refused, match=rf"s3://{BUCKET}/.*a: the store rejects .*{code}.*; check "):
        await store.read("a", most=9)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize("size", [10, PART + (1 << 20)])
async def test_a_store_that_keeps_other_bytes_is_found_out(store: Store, proxy: FaultyHttp, size: int) -> None:
    proxy.faults.append(Fault(is_put, sent=lambda data: data[:-1] + b"!"))
    with pytest.raises(Corrupt, match=r"v2/Full: the stored bytes differ"):
        await store.upload("v2/Full", chunks(size))


async def test_a_store_that_keeps_less_is_found_out(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults.append(Fault(is_put, sent=lambda data: data[:-1]))
    with pytest.raises(Corrupt, match=r"v2/Full: \d+ bytes, but \d+ were announced"):
        await store.upload("v2/Full", chunks(1))


async def test_a_reader_goes_on_where_a_connection_ended(store: Store, proxy: FaultyHttp) -> None:
    await store.upload("v2/Full", chunks(3 << 20))
    proxy.faults.append(Fault(is_get, cut=1 << 20))
    assert sum([len(chunk) async for chunk in store.stream("v2/Full")]) == 3 << 20


async def test_an_object_that_ends_too_early_is_no_whole_one(store: Store, proxy: FaultyHttp) -> None:
    await store.upload("v2/Full", chunks(3 << 20))
    proxy.faults += [Fault(is_get, cut=1 << 20), *(Fault(is_get, cut=0) for _ in range(9))]
    with pytest.raises((Unavailable, Corrupt), match=r"v2/Full: "):
        [chunk async for chunk in store.stream("v2/Full")]


async def test_upload_that_fails_in_one_part_leaves_nothing(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults += [Fault(lambda request: request.query.get("partNumber") == "2", status=403)]
    with pytest.raises(Refused, match=r"v2/Full: "):
        await store.upload("v2/Full", chunks(3 * PART))
    with pytest.raises(NotFound):
        await store.head("v2/Full")


@pytest.mark.soak
async def test_upload_goes_on_when_a_part_is_repeated(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults += [Fault(lambda request: request.query.get("partNumber") == "2", status=500)]
    assert (await store.upload("v2/Full", chunks(3 * PART))).size == 3 * PART


async def test_a_missing_bucket_is_not_a_missing_object(tmp_path: Path, server: str) -> None:
    store = bucket_in(tmp_path, server, "not-there")
    for asked in (
        store.head("a"),
        store.read("a", most=1),
        anext(store.list()),
        store.put("a", b"1"),
        store.delete("a"),
    ):
        with pytest.raises(Refused, match=r"s3://not-there/.*there is no such bucket"):
            await asked


async def test_an_object_whose_name_cant_be_read_is_named(store: Store, server: str) -> None:
    await store.put("v2/a", b"1")
    s3_put(server, _key(store, "v2/../b"))
    with pytest.raises(Refused, match=r"an object whose name can't be read .*v2/\.\./b"):
        [stored async for stored in store.list()]


async def test_changed_credentials_are_read_again(tmp_path: Path) -> None:
    async with google_server() as server:
        file = google_files(tmp_path / "credentials", server, "expired@garden.iam.gserviceaccount.com")
        store = open_store(f"gs://{BUCKET}/etcd-main", {"GOOGLE_APPLICATION_CREDENTIALS": str(file)})
        with pytest.raises(Refused, match=r"rejects these credentials .*AuthenticationRequired"):
            await store.put("a", b"1")
        google_files(tmp_path / "credentials", server)
        await store.put("a", b"1")
        file.unlink()
        with pytest.raises(Refused, match=r"serviceaccount\.json: the credentials can't be read"):
            await store.put("a", b"1")


async def test_authority_of_a_server_is_trusted_when_given(tmp_path: Path, server: str) -> None:
    async with faulty_http(server, serving_context()) as proxy:
        with pytest.raises(StoreError, match="certificate is not trusted"):
            await bucket_in(tmp_path, proxy.url).put("a", b"1")
        await bucket_in(tmp_path, proxy.url, trustedCaCert=authority().certificate.decode()).put("a", b"1")
        (tmp_path / "credentials" / "trustedCaCert").unlink()
        await bucket_in(tmp_path, proxy.url, insecureSkipVerify="true").put("a", b"2")


async def test_a_cancelled_waiter_waits_no_longer(store: Store, proxy: FaultyHttp) -> None:
    proxy.faults += [Fault(silent=True) for _ in range(3)]
    waiting = asyncio.create_task(store.read("a", most=9))
    await proxy.asked.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


def test_total_of_retries_fits_a_poll_period() -> None:
    assert Retries(attempt=5, retries=2, longest_wait=1).total == 17
    assert Retries(attempt=5, retries=0, longest_wait=1).total == 5


@pytest.mark.parametrize("field", ["attempt", "longest_wait", "stall", "part"])
def test_limits_without_an_end_are_refused(field: str) -> None:
    with pytest.raises(ValueError, match=rf"{field}: found 0, allowed are seconds above 0"):
        replace(Retries(), **{field: 0})


def _key(store: Store, key: str) -> str:
    return f"{store.where.removeprefix(f's3://{BUCKET}/')}/{key}"


async def test_shrinking_object_is_detected(store: Store, proxy: FaultyHttp) -> None:
    await store.put("v2/Full", b"12345678")
    proxy.faults.append(Fault(is_get, status=416, body=b"<Error><Code>InvalidRange</Code></Error>"))
    with pytest.raises(Corrupt, match=r"v2/Full: the object is shorter than the store reported"):
        await anext(store.stream("v2/Full", start=4))


@pytest.mark.soak
async def test_an_object_that_is_too_large_is_not_read(store: Store) -> None:
    await store.put("sync", b"12345678")
    with pytest.raises(Corrupt, match=r"sync: 8 bytes, at most 7 are expected"):
        await store.read("sync", most=7)
