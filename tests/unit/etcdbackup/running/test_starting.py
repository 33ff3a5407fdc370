"""Starts of an etcd whose bucket has no backups, or no record yet of what it served."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.etcd.ownership import Served
from espalier.etcdbackup.restore.plan import BUMP
from espalier.etcdbackup.running import starting as module
from espalier.etcdbackup.running.parts import NotStarted
from espalier.etcdbackup.running.starting import Starting
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.stores.errors import Conflict


@pytest.mark.parametrize("is_present", [True, False])
async def test_unstartable_data_are_not_replaced_by_none(is_present: bool) -> None:
    """They are all that is left of this etcd: a person may still read them."""
    created: list[object] = []

    class Data:
        async def is_present(self) -> bool:
            return is_present

        async def create_empty(self, origin: object) -> None:
            created.append(origin)

    starting: Any = Starting.__new__(Starting)
    starting._settings = SimpleNamespace(epoch=1, cluster="shoot--a--b/1")
    starting._parts = SimpleNamespace(data=Data(), store=SimpleNamespace(where="s3://bucket"))
    starting._served, starting._usable = None, SimpleNamespace(latest=None)
    marker: Any = SimpleNamespace(snapshots=(), lossless=True)
    if is_present:
        with pytest.raises(NotStarted, match="there are no backups to restore"):
            await starting._restore(marker)
    else:
        await starting._restore(marker)
    assert bool(created) is not is_present


async def test_late_record_of_an_earlier_agent_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else an etcd that was restored after clients had written would say that it has all that they wrote."""
    records: list[Served | None] = [None, Served(1, "shoot--a--b/1", 5)]

    class Objects:
        async def served(self) -> Served | None:
            return records.pop(0)

        async def put_served(self, _revision: int) -> None:
            raise Conflict("s3://bucket", "it exists", "read it again")

    async def yes() -> bool:
        return True

    async def none() -> None:
        return None

    async def inventory(_store: object) -> Inventory:
        return Inventory()

    async def newest(_etcd: object) -> int:
        return BUMP + 7

    monkeypatch.setattr(module, "read_inventory", inventory)
    monkeypatch.setattr(module, "newest_revision", newest)
    guard, data = SimpleNamespace(is_running=yes), SimpleNamespace(origin=none)
    parts: Any = SimpleNamespace(store=None, guard=guard, peers=None, etcd=None, data=data)
    settings: Any = SimpleNamespace(epoch=1, cluster="shoot--a--b/1")
    objects: Any = Objects()
    starting = Starting(settings, parts, objects)
    marker: Any = SimpleNamespace(predecessor=None)
    await starting.run(marker)
    assert not await starting.has_all_writes()
