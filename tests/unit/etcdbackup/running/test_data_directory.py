"""The data directory of an epoch on a volume: what is made durable, and what of others is left alone."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from espalier.etcd.database.backend import State
from espalier.etcd.results import Event, KeyValue
from espalier.etcdbackup.restore.data_directory import DATABASE
from espalier.etcdbackup.restore.errors import Occupied
from espalier.etcdbackup.restore.members import membership
from espalier.etcdbackup.running.data.data_directory import NOTE, DataDirectory
from espalier.etcdbackup.running.parts import Origin
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.stores.local import LocalStore
from tests.support.etcd.backups import full
from tests.support.etcd.disk_order import DiskOrder
from tests.support.etcd.restored_etcd import full_content, put_full

OURS, OTHER = Origin(1, "shoot--a--b/1", True), Origin(1, "shoot--c--d/2", True)


async def test_origin_of_data_is_on_disk_before_etcd_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order, folder = DiskOrder(monkeypatch), tmp_path / "data"
    data = DataDirectory(folder, membership())
    await data.create_empty(OURS)
    assert await data.origin() == OURS
    assert not await data.is_present()
    assert (folder / NOTE).with_suffix(".part") in order.before(folder / NOTE)
    assert (folder / NOTE).parent in order.after(folder / NOTE)


@pytest.mark.parametrize("replaced", [OURS, OTHER], ids=["its own", "another cluster's"])
async def test_moved_data_make_way_for_their_own_cluster(tmp_path: Path, replaced: Origin) -> None:
    store, folder = LocalStore(tmp_path / "store"), tmp_path / "data"
    item = KeyValue(b"/registry/a", b"1", 2, 2, 1, 0)
    await put_full(store, full(2, 0), full_content([Event("PUT", item, None)], State(revision=2)))
    before = tmp_path / "data.replaced"
    for at, origin in ((folder, OURS), (before, replaced)):
        (at / DATABASE).parent.mkdir(parents=True)
        (at / DATABASE).write_bytes(b"old")
        (at / NOTE).write_bytes(msgspec.json.encode(origin))
    (before / DATABASE).write_bytes(b"older")
    data = DataDirectory(folder, membership())
    if replaced == OURS:
        await data.restore(store, await read_inventory(store), 0, OURS)
        assert (before / DATABASE).read_bytes() == b"old"
    else:
        with pytest.raises(Occupied, match=r"data\.replaced holds data replaced by an earlier restore"):
            await data.restore(store, await read_inventory(store), 0, OURS)
        assert (before / DATABASE).read_bytes() == b"older"
        assert (folder / DATABASE).read_bytes() == b"old"


async def test_data_without_log_are_none_if_one_is_needed(tmp_path: Path) -> None:
    """etcd would begin a new cluster with them: a second one beside the other members'."""
    folder = tmp_path / "data"
    (folder / "member/snap").mkdir(parents=True)
    (folder / "member/snap/db").write_bytes(b"x")
    data = DataDirectory(folder, membership(), needs_log=True)
    assert await DataDirectory(folder, membership()).is_present()
    assert not await data.is_present()
    origin = Origin(2, "shoot--a--b/1", True)
    await data.create_empty(origin)
    assert [path.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.glob("*/member/snap/db"))] == [
        "data.replaced/member/snap/db"
    ]
    assert await data.origin() == origin
    (folder / "member/wal").mkdir()
    assert await data.is_present()
