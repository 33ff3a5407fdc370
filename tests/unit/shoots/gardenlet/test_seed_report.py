"""The report by which Gardener's controllers let a shoot move to a seed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.garden.seed import GARDENLET_READY, SYSTEM_COMPONENTS_HEALTHY, Seed
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.reports import seed_report
from tests.support.servers.embedded_server import client_of, new_server


async def test_the_seed_says_which_gardenlet_acts_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Controller, "watch", lambda *_, **__: None)
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Seed))
    spec = {"provider": {"type": "local", "region": "r"}}
    await client.create(Seed.resource, {"metadata": {"name": "a"}, "spec": spec})
    ready = {"status": {"conditions": [{"type": GARDENLET_READY, "status": "True"}]}}
    cached = [await client.patch(Seed.resource, "a", patch=ready, type=PatchType.MERGE, subresource="status")]
    observer = SimpleNamespace(garden={Seed.resource: SimpleNamespace(get=lambda _key: cached[-1])})
    config = GardenletConfig("a", version="0.26.0")
    tools = SimpleNamespace(config=config, garden=Writer(client, {}), clock=SystemClock(), rng=None)
    made = seed_report.controller(cast(Any, observer), cast(Any, tools))
    await made._reconcile(Key("", "a"))
    cached.append(await client.get(Seed.resource, "a"))
    status = cached[-1].decode(Seed).status
    assert {(condition.type, condition.status) for condition in status.conditions} == {
        (GARDENLET_READY, "True"),
        (SYSTEM_COMPONENTS_HEALTHY, "True"),
    }
    assert status.gardener is not None
    assert (status.gardener.id, status.gardener.version) == ("a", "0.26.0")
    assert status.observed_generation == cached[-1].metadata.generation == 1
    await made._reconcile(Key("", "a"))
    assert (await client.get(Seed.resource, "a")).resource_version == cached[-1].resource_version, "nothing is new"
    await server.close()
