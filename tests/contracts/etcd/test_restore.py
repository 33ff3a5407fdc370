"""Data directories that were restored without an etcd: real ones start with them, and etcdutl agrees."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from espalier.api.version_matrix import minor_of
from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE, ETCDUTL, etcd
from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Database
from espalier.etcd.database.hashing import crc32c
from espalier.etcd.errors import EtcdError
from espalier.etcd.requests import Put
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.restore.restorer import Options, restore
from espalier.upgrader.etcd import last_old_request
from tests.contracts.etcd.restoring import AFTER, BEFORE, restored, source
from tests.support.etcd import calls
from tests.support.etcd.etcd_histories import EVERYTHING, Compact, Grant, Step, histories
from tests.support.etcd.real_etcd import RealEtcd, built, programs_of, real_etcd
from tests.support.etcd.restored_etcd import database, everything
from tests.support.sampling import sampled
from tests.support.servers.ports import free_ports
from tests.support.waiting import eventually

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

VERSIONS = pytest.mark.parametrize("component", [ETCD, ETCD_BEFORE], ids=["etcd", "etcd-before"])


@VERSIONS
async def test_restored_etcd_starts_with_the_same_numbers(component: Component, tmp_path: Path) -> None:
    async with source(component, tmp_path) as origin:
        await origin.play(BEFORE)
        middle = await origin.full()
        await origin.play(AFTER)
        last = origin.model.revision
        await origin.delta(middle + 1, middle + 2)
        await origin.delta(middle + 2, last)
        expected, hashed = await everything(origin.client), await calls.hash_kv(origin.client)
        done, folder = await restored(origin, tmp_path, bump=0)
    assert (done.contents.revision, done.contents.served, done.is_complete) == (last, last, True)
    assert done.contents.leases == (12,)
    async with real_etcd(programs_of(component), folder) as again, again.client() as client:
        assert await everything(client) == expected
        result = await calls.hash_kv(client)
        assert (result.header.revision, result.hash) == (last, hashed.hash)
        assert sorted(await calls.leases(client)) == [11, 12]
        assert (await calls.time_to_live(client, 12, keys=True)).keys == (b"e",)
        assert [member.name for member in await client.members()] == ["default"]
        await client.put(b"new", b"1")
        await again.kill()
        await again.start()
        stored = await client.get(b"new")
        assert stored is not None
        assert (stored.mod_revision, stored.value) == (last + 1, b"1")


@VERSIONS
async def test_member_that_joins_gets_restored_data(component: Component, tmp_path: Path) -> None:
    """The log of a restored etcd has none of them: without a raft snapshot, a new member would begin empty."""
    programs, (port, other_port) = programs_of(component), free_ports(2)
    urls = {"m0": f"http://127.0.0.1:{port}", "m1": f"http://127.0.0.1:{other_port}"}
    async with source(component, tmp_path) as origin:
        await origin.play(BEFORE)
        await origin.full(final=True)
        expected = await everything(origin.client)
        members = membership("m0", "", "etcd-cluster", urls["m0"])
        folders = {name: tmp_path / name for name in urls}
        for folder in folders.values():
            folder.mkdir()
        await restore(origin.store, folders["m0"] / "data", Options(members=members))
    flags = {
        name: {"name": name, "listen-peer-urls": url, "initial-advertise-peer-urls": url} for name, url in urls.items()
    }
    first = {**flags["m0"], "initial-cluster": f"m0={urls['m0']}"}
    both = ",".join(f"{name}={url}" for name, url in urls.items())
    second = RealEtcd(
        programs, folders["m1"], {**flags["m1"], "initial-cluster": both, "initial-cluster-state": "existing"}
    )
    async with real_etcd(programs, folders["m0"], first) as etcd, etcd.client() as client:
        learner = await eventually(lambda: client.add_learner(urls["m1"]), despite=EtcdError)
        starting = asyncio.ensure_future(second.start())
        try:
            await eventually(lambda: client.promote_member(learner.id), lambda _: True, despite=EtcdError)
            await starting
            async with second.client() as joined:
                assert (await joined.do(replace(EVERYTHING, serializable=True))).items == expected
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            await second.kill()


@VERSIONS
async def test_clients_list_anew_if_writes_may_be_lost(component: Component, tmp_path: Path) -> None:
    async with source(component, tmp_path) as origin:
        await origin.play(BEFORE)
        revision = await origin.full()
        expected = await everything(origin.client)
        done, folder = await restored(origin, tmp_path)
    assert (done.contents.revision, done.contents.served) == (revision, revision + 10**9)
    async with real_etcd(programs_of(component), folder) as again, again.client() as client:
        assert await everything(client) == expected
        assert await client.put(b"new", b"1") == done.contents.served + 1
        async with client.watch(b"a", start_revision=revision) as watch:
            with pytest.raises(EtcdError, match="compacted"):
                await anext(aiter(watch))


@VERSIONS
async def test_final_snapshot_gives_same_revisions_again(component: Component, tmp_path: Path) -> None:
    async with source(component, tmp_path) as origin:
        await origin.play(BEFORE)
        revision = await origin.full(final=True)
        done, folder = await restored(origin, tmp_path)
    assert done.contents.served == revision
    async with real_etcd(programs_of(component), folder) as again, again.client() as client:
        assert await client.put(b"new", b"1") == revision + 1


async def test_backups_span_an_upgrade_of_etcd(tmp_path: Path) -> None:
    async with source(ETCD_BEFORE, tmp_path) as origin:
        await origin.play(BEFORE)
        middle = await origin.full()
    async with real_etcd(programs_of(ETCD), tmp_path / "source") as later, later.client() as client:
        origin.client = client
        await origin.play([*AFTER, Compact(3), Put(b"f", b"5")])
        last = origin.model.revision
        await origin.delta(middle + 1, last)
        expected = await everything(client)
        done, folder = await restored(origin, tmp_path, bump=0)
    assert (done.contents.revision, done.is_complete) == (last, True)
    assert done.etcd == (minor_of(ETCD_BEFORE.version), minor_of(ETCD.version))
    async with real_etcd(programs_of(ETCD), folder) as again, again.client() as client:
        assert await everything(client) == expected


async def test_an_etcd_before_that_of_a_snapshot_fails(tmp_path: Path) -> None:
    async with source(ETCD, tmp_path) as origin:
        await origin.play(BEFORE)
        await origin.full()
        done, folder = await restored(origin, tmp_path)
    assert done.etcd[0] == minor_of(ETCD.version)
    assert minor_of(ETCD_BEFORE.version) not in done.etcd
    if minor_of(ETCD_BEFORE.version) != "3.5":  # etcd 3.5 does not look at the version in the database
        # It refuses the version of the cluster (at a snapshot of raft, or in the log), or else that of the storage.
        refusal = r"invalid downgrade|cluster cannot be downgraded|version .{1,2}3\.7\.0.{1,2} is not supported"
        with pytest.raises(AssertionError, match=refusal):
            async with real_etcd(programs_of(ETCD_BEFORE), folder):
                pass


async def test_etcdutl_agrees_with_the_database(tmp_path: Path) -> None:
    etcdutl = programs_of(ETCDUTL) / "etcdutl"
    async with source(ETCD, tmp_path) as origin:
        await origin.play(BEFORE)
        middle = await origin.full()
        await origin.play(AFTER)
        await origin.delta(middle + 1, origin.model.revision)
        _, folder = await restored(origin, tmp_path, bump=0)
    path = database(folder / "data")
    arguments: list[str | Path] = [etcdutl, "snapshot", "status", path, "--write-out", "json"]
    shown = await asyncio.to_thread(lambda: subprocess.run(arguments, capture_output=True, check=True))
    status = json.loads(shown.stdout)
    with Database.open(path) as opened:
        check(opened)
        assert (status["revision"], status["hash"]) == (origin.model.revision, crc32c(_content(opened)))


def _content(database: Database) -> Iterator[bytes]:
    """All buckets, as `etcdutl snapshot status` hashes them."""
    for name in database.root.buckets():
        yield name
        bucket = database.bucket(name)
        assert bucket is not None
        for entry in bucket.items():
            yield from entry


async def test_full_snapshot_past_the_first_delta_is_valid(tmp_path: Path) -> None:
    """etcd-backup-restore asks for the revision and then for the snapshot (its issue 1044)."""
    async with source(ETCD, tmp_path) as origin:
        await origin.play(BEFORE)
        named = origin.model.revision
        await origin.play(AFTER[:3])
        await origin.full(name=named)
        inside = origin.model.revision
        await origin.play(AFTER[3:])
        await origin.delta(named + 1, inside - 1)
        await origin.delta(inside, origin.model.revision)
        hashed = await calls.hash_kv(origin.client)
        done, folder = await restored(origin, tmp_path, bump=0)
    assert done.contents.events == len([event for event in origin.model.events if event.item.mod_revision > inside])
    async with real_etcd(programs_of(ETCD), folder) as again, again.client() as client:
        assert (await calls.hash_kv(client)).hash == hashed.hash


async def test_lease_that_no_snapshot_has_ends_with_its_keys(tmp_path: Path) -> None:
    async with source(ETCD, tmp_path) as origin:
        await origin.play([Put(b"a", b"1")])
        middle = await origin.full()
        await origin.play([Grant(12), Put(b"event", b"1", 12)])
        await origin.delta(middle + 1, origin.model.revision)
        done, folder = await restored(origin, tmp_path, bump=0, lease_ttl=1)
    assert done.contents.leases == (12,)
    async with real_etcd(programs_of(ETCD), folder) as again, again.client() as client:
        async with client.watch(b"event", start_revision=done.contents.served + 1) as watch:
            batch = await anext(aiter(watch))
        assert [(event.type, event.item.key) for event in batch.events] == [("DELETE", b"event")]
        assert await calls.leases(client) == ()


@pytest.mark.parametrize(
    ("component", "most"), sampled([(ETCD, 6), (ETCD_BEFORE, 6), (ETCD, 200), (ETCD_BEFORE, 200)], 0, 1)
)
async def test_whatever_happened_is_restored(component: Component, most: int, tmp_path: Path) -> None:
    """Random histories, the second half of which is in a delta."""
    examples: list[tuple[list[Step], list[Step]]] = []
    without_compactions = histories.map(lambda steps: [step for step in steps if not isinstance(step, Compact)])

    @settings(max_examples=most, deadline=None, database=None, derandomize=True, phases=[Phase.generate])
    @given(st.tuples(histories, without_compactions))
    def gather(example: tuple[list[Step], list[Step]]) -> None:
        examples.append(example)

    gather()
    folder = tmp_path / "example"
    for before, after in examples:
        shutil.rmtree(folder, ignore_errors=True)  # 190 MiB each
        folder.mkdir()
        async with source(component, folder) as origin:
            await origin.play([Put(b"a", b"1"), *before])
            middle = await origin.full()
            await origin.play(after)
            last = origin.model.revision
            if last > middle:
                await origin.delta(middle + 1, last)
            expected, hashed = await everything(origin.client), await calls.hash_kv(origin.client, last)
            _, target = await restored(origin, folder, bump=0)
        async with real_etcd(programs_of(component), target) as again, again.client() as client:
            assert await everything(client) == expected
            assert (await calls.hash_kv(client, last)).hash == hashed.hash


async def test_etcd_3_7_follows_3_5_once_its_log_is_short(tmp_path: Path) -> None:
    """The program on a node looks for the state before, and asks to wait for this one."""
    home = programs_of(etcd("3.5.35"))
    later = built(etcd("3.7.3"))
    if later is None:
        pytest.skip("etcd 3.7.3 was not built: run make real-assets ROW=1.37")
    async with real_etcd(home, tmp_path) as first, first.client() as client:
        await client.put(b"a", b"1")
    async with real_etcd(programs_of(etcd("3.6.16")), tmp_path):
        pass
    assert last_old_request(_log(tmp_path)) > 0
    flags = {"snapshot-count": "1"}
    async with real_etcd(programs_of(etcd("3.6.16")), tmp_path, flags) as snapping, snapping.client() as client:
        for number in range(9):
            await client.put(b"b", b"%d" % number)
    assert last_old_request(_log(tmp_path)) == 0
    async with real_etcd(later, tmp_path) as again, again.client() as client:
        assert (await client.get(b"a")) is not None


def _log(folder: Path) -> list[Path]:
    return list(folder.glob("*/member/wal/*.wal"))
