"""Data directories made fit for etcd when etcd-wrapper asks."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest
import yaml
from aiohttp import web

from espalier.etcd.database.backend import State
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.restore.data_directory import DATABASE, WAL
from espalier.etcdbackup.restore.database import state_of
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.running.data.initialization import Initialization, Outcome
from espalier.etcdbackup.running.etcd_configuration import EtcdConfiguration, add_configuration
from espalier.etcdbackup.stores.local import LocalStore
from espalier.runtime.servers.serving import HttpServer
from tests.support.etcd.backups import full
from tests.support.etcd.restored_etcd import full_content, put_full
from tests.support.waiting import eventually

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
    return await eventually(initialization.status, lambda outcome: outcome is not Outcome.PROGRESS)


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


def test_configuration_is_completed_for_the_member(tmp_path: Path) -> None:
    """As etcd-wrapper asks for it: what the operator wrote stays, but who the member is follows from the flags."""
    (tmp_path / "etcd.yaml").write_text(
        "name: another\nquota-backend-bytes: 8589934592\ninitial-cluster-state: existing\n"
    )
    members = membership("a", "b=http://b:2380,a=http://a:2380", "etcd-main", "http://a:2380")
    configuration = yaml.safe_load(
        EtcdConfiguration(members, "etcd-main", tmp_path / "data", tmp_path / "etcd.yaml").text()
    )
    assert configuration == {
        "data-dir": str(tmp_path / "data"),
        "initial-advertise-peer-urls": "http://a:2380",
        "initial-cluster": "a=http://a:2380,b=http://b:2380",
        "initial-cluster-state": "existing",
        "initial-cluster-token": "etcd-main",
        "name": "a",
        "quota-backend-bytes": 8589934592,
    }


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"- a\n", "allowed is one document"),
        (b"a: [", "etcd.yaml"),
        (b"\xff", "etcd.yaml"),
        (b"a: 1\n" * 20_000, "found more than 65536 bytes"),
    ],
)
def test_a_configuration_that_is_none_is_named(tmp_path: Path, content: bytes, sentence: str) -> None:
    (tmp_path / "etcd.yaml").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        EtcdConfiguration(membership(), "t", tmp_path / "data", tmp_path / "etcd.yaml").text()
    with pytest.raises(ValueError, match=r"missing\.yaml: No such file"):
        EtcdConfiguration(membership(), "t", tmp_path / "data", tmp_path / "missing.yaml").text()


async def test_the_configuration_is_reported_over_http(tmp_path: Path) -> None:
    application = web.Application()
    add_configuration(application, EtcdConfiguration(membership(), "t", tmp_path / "data", tmp_path / "etcd.yaml"))
    server = HttpServer(application, "127.0.0.1", 0)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{server.port}/config") as answer:
                assert (answer.status, await answer.text()) == (
                    500,
                    f"{tmp_path}/etcd.yaml: No such file or directory\n",
                )
            (tmp_path / "etcd.yaml").write_text("auto-compaction-mode: periodic\n")
            async with session.get(f"http://127.0.0.1:{server.port}/config") as answer:
                assert "auto-compaction-mode: periodic\n" in await answer.text()
    finally:
        await server.stop()
