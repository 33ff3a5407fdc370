"""Data directories made fit for etcd when etcd-wrapper asks."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.etcd.backend import State
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.restore.data_directory import DATABASE, WAL
from espalier.etcdbackup.restore.database import state_of
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.running.initialization import Initialization, Outcome
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.backups import full
from tests.support.restored_etcd import full_content, put_full

REVISION = 2


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


async def backed_up(store: LocalStore) -> None:
    """A full snapshot with one key."""
    item = KeyValue(b"/registry/a", b"1", REVISION, REVISION, 1, 0)
    await put_full(store, full(REVISION, 0), full_content([Event("PUT", item, None)], State(revision=REVISION)))


async def ended(initialization: Initialization) -> Outcome:
    initialization.start()
    async with asyncio.timeout(30):
        while (outcome := initialization.status()) is Outcome.PROGRESS:  # noqa: ASYNC110 - as etcd-wrapper asks
            await asyncio.sleep(0.01)
    return outcome


async def test_without_data_the_backups_are_restored(tmp_path: Path, store: LocalStore) -> None:
    await backed_up(store)
    initialization = Initialization(store, tmp_path / "data", membership())
    assert initialization.status() is Outcome.NEW
    assert await ended(initialization) is Outcome.SUCCESSFUL
    assert state_of(tmp_path / "data" / DATABASE).revision >= REVISION
    assert initialization.status() is Outcome.NEW, "an end is told once"


async def test_whole_data_are_left_alone(tmp_path: Path, store: LocalStore) -> None:
    await backed_up(store)
    initialization = Initialization(store, tmp_path / "data", membership())
    await ended(initialization)
    before = (tmp_path / "data").stat().st_ino
    assert await ended(initialization) is Outcome.SUCCESSFUL
    assert (tmp_path / "data").stat().st_ino == before


async def test_damaged_data_are_replaced_by_backups_and_kept(tmp_path: Path, store: LocalStore) -> None:
    await backed_up(store)
    initialization = Initialization(store, tmp_path / "data", membership())
    await ended(initialization)
    (tmp_path / "data" / DATABASE).write_bytes(b"torn")
    assert await ended(initialization) is Outcome.SUCCESSFUL
    assert state_of(tmp_path / "data" / DATABASE).revision >= REVISION
    assert (tmp_path / "data.replaced" / DATABASE).read_bytes() == b"torn"


async def test_damaged_data_without_backups_are_left_alone(tmp_path: Path, store: LocalStore) -> None:
    (tmp_path / "data" / WAL).mkdir(parents=True)
    (tmp_path / "data" / DATABASE.parent).mkdir(parents=True)
    (tmp_path / "data" / DATABASE).write_bytes(b"torn")
    initialization = Initialization(store, tmp_path / "data", membership())
    assert await ended(initialization) is Outcome.FAILED
    assert "has no full snapshot" in initialization.trouble
    assert (tmp_path / "data" / DATABASE).read_bytes() == b"torn"


async def test_where_there_is_nothing_at_all_etcd_is_new(tmp_path: Path, store: LocalStore) -> None:
    initialization = Initialization(store, tmp_path / "data", membership())
    assert await ended(initialization) is Outcome.SUCCESSFUL
    assert not (tmp_path / "data").exists()
