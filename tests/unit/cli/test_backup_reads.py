"""The read of a bucket with what another seed would get: in real stores, and in those of this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import pytest

from espalier.api.etcd.ownership import first_start_key
from espalier.api.gardener.etcd import Store as Named
from espalier.cli.backups import backup_reads
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.store import Content, Store
from espalier.runtime.clock import SystemClock
from tests.support.servers.buckets import BUCKET, s3_put, s3_server

KEY, PREFIX = first_start_key(3), "shoot--dev--apple--1/etcd-main/3"


async def test_a_folder_is_read_and_missing_parts_are_named(tmp_path: Path) -> None:
    named = Named(container=str(tmp_path).lstrip("/"), prefix=PREFIX, provider="Local")
    assert "has no ownership/00000003-first-start.json" in await backup_reads.over_network(named, {}, KEY)
    (tmp_path / PREFIX / "ownership").mkdir(parents=True)
    (tmp_path / PREFIX / KEY).write_text("{}")
    assert await backup_reads.over_network(named, {}, KEY) == ""


async def test_a_store_that_nobody_knows_is_said_so() -> None:
    assert "container" in await backup_reads.over_network(Named(provider="S3"), {}, KEY)
    assert "swift" in await backup_reads.over_network(Named(provider="swift", container="a"), {}, KEY)


async def test_store_of_this_process_opens_by_credentials() -> None:
    store, given = MemoryStore(SystemClock()), []

    def opened(url: str, credentials: Mapping[str, bytes]) -> Store:
        given.append((url, dict(credentials)))
        if not credentials:
            raise ValueError("found no credentials")
        return store

    named = Named(container="bucket", prefix=PREFIX, provider="local")
    read = backup_reads.through(opened)
    assert await read(named, {}, KEY) == "found no credentials"
    await store.create(KEY, b"{}")
    assert await read(named, {"account": b"east"}, KEY) == ""
    assert given[-1] == (f"file:///bucket/{PREFIX}", {"account": b"east"})


async def test_silent_store_is_not_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(MemoryStore):
        async def read(self, key: str, *, most: int) -> Content:
            never: asyncio.Future[Content] = asyncio.get_running_loop().create_future()
            return await never

    monkeypatch.setattr(backup_reads, "TIMEOUT", 0.01)
    read = backup_reads.through(lambda _url, _credentials: Silent(SystemClock()))
    assert "did not answer within 0.01 s" in await read(Named(container="a", prefix=PREFIX, provider="local"), {}, KEY)


@pytest.mark.demand(G47="its credentials read a real S3 API")
@pytest.mark.soak
async def test_bucket_of_s3_is_read_with_files_of_secret() -> None:
    """G47."""
    with s3_server() as url:
        s3_put(url, f"{PREFIX}/{KEY}", b"{}")
        secret = {"accessKeyID": b"garden", "secretAccessKey": b"rose", "region": b"us-east-1"}
        secret |= {"endpoint": url.encode(), "s3ForcePathStyle": b"true"}
        named = Named(container=BUCKET, prefix=PREFIX, provider="S3")
        assert await backup_reads.over_network(named, secret, KEY) == ""
        elsewhere = Named(container=BUCKET, prefix="another", provider="S3")
        assert "has no" in await backup_reads.over_network(elsewhere, secret, KEY)
        assert "accessKeyID" in await backup_reads.over_network(named, {"region": b"us-east-1"}, KEY)
