"""The webhooks at an API server that asks them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from espalier.api import gardener
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.apiserver.access.webhooks import WebhookCall
from espalier.cli.programs.webhook_configurations import SERVICE, webhook_tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, Forbidden, Invalid
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.caches.cache import Caches
from espalier.runtime.servers.admission import AdmissionRequest
from espalier.runtime.servers.webhooks import Webhooks
from espalier.shoots.admission import handlers, seed_objects
from espalier.shoots.admission.handlers import Admission
from espalier.shoots.state.store import ShootStates
from tests.support.servers.embedded_server import client_of, new_server

NAMESPACE_NAME = "garden-core"


@asynccontextmanager
async def garden() -> AsyncIterator[Client]:
    """A garden with a settled shoot in seed `a`, and seeds `b` and `going` beside it."""
    webhooks = Webhooks(port=None)

    async def call(call: WebhookCall) -> bytes:
        return webhooks.review(urlsplit(call.url).path, call.body)

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    kinds: tuple[type[KubeObject], ...] = gardener.GARDEN_KINDS
    for kind in kinds:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    await client.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
    spec = {"provider": {"type": "local"}, "backup": {"provider": "local"}}
    for name in ("a", "b", "going"):
        await client.create(Seed.resource, {"metadata": {"name": name, "finalizers": ["gardener/x"]}, "spec": spec})
    await client.delete(Seed.resource, "going")
    await client.create(Shoot.resource, {"metadata": at("x"), "spec": {"provider": {"type": "local"}, "seedName": "a"}})
    status = {
        "seedName": "a",
        "technicalID": "shoot--core--x",
        "lastOperation": {"type": "Create", "state": "Succeeded"},
    }
    await client.patch(
        Shoot.resource, "x", NAMESPACE_NAME, patch={"status": status}, type=PatchType.MERGE, subresource="status"
    )
    caches = Caches(client, rng=random.Random(1))
    Admission(caches, {}).serve(webhooks)
    configuration = {
        "metadata": {"name": "garden"},
        "webhooks": [webhook_tree("https://garden.example.com", webhook, SERVICE) for webhook in handlers.WEBHOOKS],
    }
    await client.create(VALIDATING_WEBHOOK_CONFIGURATION, configuration)
    following = asyncio.ensure_future(caches.run())
    await caches.wait_synced()
    yield client
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await server.close()


def at(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": NAMESPACE_NAME}


async def move(client: Client, to: str) -> None:
    patch = {"spec": {"seedName": to}}
    await client.patch(Shoot.resource, "x", NAMESPACE_NAME, patch=patch, type=PatchType.MERGE)


async def settled() -> None:
    """Caches have seen what was written."""
    for _ in range(50):
        await asyncio.sleep(0)


@pytest.mark.demand("G34")
async def test_a_shoot_is_moved_by_one_patch() -> None:
    """G34."""
    async with garden() as client:
        await move(client, "b")
        assert (await client.get(Shoot.resource, "x", NAMESPACE_NAME)).tree["spec"]["seedName"] == "b"


async def test_a_refusal_names_the_field_and_the_reason() -> None:
    async with garden() as client:
        with pytest.raises(Forbidden, match=r"spec.seedName: there is no such seed; found nowhere"):
            await move(client, "nowhere")
        with pytest.raises(Forbidden, match=r"spec.seedName: the seed is being deleted; found going"):
            await move(client, "going")


async def test_seed_is_deleted_without_shoots_only() -> None:
    """Without its Seed nobody knows where the backups of a shoot are."""
    async with garden() as client:
        with pytest.raises(ApiError, match=r"Seed a can't be deleted: .* garden-core/x; move .*seeds evacuate a"):
            await client.delete(Seed.resource, "a")
        await move(client, "b")
        await settled()
        for seed in ("a", "b"):
            with pytest.raises(ApiError, match="can't be deleted"):
                await client.delete(Seed.resource, seed)
        has = {"status": {"seedName": "b"}}
        await client.patch(Shoot.resource, "x", NAMESPACE_NAME, patch=has, type=PatchType.MERGE, subresource="status")
        await settled()
        await client.delete(Seed.resource, "a")
        assert (await client.get(Seed.resource, "a")).metadata.deletion_timestamp


def test_field_without_effect_is_kept_with_a_warning() -> None:
    def warned(old: Tree | None, new: Tree) -> tuple[str, ...]:
        made = [
            Object(encode_json({"kind": "Shoot", "metadata": at("x"), "spec": {"provider": {"type": "local"}, **spec}}))
            for spec in (new, old or {})
        ]
        request = AdmissionRequest("UPDATE", "Shoot", NAMESPACE_NAME, "x", ADMIN, made[0], made[1] if old else None)
        return handlers.reviewed(request, Shoot, lambda _new: ()).warnings

    config = {"type": "toy", "providerConfig": {"any": 1}}
    typos = {"tpyo": 1, "regoin": "here", "kubernetes": {"kubeAPIServer": {}}, "extensions": [config]}
    assert warned(None, typos) == (
        "spec.tpyo: it is kept, but does nothing here",
        'spec.regoin: it is kept, but does nothing here; did you mean "region"?',
        "spec.kubernetes.kubeAPIServer: it is kept, but does nothing here",
    )
    assert warned(typos, {**typos, "region": "here"}) == ()


def test_only_some_of_many_shoots_are_named() -> None:
    assert "shoots a/0, a/1, a/2, a/3, a/4 and 2 more" in seed_objects.deletion_refusal(
        "b", [f"a/{number}" for number in range(7)]
    )


@pytest.mark.demand("G13")
async def test_shoot_state_stays_while_its_shoot_exists() -> None:
    """G13."""
    async with garden() as client:
        shoot = await client.get(Shoot.resource, "x", NAMESPACE_NAME)
        await ShootStates(client, "a").persist(shoot, [], 1)
        with pytest.raises(ApiError, match="ShootState garden-core/x can't be deleted: it is the only record"):
            await client.delete(ShootState.resource, "x", NAMESPACE_NAME)


async def test_invalid_object_is_refused_without_its_values() -> None:
    async with garden() as client:
        body = {"metadata": at("y"), "gardenlet": {"secrets": [{"name": "ca", "data": {"ca.key": "no base64!"}}]}}
        with pytest.raises(Invalid) as caught:
            await client.create(ShootState.resource, body)
        assert "gardenlet.secrets[0].data[ca.key]: data of secrets must be base64" in str(caught.value)
        assert "no base64" not in str(caught.value)


async def test_entries_are_judged_too() -> None:
    async with garden() as client:
        with pytest.raises(Invalid, match=r"metadata.name: a BackupEntry must be named after the technical ID and UID"):
            await client.create(BackupEntry.resource, {"metadata": at("y"), "spec": {"bucketName": "b"}})


async def test_shoot_with_a_taken_namespace_is_refused() -> None:
    """By the technical ID in its status, from names that lead to the same one."""
    async with garden() as client:
        await client.create(NAMESPACE, {"metadata": {"name": "core"}})
        tree = (await client.get(Shoot.resource, "x", NAMESPACE_NAME)).tree
        other = {"metadata": {"name": "x", "namespace": "core"}, "spec": tree["spec"]}
        with pytest.raises(Invalid, match=r"metadata.name: .*found x, which gives shoot--core--x"):
            await client.create(Shoot.resource, other)
        await client.create(Shoot.resource, {**other, "metadata": {"name": "y", "namespace": "core"}})
