"""Reconciles of a shoot in which no task can start: what its status says, and what stays as it was."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import Ownership, parse
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Unreachable
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.gardenlet.reconciling.controller import controller, reconciler
from espalier.shoots.gardenlet.scope import Scope
from tests.support.gardens.gardenlet_scopes import scope
from tests.support.servers.embedded_server import client_of, new_server
from tests.support.waiting import eventually

KEY = Key("garden-dev", "apple")
EXPIRIES = ("lease_waits", "handovers", "shoot_roles")
ANNOTATED = {"metadata": {"annotations": {OWNERSHIP: "no epochs"}}}


class Seen:
    """The observer of a gardenlet without anything in its seed."""

    def __init__(self, shoot: Object, claims: str = "", *, is_here: bool = False) -> None:
        self._shoot = shoot
        self._claims = claims
        self._is_here = is_here

    def shoot(self, _key: Key) -> Object:
        return self._shoot

    def is_here(self, _technical_id: str) -> bool:
        return self._is_here

    def technical_id(self, _shoot: Object) -> str:
        return "shoot--dev--apple"

    def technical_id_conflict(self, _shoot: Object) -> str:
        return self._claims

    def scope(self, live: Any, _now: object) -> Scope:
        annotation = live.shoot.metadata.annotations.get(OWNERSHIP)
        return scope(parse(annotation) if annotation else Ownership(), object=live.shoot)


async def a_shoot(client: Client, seed: str, *patches: Tree) -> Object:
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Shoot))
    await client.create(NAMESPACE, {"metadata": {"name": KEY.namespace}})
    spec = {"provider": {"type": "local"}, "seedName": seed}
    metadata = {"name": KEY.name, "namespace": KEY.namespace}
    made = await client.create(Shoot.resource, {"metadata": metadata, "spec": spec})
    for patch in patches:
        what = "status" if "status" in patch else None
        made = await client.patch(
            Shoot.resource, KEY.name, KEY.namespace, patch=patch, type=PatchType.MERGE, subresource=what
        )
    return made


async def reconciled(client: Client, seen: Seen, garden: Client | None = None) -> tuple[Outcome, Shoot, Object]:
    tools = SimpleNamespace(
        config=SimpleNamespace(seed="a"),
        garden=Writer(garden or client, {}),
        clock=SystemClock(),
        **{name: Expiry() for name in EXPIRIES},
    )
    outcome = await reconciler(cast(Any, seen), cast(Any, tools)).reconcile(KEY)
    after = await client.get(Shoot.resource, KEY.name, KEY.namespace)
    return outcome, after.decode(Shoot), after


async def test_a_shoot_whose_epochs_are_unreadable_says_so() -> None:
    server = new_server()
    await server.start()
    client = client_of(server)
    shoot = await a_shoot(client, "a", ANNOTATED)
    outcome, after, _ = await reconciled(client, Seen(shoot))
    assert isinstance(outcome, Fault)
    assert outcome.reason == "FlowNotStarted"
    assert outcome.message.startswith(
        "metadata.annotations[espalier.gardener.cloud/ownership]: these are not valid epochs"
    )
    last = after.status.last_operation
    assert last is not None
    assert (last.type, last.state, last.description) == ("Reconcile", "Error", outcome.message)
    assert [last_error.description for last_error in after.status.last_errors] == [outcome.message]
    _, _, again = await reconciled(client, Seen(shoot))
    _, _, once_more = await reconciled(client, Seen(shoot))
    assert again.resource_version == once_more.resource_version, "the same is not written again"
    await server.close()


async def test_late_revert_is_reported_as_a_migration() -> None:
    server = new_server()
    await server.start()
    client = client_of(server)
    last = {"type": "Migrate", "state": "Processing", "progress": 50, "description": "", "lastUpdateTime": None}
    status = {"status": {"seedName": "a", "lastOperation": {k: v for k, v in last.items() if v is not None}}}
    started = {"metadata": {"annotations": {OWNERSHIP: Ownership().add("a", "x").start(1, "a").render()}}}
    outcome, after, _ = await reconciled(client, Seen(await a_shoot(client, "a", started, status)))
    assert isinstance(outcome, Fault)
    assert (outcome.reason, outcome.terminal) == ("HandedOver", True)
    told = after.status.last_operation
    assert told is not None
    assert (told.type, told.state, told.progress, told.description) == ("Migrate", "Error", 50, outcome.message)
    await server.close()


@pytest.mark.parametrize(("seed", "reason"), [("a", "TechnicalIDTaken"), ("b", "")])
async def test_shoot_with_a_foreign_id_is_told_by_its_seed(seed: str, reason: str) -> None:
    server = new_server()
    await server.start()
    client = client_of(server)
    shoot = await a_shoot(client, seed)
    outcome, after, observed = await reconciled(client, Seen(shoot, "it is another's", is_here=True))
    assert isinstance(outcome, Wait if reason else Done)
    assert getattr(outcome, "reason", "") == reason
    told = after.status.last_operation
    assert (told.description if told is not None else "") == ("it is another's" if reason else "")
    assert observed.metadata.finalizers == []
    await server.close()


async def test_gardenlet_without_its_garden_does_nothing() -> None:
    server = new_server()
    await server.start()
    client = client_of(server)
    shoot = await a_shoot(client, "a")

    class Silent:
        async def get(self, *_: object) -> Object:
            raise Unreachable("no answer")

    outcome, _, observed = await reconciled(client, Seen(shoot), cast(Client, Silent()))
    assert isinstance(outcome, Fault)
    assert outcome.reason == "GardenUnreachable"
    assert observed.resource_version == shoot.resource_version
    await server.close()


async def test_roles_in_shoot_are_due_without_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    """A settled shoot has none for hours."""
    monkeypatch.setattr(Controller, "watch", lambda *_, **__: None)
    observer = SimpleNamespace(garden=defaultdict(lambda: None), seed={}, pods=None, shoot=None)
    tools = SimpleNamespace(garden=None, rng=None, **{name: Expiry() for name in EXPIRIES})
    made = controller(cast(Any, observer), cast(Any, tools))
    assert not made.busy
    tools.shoot_roles.keep(KEY, "roles", 0)
    await eventually(lambda: made.busy, within=10)
