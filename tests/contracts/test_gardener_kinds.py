"""Gardener's kinds on the embedded API server as on kube-apiserver: state stays what it is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api import gardener
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ExtensionState, PersistedSecret, ShootState
from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.shoots.state.document import Document, Entry, digested
from espalier.shoots.state.merging import Mode, SeedStates, Task, is_current, merged
from espalier.shoots.state.resource_states import state_of
from espalier.shoots.state.store import ShootStates
from tests.support.servers.widgets import served

KINDS: tuple[type[KubeObject], ...] = (*gardener.GARDEN_KINDS, *gardener.SEED_KINDS)
STATE = {
    "nothing": None,
    "deep": [{"nothing": None, "list": [None, [None]]}, {}],
    "largest": 2**63 - 1,
    "whole": 1.0,
    "ratio": 0.1,
    "text": 'a"\\\u2028\n',
}


@pytest.fixture
async def definitions(client: Client) -> None:
    for kind in KINDS:
        await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    await served(client, *(kind.resource for kind in KINDS))


async def made_shoot(client: Client, namespace: str) -> Object:
    spec = {"provider": {"type": "local", "unknown": {"kept": 1}}, "unknown": ["kept"]}
    return await client.create(Shoot.resource, {"metadata": {"name": "x", "namespace": namespace}, "spec": spec})


@pytest.mark.demand(G16="also on kube-apiserver")
@pytest.mark.usefixtures("definitions")
async def test_state_keeps_its_value_between_seed_and_garden(client: Client, namespace: str) -> None:
    """G16: also nulls in maps and lists, which patches would drop."""
    shoot, states = await made_shoot(client, namespace), ShootStates(client, "a")
    await states.persist(shoot, [PersistedSecret(name="ca", data={"ca.crt": "Yw=="})], 1)
    body = {"metadata": {"name": "infrastructure", "namespace": namespace}, "spec": {"type": "local"}}
    infrastructure = await client.create(Infrastructure.resource, body)
    infrastructure = await client.replace(
        Infrastructure.resource, {**infrastructure.tree, "status": {"state": STATE}}, subresource="status"
    )
    result = SeedStates((state_of(infrastructure, Infrastructure),), frozenset({"Infrastructure"}))
    task = Task(Mode.EXACT, 1)

    def edit(document: Document) -> None:
        entries, _ = merged(document.entries, result, task, shoot.metadata.uid, 0)
        document.set_entries(entries)

    written = await states.change(shoot, 1, edit)
    stored = await states.claim(shoot, 1)
    state = stored.state_for("Infrastructure", "infrastructure")
    assert state is not None
    assert msgspec.json.decode(state) == STATE
    assert is_current(digested(Object(written.raw)).decode(ShootState).extensions, result, Mode.EXACT)
    again = await states.change(shoot, 1, edit)
    assert again.resource_version == written.resource_version
    await states.release(shoot)


@pytest.mark.usefixtures("definitions")
async def test_entries_of_others_in_a_shoot_state_survive(client: Client, namespace: str) -> None:
    shoot, states = await made_shoot(client, namespace), ShootStates(client, "a")
    made = await states.ensure(shoot, 1)
    foreign: dict[str, Any] = {
        "resources": [{"kind": "Secret", "data": {"nothing": None}}],
        "extensions": [{"kind": "Other", "own": 1}],
    }
    await client.replace(ShootState.resource, {**made.tree, **foreign})

    def add(document: Document) -> None:
        entry = Entry.of(ExtensionState(kind="Worker", name="w", state=msgspec.Raw(b'{"nothing":null}')))
        document.set_entries([*document.entries, entry])

    after = (await states.change(shoot, 1, add)).tree
    assert after["resources"] == foreign["resources"]
    assert after["extensions"] == [*foreign["extensions"], {"kind": "Worker", "name": "w", "state": {"nothing": None}}]
    await states.release(shoot)
