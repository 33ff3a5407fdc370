from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.runtime.owners import AlreadyOwned
from tests.unit.runtime.small_server import SmallServer, client_of, config_map


def put(server: SmallServer, name: str, **metadata: object) -> Object:
    tree = config_map(name)
    tree["metadata"] |= metadata
    return Object(msgspec.json.encode(server.put(tree)))


async def test_a_finalizer_is_added_and_removed_once_and_others_stay() -> None:
    server = SmallServer()
    client = client_of(server)
    found = await owners.add_finalizer(client, CONFIG_MAP, put(server, "a", finalizers=["theirs"]), "ours")
    assert found.metadata.finalizers == ["theirs", "ours"]
    assert await owners.add_finalizer(client, CONFIG_MAP, found, "ours") is found
    freed = await owners.remove_finalizer(client, CONFIG_MAP, found, "ours")
    assert freed is not None
    assert freed.metadata.finalizers == ["theirs"]
    assert await owners.remove_finalizer(client, CONFIG_MAP, freed, "ours") is freed
    assert server.writes == {"PATCH": 2}


async def test_a_finalizer_that_somebody_else_added_meanwhile_is_not_lost() -> None:
    server = SmallServer()
    stale = put(server, "a")
    put(server, "a", finalizers=["theirs"])
    with pytest.raises(Conflict):
        await owners.add_finalizer(client_of(server), CONFIG_MAP, stale, "ours")


async def test_freeing_an_object_that_is_gone_is_no_error() -> None:
    server = SmallServer()
    found = put(server, "a", finalizers=["ours"])
    server.remove("a")
    assert await owners.remove_finalizer(client_of(server), CONFIG_MAP, found, "ours") is None


async def test_owners_are_added_replaced_and_removed() -> None:
    server = SmallServer()
    client = client_of(server)
    owner, other = put(server, "owner"), put(server, "other")
    weak = owners.owner_reference(owner, controller=False, block_owner_deletion=False)
    found = await owners.add_owner(client, CONFIG_MAP, put(server, "part"), weak)
    found = await owners.add_owner(client, CONFIG_MAP, found, owners.owner_reference(owner))
    assert [(ref.name, ref.controller) for ref in found.metadata.owner_references] == [("owner", True)]
    assert owners.is_owned_by(found, owner)
    assert await owners.add_owner(client, CONFIG_MAP, found, owners.owner_reference(owner)) is found
    with pytest.raises(AlreadyOwned):
        await owners.add_owner(client, CONFIG_MAP, found, owners.owner_reference(other))
    freed = await owners.remove_owner(client, CONFIG_MAP, found, owner.metadata.uid)
    assert freed is not None
    assert not owners.is_owned_by(freed, owner)
