"""Two seeds and the state of shoots: each gets at that of its own shoots alone, by what the garden grants it."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from espalier.api import gardener
from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    ROLE,
    ROLE_BINDING,
    SECRET,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ExtensionState
from espalier.api.gardener.names import SEED_LEASES
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.meta import Tree
from espalier.apiserver.access.webhooks import WebhookCall
from espalier.apiserver.server import Server
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS, webhook_configuration
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.servers.webhooks import Webhooks
from espalier.shoots.admission.handlers import Admission
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER, WRITTEN, Roles
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Document, Entry
from espalier.shoots.state.limits import MIB
from espalier.shoots.state.rbac import ROLE_OF_GARDENLET
from espalier.shoots.state.store import ShootStates
from espalier.shoots.state.stored import StoredState
from tests.support.gardens.shoot_states import SEED, json_of
from tests.support.servers.embedded_server import client_of, new_server

PROJECT = "garden-core"
RECONCILED = {"type": "Reconcile", "state": "Succeeded", "description": "", "lastUpdateTime": "2026-01-01T00:00:00Z"}


@asynccontextmanager
async def garden() -> AsyncIterator[Garden]:
    """A garden whose webhooks and Roles are kept, seeds `a` and `b`, and a shoot in each."""
    webhooks = Webhooks(port=None)

    async def call(call: WebhookCall) -> bytes:
        return webhooks.review(call.url.removeprefix("https://garden.internal"), call.body)

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    for kind in gardener.GARDEN_KINDS:
        await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    for namespace in (PROJECT, names.STATE_NAMESPACE, SEED_LEASES):
        await client.create(NAMESPACE, {"metadata": {"name": namespace}})
    caches = Caches(client, rng=random.Random(1))
    Admission(caches, {}).serve(webhooks)
    roles = Roles(caches, Writer(client, {}, "garden")).controller()
    running = [asyncio.ensure_future(caches.run()), asyncio.ensure_future(roles.run())]
    await caches.wait_synced()
    await client.create(VALIDATING_WEBHOOK_CONFIGURATION, webhook_configuration("https://garden.internal"))
    made = Garden(server, client)
    for seed, shoot in (("a", "apple"), ("b", "pear")):
        await client.create(Seed.resource, {"metadata": {"name": seed}, "spec": SEED})
        spec = {"provider": {"type": "local"}, "seedName": seed}
        metadata = {"name": shoot, "namespace": PROJECT, "finalizers": ["gardener"]}
        await client.create(Shoot.resource, {"metadata": metadata, "spec": spec})
        await made.own(shoot, Ownership().add(seed, f"bucket-{seed}").start(1, seed))
    yield made
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await server.close()


class Garden:
    def __init__(self, server: Server, client: Client) -> None:
        self.client = client
        users = {seed: User(USER.format(seed=seed), (SEEDS, "system:authenticated")) for seed in "ab"}
        self.seeds = {seed: client_of(server, user) for seed, user in users.items()}

    async def shoot(self, name: str) -> Object:
        return await self.client.get(Shoot.resource, name, PROJECT)

    async def release(self, name: str) -> None:
        """Let a Shoot that is deleted go."""
        patch: Tree = {"metadata": {"finalizers": []}}
        await self.client.patch(Shoot.resource, name, PROJECT, patch=patch, type=PatchType.MERGE)
        await settled()

    async def rules(self, seed: str, namespace: str = PROJECT) -> list[Tree]:
        """The rules of a seed's Role; none if there is no Role."""
        try:
            role = await self.client.get(ROLE, ROLE_OF_GARDENLET.format(seed=seed), namespace)
        except NotFound:
            return []
        return role.tree.get("rules") or []

    async def own(self, name: str, epochs: Ownership) -> None:
        """Write epochs, and wait until the Roles follow."""
        marks = {"metadata": {"annotations": {OWNERSHIP: epochs.render()}}}
        await self.client.patch(Shoot.resource, name, PROJECT, patch=marks, type=PatchType.MERGE)
        await settled()

    async def store(self, seed: str, shoot: str, state: Any) -> list[str]:
        """Have a seed store a large state; the names of its Secrets."""
        live = await self.shoot(shoot)
        reference, secrets = pieces.split(msgspec.json.encode(state), live.metadata.uid, 1)
        entry = Entry.of(ExtensionState(kind="Infrastructure", name=shoot, state_ref=reference, epoch=1))

        def edit(document: Document) -> None:
            document.set_entries([entry])

        await ShootStates(self.seeds[seed], seed).change(live, 1, edit, lambda: secrets)
        await settled()
        return reference.secrets


async def settled() -> None:
    for _ in range(100):
        await asyncio.sleep(0)
    await asyncio.sleep(0.05)
    for _ in range(100):
        await asyncio.sleep(0)


@pytest.mark.demand(
    G18="of other seeds' shoots nothing can be read or written",
    G21="of other seeds' shoots nothing can be read or written",
)
async def test_large_state_moves_and_is_closed_to_others() -> None:
    state = json_of(5 * MIB)
    async with garden() as world:
        secrets = await world.store("a", "apple", state)
        assert len(secrets) > 5
        a, b = world.seeds["a"], world.seeds["b"]
        await a.get(SECRET, secrets[0], names.STATE_NAMESPACE)
        await none_of(b, secrets[0])
        ownership = Ownership().add("a", "bucket-a").start(1, "a")
        await world.own("apple", ownership.add("b", "bucket-b"))
        await none_of(a, secrets[0])
        live = await world.shoot("apple")
        claimed = await ShootStates(b, "b").claim(live, 2)
        result = claimed.state_for("Infrastructure", "apple")
        assert result is not None
        assert msgspec.json.decode(result) == state
        await world.client.delete(Shoot.resource, "apple", PROJECT)
        await settled()
        await ShootStates(b, "b").release(live)
        assert (await world.client.list(SECRET, names.STATE_NAMESPACE)).items == []


async def none_of(seed: Client, secret: str) -> None:
    """A seed can't read, change or delete a Secret, nor find any."""
    with pytest.raises(Forbidden):
        await seed.get(SECRET, secret, names.STATE_NAMESPACE)
    with pytest.raises(Forbidden):
        await seed.list(SECRET, names.STATE_NAMESPACE)
    change = {"metadata": {"labels": {"a": "b"}}}
    with pytest.raises(Forbidden):
        await seed.patch(SECRET, secret, names.STATE_NAMESPACE, patch=change, type=PatchType.MERGE)
    with pytest.raises(Forbidden):
        await seed.delete(SECRET, secret, names.STATE_NAMESPACE)


async def test_seed_makes_no_secret_in_a_foreign_name() -> None:
    async with garden() as world:
        apple, pear = [(await world.shoot(name)).metadata.uid for name in ("apple", "pear")]

        async def refused(uid: str, epoch: int, **metadata: Any) -> str:
            _, (secret,) = pieces.split(b'"worm"', uid, epoch)
            with pytest.raises(Invalid) as refusal:
                await world.seeds["b"].create(SECRET, changed(secret, **metadata))
            return str(refusal.value)

        named = "a gardenlet may create state Secrets only for shoots whose newest epoch is its seed's"
        assert named in await refused(apple, 1)
        assert named in await refused(pear, 2)
        assert named in await refused("nobody", 1)
        assert named in await refused(pear, 1, name="anything")
        labels = {metadata_keys.SHOOT_UID: apple, metadata_keys.EPOCH: "1"}
        assert f"found {apple}; allowed: {pear}" in await refused(pear, 1, labels=labels)
        owner = {"apiVersion": "v1", "kind": "Secret", "name": "anything", "uid": "anything"}
        assert "and it must have no owner" in await refused(pear, 1, ownerReferences=[owner])  # it would go with it
        _, (secret,) = pieces.split(b'"pear"', pear, 1)
        await world.seeds["b"].create(SECRET, secret)


def changed(secret: Tree, **metadata: Any) -> Tree:
    return {**secret, "metadata": {**secret["metadata"], **metadata}}


async def test_leftovers_of_a_crash_are_found_by_their_seed() -> None:
    async with garden() as world:
        apple = await world.shoot("apple")
        _, (secret,) = pieces.split(b'"left"', apple.metadata.uid, 1)
        await world.seeds["a"].create(SECRET, secret)
        used = await world.store("a", "apple", json_of(MIB))
        await ShootStates(world.seeds["a"], "a").sweep(apple, used, 1)
        left = (await world.client.list(SECRET, names.STATE_NAMESPACE)).items
        assert sorted(object_.name for object_ in left) == sorted(used)


@pytest.mark.soak
async def test_missing_piece_is_reported_and_not_awaited() -> None:
    """The seed has no right on what is not there, and hears that it may not read it."""
    async with garden() as world:
        secrets = await world.store("a", "apple", json_of(MIB))
        await world.client.delete(SECRET, secrets[-1], names.STATE_NAMESPACE)
        await settled()
        a = world.seeds["a"]
        live = await ShootStates(a, "a").read(await world.shoot("apple"))
        assert live is not None
        (problem,) = (await StoredState.read(a, live)).problems()
        assert f"Secrets of namespace shoot-states are missing: {secrets[-1]}" in problem


async def test_seed_without_shoots_has_no_rights_left() -> None:
    """A later shoot of the name may be another seed's, and the project's credentials are not the seed's any more."""
    async with garden() as world:
        await world.client.delete(Shoot.resource, "pear", PROJECT)
        await world.release("pear")
        assert await world.rules("a")
        await world.client.delete(Shoot.resource, "apple", PROJECT)
        await world.release("apple")
        assert await world.rules("a") == []


async def test_seed_without_an_entry_has_no_credentials() -> None:
    """Each bucket may have its Secret in a namespace of its own."""
    async with garden() as world:
        for namespace in ("vault", "garden"):
            await world.client.create(NAMESPACE, {"metadata": {"name": namespace}})
        reference = {"namespace": "vault", "name": "of-a"}
        spec = {"provider": {"type": "local"}, "seedName": "a", "credentialsRef": reference}
        await world.client.create(BackupBucket.resource, {"metadata": {"name": "bucket-a"}, "spec": spec})
        uid = (await world.shoot("apple")).metadata.uid
        status = {"seedName": "a", "technicalID": "shoot--core--apple", "uid": uid, "lastOperation": RECONCILED}
        for patch, subresource in (({"status": status}, "status"), ({"spec": {"seedName": "b"}}, None)):
            await world.client.patch(
                Shoot.resource, "apple", PROJECT, patch=patch, type=PatchType.MERGE, subresource=subresource
            )
        await world.own("apple", Ownership().add("a", "bucket-a").start(1, "a").add("b", "bucket-b"))
        entry = names.source_backup_entry("shoot--core--apple", uid)
        body = {
            "metadata": {"name": entry, "namespace": PROJECT},
            "spec": {"bucketName": "bucket-a", "seedName": "b"},
        }
        await world.client.create(BackupEntry.resource, body)
        await settled()
        assert await world.rules("b:backup", "vault")
        await world.client.delete(BackupEntry.resource, entry, PROJECT)
        await settled()
        assert await world.rules("b:backup", "vault") == []


@pytest.mark.parametrize(("of", "is_withdrawn"), [("b", True), ("b-backup", False)])
async def test_role_named_as_of_another_seed_is_withdrawn(of: str, is_withdrawn: bool) -> None:
    """Seeds `b` and `b-backup` would have shared it: no seed's name has a colon. What is the other one's stays."""
    async with garden() as world:
        await world.client.create(NAMESPACE, {"metadata": {"name": "vault"}})
        name = ROLE_OF_GARDENLET.format(seed="b-backup")
        rules = [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"], "resourceNames": ["of-a"]}]
        metadata = {"name": name, "namespace": "vault"}
        await world.client.create(ROLE, {"metadata": metadata, "rules": rules})
        await world.client.create(
            ROLE_BINDING,
            {
                "metadata": metadata,
                "roleRef": {"apiGroup": ROLE.group, "kind": "Role", "name": name},
                "subjects": [{"apiGroup": ROLE.group, "kind": "User", "name": USER.format(seed=of)}],
            },
        )
        touch = {"metadata": {"labels": {"touched": ""}}}  # as a garden that starts looks at every seed
        await world.client.patch(Seed.resource, "b", patch=touch, type=PatchType.MERGE)
        await settled()
        assert (await world.rules("b-backup", "vault") == []) == is_withdrawn


async def test_deleted_seed_keeps_rights_while_it_has_shoots() -> None:
    """Who has its user's certificate is to get at nothing any more."""
    async with garden() as world:
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.client.delete(Seed.resource, "a")
        await settled()
        assert await world.rules("a")
        await world.client.delete(Shoot.resource, "apple", PROJECT)
        await world.release("apple")
        assert [await world.rules("a", namespace) for namespace in (PROJECT, SEED_LEASES, names.STATE_NAMESPACE)] == [
            []
        ] * 3
        with pytest.raises(Forbidden):
            await world.seeds["a"].list(Shoot.resource, PROJECT)
        await world.seeds["b"].list(Shoot.resource, PROJECT)
        for kind in WRITTEN:  # and nothing of it stays
            left = {object_.name for object_ in (await world.client.list(kind)).items}
            assert ROLE_OF_GARDENLET.format(seed="b") in left
            assert not [name for name in left if name.startswith(ROLE_OF_GARDENLET.format(seed="a"))]


async def test_secret_of_two_buckets_is_granted_once() -> None:
    async with garden() as world:
        await world.client.create(NAMESPACE, {"metadata": {"name": "vault"}})
        for name in ("one", "two"):
            reference = {"name": "of-a", "namespace": "vault"}
            spec = {"provider": {"type": "local"}, "seedName": "a", "credentialsRef": reference}
            await world.client.create(BackupBucket.resource, {"metadata": {"name": name}, "spec": spec})
        await settled()
        (rule,) = await world.rules("a:backup", "vault")
        assert rule["resourceNames"] == ["of-a"]
