"""Virtual machines without a Machine, as caches show it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.cloud import VirtualMachine
from espalier.api.gardener.machines import Machine, MachineClass
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.objects import Object, encode_json
from espalier.shoots.extension.errors import OperationFailed
from espalier.shoots.machine_controller import controller


@pytest.mark.parametrize("is_there", [True, False])
async def test_virtual_machine_stays_with_its_machine(is_there: bool) -> None:
    deleted: list[str] = []

    async def read(_resource: Resource, key: Key) -> Object | None:
        return Object(b'{"kind":"Machine","metadata":{"name":"apple"}}') if is_there and key.name == "apple" else None

    async def delete(virtual: VirtualMachine) -> None:
        deleted.append(virtual.name)

    made = controller.MachineController.__new__(controller.MachineController)
    now = [0.0]
    made._clock = cast(Any, SimpleNamespace(monotonic=lambda: now[0]))
    made._orphans = {}
    machines = [VirtualMachine(name="apple", network="n", size="s", image="linux")]
    for now[0] in (0.0, controller.ORPHAN_GRACE):
        assert deleted == []
        tools = cast(Any, SimpleNamespace(delete=delete)), cast(Any, SimpleNamespace(read=read))
        await made._collect("shoot--dev--apple", machines, *tools)
    assert deleted == ([] if is_there else ["apple"])


@pytest.mark.parametrize("data", [None, {}, {"other": "eA=="}])
async def test_no_machine_is_made_without_its_user_data(data: Tree | None) -> None:
    """It would never join its shoot, and count as one of its machines."""
    spec = {"providerSpec": {"network": "n"}, "secretRef": {"name": "user-data", "namespace": "shoot--dev--apple"}}
    metadata = {"name": "class", "namespace": "shoot--dev--apple"}
    machine_class = stored({"apiVersion": MachineClass.resource.api_version, "kind": "MachineClass", **spec}, metadata)
    machine = stored(
        {
            "apiVersion": Machine.resource.api_version,
            "kind": "Machine",
            "spec": {"class": {"kind": "MachineClass", "name": "class"}},
        },
        {**metadata, "name": "apple"},
    )
    view = cast(Any, SimpleNamespace(object=machine, machine=machine.decode(Machine)))

    async def read(_resource: Resource, _key: Key) -> Object | None:
        secret = {"apiVersion": "v1", "kind": "Secret", "data": data}
        return stored(secret, {**metadata, "name": "user-data"}) if data is not None else None

    made = controller.MachineController.__new__(controller.MachineController)
    made._writer = cast(Any, SimpleNamespace(read=read))
    with pytest.raises(OperationFailed, match="found no user data in its Secret"):
        await made._create(view, cast(Any, None), [machine_class])


def stored(tree: Tree, metadata: Tree) -> Object:
    return Object(encode_json({**tree, "metadata": metadata}))
