"""Starts of an etcd whose bucket has no backups."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.etcdbackup.running.parts import NotStarted
from espalier.etcdbackup.running.starting import Starting


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
