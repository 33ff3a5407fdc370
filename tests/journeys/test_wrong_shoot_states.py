"""A ShootState that somebody has changed in the garden: its seed repairs it, and no move starts from a wrong one."""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import pytest

from espalier.api import conditions, core
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import READY_FOR_DISASTER, Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH as EPOCH_OF_STATE
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE, SECRET_DIGESTS, STATE_REVISION
from espalier.api.meta import Tree
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from espalier.shoots.secrets import persisted
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")


def without_states(tree: Tree) -> None:
    tree["extensions"] = []


def older(tree: Tree) -> None:
    for entry in tree["extensions"]:
        entry["state"] = {"older": True}


def without_secrets(tree: Tree) -> None:
    tree["gardenlet"] = {"secrets": []}


def nonsense(tree: Tree) -> None:
    tree["extensions"] = [{"kind": "Worker", "name": "apple", "stateRef": {"secrets": ["x"], "size": 1, "sha256": "0"}}]


def with_another(*names_of_secrets: str) -> Callable[[Tree], None]:
    """As valid as the present ones, but not this shoot's."""

    def change(tree: Tree) -> None:
        others = persisted.generate({}, namespace=ID, now=EPOCH, rng=random.Random(7))
        for secret in tree["gardenlet"]["secrets"]:
            if secret["name"] in names_of_secrets:
                data = {key: b64encode(value).decode() for key, value in others[secret["name"]].items()}
                assert data.keys() == secret["data"].keys()
                assert data != secret["data"]
                secret["data"] = data

    return change


OTHERS = {
    "another authority": (secret_names.CA,),
    "another encryption key": (secret_names.ETCD_ENCRYPTION,),
    "another service account key": (secret_names.SERVICE_ACCOUNT_KEY,),
    "another shoot's secrets": secret_names.PERSISTED,
}
EDITS: dict[str, Callable[[Tree], None] | None] = {
    "its states are gone": without_states,
    "its states are older": older,
    "its secrets are gone": without_secrets,
    "its states are nonsense": nonsense,
    "it is gone": None,
    **{what: with_another(*replaced) for what, replaced in OTHERS.items()},
}


async def edit(world: World, what: str) -> None:
    change = EDITS[what]
    live = await world.client.get(ShootState.resource, "apple", NAMESPACE)
    if change is None:
        patch = {"metadata": {"finalizers": None}}
        await world.client.delete(core.VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.client.patch(ShootState.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE)
        await world.client.delete(ShootState.resource, "apple", NAMESPACE)
        return
    tree = live.tree
    change(tree)
    await world.client.replace(ShootState.resource, tree)


async def content(world: World) -> dict[str, Any]:
    tree = (await world.client.get(ShootState.resource, "apple", NAMESPACE)).tree
    entries = {extension["kind"]: {**extension, "epoch": 0} for extension in tree["extensions"]}
    return {**entries, "secrets": {secret["name"]: secret["data"] for secret in tree["gardenlet"]["secrets"]}}


@pytest.mark.parametrize("what", sampled(EDITS, 0, 2, 4, 5))
def test_wrong_state_of_a_settled_shoot_is_repaired(what: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before, running = await content(world), await world.secrets("a")
            await edit(world, what)
            await asyncio.sleep(90)
            assert await content(world) == before
            assert await world.secrets("a") == running
            await world.seeds["a"].power_off()
            await world.move("b")
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            await world.healthy("b", seconds=900)
            assert world.infrastructures.count("create", "b") == 0

    virtual.run(main, epoch=EPOCH, seed=1)


MOMENTS = (-0.01, 0.3, 1.0, 2.0)
"""Seconds after a move was requested, up to when extension resources are removed at the source."""
VARIANTS = [(what, at) for what in EDITS for at in MOMENTS]


@pytest.mark.parametrize(("what", "at"), sampled(VARIANTS, 0, 2, 8, 21))
def test_a_move_repairs_the_shoot_state_first(what: str, at: float) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=1.0) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before, creates = await content(world), world.infrastructures.count("create")
            if at < 0:
                await edit(world, what)
            await world.move("b")
            await asyncio.sleep(max(at, 0.0))
            if at >= 0:
                await edit(world, what)
            await world.healthy("b", seconds=40)  # at once, not when the version is compared again
            await world.gone("a", seconds=900)
            assert world.infrastructures.count("create") == creates
            assert await content(world) == before

    virtual.run(main, epoch=EPOCH, seed=1)


def test_older_shoot_state_of_lost_seed_is_refused() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before = await world.client.get(ShootState.resource, "apple", NAMESPACE)
            pools = (await world.client.get(Shoot.resource, "apple", NAMESPACE)).tree["spec"]["provider"]["workers"]
            await world.patch({"spec": {"provider": {"workers": [{**pool, "minimum": 2} for pool in pools]}}})
            await asyncio.sleep(240)  # two machines, and the garden knows that there is a later state
            await world.healthy("a")
            newest = await world.client.get(ShootState.resource, "apple", NAMESPACE)
            metadata = {**before.tree["metadata"], "resourceVersion": newest.resource_version}
            await world.client.replace(ShootState.resource, {**before.tree, "metadata": metadata})
            await world.seeds["a"].power_off()
            await world.move("b")
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            with pytest.raises(TimeoutError):
                await world.healthy("b", seconds=900)
            last = (await world.shoot()).status.last_operation
            assert last is not None
            result, allowed = (item.metadata.annotations[STATE_REVISION] for item in (before, newest))
            assert f"metadata.annotations[{STATE_REVISION}]: found {result}" in last.description
            command = f"kubectl annotate shootstate apple -n {NAMESPACE} --overwrite {STATE_REVISION}="
            assert command in last.description
            reported = last.description.split(command)[1].split()[0].rstrip(";.")
            assert int(result) < int(reported) <= int(allowed)
            consent = {"metadata": {"annotations": {STATE_REVISION: reported}}}
            await world.client.patch(ShootState.resource, "apple", NAMESPACE, patch=consent, type=PatchType.MERGE)
            await world.healthy("b", seconds=900)

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("last", [None, {"type": "Create", "state": "Processing", "progress": 10}])
def test_no_status_lets_other_secrets_in(last: Tree | None) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before, running = await content(world), await world.secrets("a")
            status = {"status": {"lastOperation": last}}
            await world.client.patch(
                Shoot.resource, "apple", NAMESPACE, patch=status, type=PatchType.MERGE, subresource="status"
            )
            await edit(world, "another authority")
            await asyncio.sleep(120)
            assert await content(world) == before
            assert await world.secrets("a") == running

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("what", sampled(OTHERS, 0, 1))
@pytest.mark.parametrize("is_wanted", [False, True])
def test_other_secrets_of_lost_seed_are_refused(what: str, is_wanted: bool) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before = await content(world)
            reported = (await world.shoot()).metadata.annotations[STATE_REVISION]
            await world.seeds["a"].power_off()
            await edit(world, what)
            await world.move("b")
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            with pytest.raises(TimeoutError):
                await world.healthy("b", seconds=600)
            [error] = (await world.shoot()).status.last_errors
            for name in OTHERS[what]:
                assert f"gardenlet.secrets[{name}]" in error.description
            assert f"kubectl annotate shoot apple -n {NAMESPACE} {SECRET_DIGESTS}-" in error.description
            assert not (await world.secrets("b")).keys() & set(OTHERS[what])
            # Its own claim is a later revision: reported, it would count as what the lost seed had stored.
            claimed = await world.client.get(ShootState.resource, "apple", NAMESPACE)
            assert int(claimed.metadata.annotations[STATE_REVISION]) > int(reported)
            assert (await world.shoot()).metadata.annotations[STATE_REVISION] == reported
            if is_wanted:
                await world.patch({"metadata": {"annotations": {SECRET_DIGESTS: None}}})
                before = await content(world)
            else:
                live = await world.client.get(ShootState.resource, "apple", NAMESPACE)
                stored = [{"name": name, "data": data} for name, data in before["secrets"].items()]
                await world.client.replace(ShootState.resource, {**live.tree, "gardenlet": {"secrets": stored}})
            await world.healthy("b", seconds=600)
            assert (await content(world))["secrets"] == before["secrets"]
            assert (await world.secrets("b")).items() >= before["secrets"].items()
            assert SECRET_DIGESTS in (await world.shoot()).metadata.annotations

    virtual.run(main, epoch=EPOCH, seed=1)


def test_shoot_state_of_a_later_epoch_stops_nothing() -> None:
    """No seed could restore it: it is reported while all is well, and a move waits for its remedy."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)

            async def annotate(epoch: str) -> None:
                patch = {"metadata": {"annotations": {EPOCH_OF_STATE: epoch}}}
                await world.client.patch(ShootState.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE)

            await annotate("99")
            await asyncio.sleep(180)
            ready = conditions.get((await world.shoot()).status.conditions, READY_FOR_DISASTER)
            assert ready is not None
            assert (ready.status, ready.reason) == ("False", "StateNotPersisted")
            remedy = f"metadata.annotations[{EPOCH_OF_STATE}] of the ShootState, was changed: restore it"
            assert remedy in ready.message
            await world.move("b")
            await asyncio.sleep(120)
            shoot = await world.shoot()
            assert shoot.status.seed_name == "a"
            assert any(remedy in error.description for error in shoot.status.last_errors)
            assert world.witness.serving == {ID: "a"}, "nothing was stopped"
            await annotate("1")
            await world.healthy("b", seconds=300)

    virtual.run(main, epoch=EPOCH, seed=1)


def test_older_shoot_state_gets_later_revision_again() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.2) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(180)
            patch = {"metadata": {"annotations": {STATE_REVISION: None}}}
            await world.client.patch(ShootState.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE)
            await asyncio.sleep(90)
            live = await world.client.get(ShootState.resource, "apple", NAMESPACE)
            reported = (await world.client.get(Shoot.resource, "apple", NAMESPACE)).metadata.annotations[STATE_REVISION]
            assert int(live.metadata.annotations[STATE_REVISION]) >= int(reported) > 1
            await world.move("b")
            await world.healthy("b", seconds=300)

    virtual.run(main, epoch=EPOCH, seed=1)
