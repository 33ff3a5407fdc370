"""Backups across minor versions of etcd, upwards and in the downgrades that etcd allows, and which etcd may start then.

The versions are those of the matrix, not of a row: each of them may be beside the other in somebody's cluster.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

from espalier.api.version_matrix import ETCD, minor_of
from espalier.assets.recipes import etcd
from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.client import Client
from espalier.etcd.database import backend
from espalier.etcd.requests import DeleteRange, Put
from tests.contracts.etcd.restoring import AFTER, BEFORE, Source, restored, source
from tests.support.etcd import calls
from tests.support.etcd.etcd_histories import Compact, Grant, Step
from tests.support.etcd.real_etcd import RealEtcd, built, real_etcd
from tests.support.etcd.restored_etcd import database, everything
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

MINORS = tuple(ETCD)
ETCDS = {minor: etcd(entry.patch) for minor, entry in ETCD.items()}
UPGRADES = [(entry.before, minor) for minor, entry in ETCD.items() if entry.before in ETCD]
LONG_LOG: list[Step] = [Put(b"g", b"%d" % number) for number in range(9)]
PAGE = 4096
AGREEING = 0.5
"""Seconds in which an etcd that has just started agrees on the version of its cluster, and stores it."""
LAST: list[Step] = [Compact(5), Put(b"h", b"6"), Grant(13), Put(b"i", b"7", 13), DeleteRange(b"h")]


def programs(minor: str) -> Path:
    home = built(ETCDS[minor])
    if home is None:
        pytest.skip(f"etcd {ETCDS[minor].version} was not built: run make real-matrix")
    return home


@asynccontextmanager
async def going_on(origin: Source, minor: str, **flags: str) -> AsyncIterator[RealEtcd]:
    """The data of a source, in an etcd of another version."""
    short = {name.replace("_", "-"): value for name, value in flags.items()}
    async with real_etcd(programs(minor), origin.etcd.folder, short) as later, later.client() as client:
        origin.client, origin.etcd = client, later
        yield later


async def starts(minor: str, folder: Path) -> bool:
    """True if an etcd of this version serves restored data; it gets a copy of its own."""
    copied = folder.with_name(f"{folder.name}-{minor}")
    await asyncio.to_thread(shutil.copytree, folder, copied)
    try:
        async with real_etcd(programs(minor), copied) as again, again.client() as client:
            return await client.get(b"a") is not None
    except AssertionError:
        return False


async def test_backups_span_every_upgrade_of_etcd(tmp_path: Path) -> None:
    for minor in MINORS:
        programs(minor)
    async with source(ETCDS[MINORS[0]], tmp_path) as origin:
        await origin.play(BEFORE)
        start = await origin.full()
    ends = [start]
    for minor, steps in zip(MINORS[1:], ([*AFTER, *LONG_LOG], LAST), strict=True):
        async with going_on(origin, minor, **({} if minor == MINORS[-1] else {"snapshot_count": "1"})):
            await origin.play(steps)
            await origin.delta(ends[-1] + 1, origin.model.revision)
            ends.append(origin.model.revision)
            expected, hashed = await everything(origin.client), await calls.hash_kv(origin.client)
    done, folder = await restored(origin, tmp_path, bump=0)
    assert (done.contents.revision, done.is_complete) == (ends[-1], True)
    assert done.etcd == MINORS[:2]  # the full snapshot is of the first, whatever the deltas are of
    with Database.open(database(folder / "data")) as opened:
        check(opened)
    async with real_etcd(programs(done.etcd[-1]), folder) as again, again.client() as client:
        assert await everything(client) == expected
        assert (await calls.hash_kv(client)).header.revision == hashed.header.revision


@pytest.mark.parametrize("minor", MINORS)
async def test_a_snapshot_says_which_etcd_starts_with_it(tmp_path: Path, minor: str) -> None:
    async with source(ETCDS[minor], tmp_path) as origin:
        await origin.play(BEFORE)
        await asyncio.sleep(AGREEING)
        await origin.full()
        done, folder = await restored(origin, tmp_path)
    assert minor in done.etcd
    for element in done.etcd:
        assert await starts(element, folder)
    older = [item for item in MINORS[: MINORS.index(minor)] if item != "3.5"]  # 3.5 does not look at the version
    for element in older:
        assert not await starts(element, folder)


@pytest.mark.parametrize(("before", "after"), UPGRADES)
async def test_backups_span_a_downgrade_of_etcd(tmp_path: Path, before: str, after: str) -> None:
    programs(before)
    async with source(ETCDS[after], tmp_path) as origin:
        await origin.play(BEFORE)
        await asyncio.sleep(AGREEING)
        first = await origin.full()
        (tmp_path / "earlier").mkdir()
        earlier, _ = await restored(origin, tmp_path / "earlier")
        assert earlier.etcd[0] == after
        await enable_downgrade(origin, before, tmp_path)
        await origin.play(AFTER)
        await origin.delta(first + 1, origin.model.revision)
        second = await origin.full()
    async with going_on(origin, before):
        await origin.play(LAST)
        await origin.delta(second + 1, origin.model.revision)
        expected = await everything(origin.client)
    done, folder = await restored(origin, tmp_path, bump=0)
    assert (done.contents.revision, done.is_complete) == (origin.model.revision, True)
    assert done.etcd == (before, after)
    for minor in done.etcd:
        assert await starts(minor, folder)
    async with real_etcd(programs(before), folder) as again, again.client() as client:
        assert await everything(client) == expected


async def enable_downgrade(origin: Source, target: str, folder: Path) -> None:
    """As an operator does it, until snapshots are of the older version: some seconds after the data are."""
    running, client = origin.etcd, origin.client
    # An etcd writes the version of its data some seconds after it has started.
    await eventually(client.status, lambda status: bool(status.storage_version))
    command: list[str | Path] = [
        running.programs / "etcdctl",
        "--endpoints",
        running.endpoint,
        "downgrade",
        "enable",
        f"{target}.0",
    ]
    await asyncio.to_thread(lambda: subprocess.run(command, check=True, capture_output=True, timeout=60))
    await eventually(lambda: cluster_version(client, folder / "seen.db"), lambda version: version == target, every=0.5)
    assert minor_of((await client.status()).storage_version) == target


async def cluster_version(client: Client, path: Path) -> str:
    """The minor version that members agreed on, as a snapshot has it."""
    async with aclosing(client.snapshot()) as chunks:
        content = b"".join([chunk.data async for chunk in chunks])
    path.write_bytes(content[: len(content) // PAGE * PAGE])  # without the checksum that follows the pages
    with Database.open(path) as opened:
        bucket = opened.bucket(backend.CLUSTER)
        assert bucket is not None
        return minor_of(dict(bucket.items())[backend.CLUSTER_VERSION].decode())
