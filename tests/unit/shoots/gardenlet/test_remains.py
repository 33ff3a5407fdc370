"""The report of what moved shoots left in a seed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.seed import SHOOTS_REMOVED, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.reports import remains
from tests.support.gardens.gardenlet_scopes import an_object
from tests.support.servers.embedded_server import client_of, new_server

OTHERS = {"type": "BackupBucketsReady", "status": "True", "reason": "Ready", "message": ""}


async def test_conditions_that_others_wrote_meanwhile_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is written as one value: the cache may show it as it was."""
    monkeypatch.setattr(Controller, "watch", lambda *_, **__: None)
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Seed))
    spec = {"provider": {"type": "local", "region": "r"}}
    cached = [await client.create(Seed.resource, {"metadata": {"name": "a"}, "spec": spec})]
    status = {"status": {"conditions": [{**OTHERS, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}
    later = await client.patch(Seed.resource, "a", patch=status, type=PatchType.MERGE, subresource="status")
    empty = SimpleNamespace(list=list)
    observer = SimpleNamespace(
        garden={
            Seed.resource: SimpleNamespace(get=lambda _key: cached[-1]),
            Shoot.resource: None,
            BackupEntry.resource: empty,
        },
        seed={NAMESPACE: empty, Cluster.resource: empty, extension_backups.BackupEntry.resource: empty},
        seed_name="a",
    )
    tools = SimpleNamespace(config=SimpleNamespace(seed="a"), garden=Writer(client, {}), clock=SystemClock(), rng=None)
    made = remains.controller(cast(Any, observer), cast(Any, tools))
    await made._reconcile(Key("", "a"))
    assert (await client.get(Seed.resource, "a")).resource_version == later.resource_version
    cached.append(later)
    await made._reconcile(Key("", "a"))
    conditions = (await client.get(Seed.resource, "a")).decode(Seed).status.conditions
    assert {condition.type for condition in conditions} == {OTHERS["type"], SHOOTS_REMOVED}
    await server.close()


def test_shoots_of_other_seeds_and_none_are_remains() -> None:
    """Nothing of a shoot of this seed is one, nor is a namespace of others."""

    def shoot(name: str, seed: str) -> Object:
        spec = {"provider": {"type": "local"}, "seedName": seed}
        return an_object(Shoot.resource, name, "garden-dev", spec=spec, status={"seedName": seed})

    def entry(kind: type[BackupEntry | extension_backups.BackupEntry], name: str, seed: str) -> Object:
        of_garden = {"bucketName": "b", "seedName": seed}
        namespace = "garden-dev" if kind is BackupEntry else ""
        return an_object(kind.resource, name, namespace, spec=of_garden if kind is BackupEntry else {})

    shoots = {"here": shoot("here", "a"), "moved": shoot("moved", "b")}
    marked = {"annotations": {SHOOT_UID: "1"}}
    namespaces = [an_object(NAMESPACE, name, metadata=marked) for name in ("here", "moved")]
    clusters = [an_object(Cluster.resource, name, spec={}) for name in ("here", "gone")]
    entries = [entry(extension_backups.BackupEntry, name, "a") for name in ("kept", "left", "unknown")]
    observer = SimpleNamespace(
        garden={BackupEntry.resource: listed(entry(BackupEntry, "kept", "a"), entry(BackupEntry, "left", "b"))},
        seed={
            NAMESPACE: listed(*namespaces, an_object(NAMESPACE, "kube-system")),
            Cluster.resource: listed(*clusters),
            extension_backups.BackupEntry.resource: listed(*entries),
        },
        seed_name="a",
        shoot_of=lambda name: Key("garden-dev", name) if name in shoots else None,
        shoot=lambda key: shoots.get(key.name),
    )
    assert list(remains.remains(cast(Any, observer))) == [
        "gone (its Shoot is gone)",
        "moved (now in seed b)",
        "BackupEntry left",
        "BackupEntry unknown",
    ]
    assert remains.condition([]).status == "True"
    assert remains.condition(["gone"]).status == "False"


def listed(*objects: Object) -> SimpleNamespace:
    return SimpleNamespace(list=lambda: list(objects))
