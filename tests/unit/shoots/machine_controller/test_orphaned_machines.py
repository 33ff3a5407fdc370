"""Virtual machines without a Machine, as caches show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.cloud import VirtualMachine
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object
from espalier.shoots.machine_controller import controller


@pytest.mark.parametrize("is_there", [True, False])
async def test_a_virtual_machine_is_kept_if_its_machine_exists_though_no_cache_shows_it(is_there: bool) -> None:
    deleted: list[str] = []

    async def read(_resource: Resource, key: Key) -> Object | None:
        return Object(b'{"kind":"Machine","metadata":{"name":"apple"}}') if is_there and key.name == "apple" else None

    async def delete(virtual: VirtualMachine) -> None:
        deleted.append(virtual.name)

    made = controller.MachineController.__new__(controller.MachineController)
    now = [0.0]
    made._clock = cast(Any, SimpleNamespace(monotonic=lambda: now[0]))
    made._orphans = {}
    found = [VirtualMachine(name="apple", network="n", size="s", image="linux")]
    for now[0] in (0.0, controller.ORPHAN_GRACE):
        assert deleted == []
        tools = cast(Any, SimpleNamespace(delete=delete)), cast(Any, SimpleNamespace(read=read))
        await made._collect("shoot--dev--apple", found, *tools)
    assert deleted == ([] if is_there else ["apple"])
