"""Problems that operators of a garden meet: each has a way out, and a condition names it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest

from espalier.api import core
from espalier.api.cloud import CloudRequest, Create, Delete, Refusal
from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.project import Project
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import READY_FOR_DISASTER, Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary.metadata_keys import CONFIRM_DELETION, FORCE_RESTORE, OPERATION
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import quick_settings
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime import virtual
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.simulator.cloud.service import Fault
from tests.support.gardens.clouds import refuse
from tests.support.gardens.garden_commands import GardenCommands
from tests.support.gardens.garden_users import PROJECT, GardenUser
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

OVERLAPPING = {"spec": {"networks": {"pods": "10.0.0.0/16", "services": "100.64.0.0/13"}}}
"""Of a seed: the shoots that tests make have pods there."""


def tell(story: Callable[[World], Awaitable[None]], *seeds: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, *seeds) as world:
            await story(world)

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_new_shoot_gets_another_seed_after_a_failure() -> None:
    async def story(world: World) -> None:
        await world.patch_seed("a", OVERLAPPING)
        await world.create_shoot(seed=None)
        await world.healthy("b", seconds=300)

    tell(story)


@pytest.mark.soak
def test_shoot_deleted_with_lost_seed_moves_to_delete() -> None:
    """Its gardenlet is to delete it, and never will; another one can, once it has the shoot."""

    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(2 * world.config.monitor_period)  # by then the garden has seen that the seed lives
        await world.client.delete(Shoot.resource, "apple", NAMESPACE)
        with pytest.raises(Forbidden, match="can move only if its seed is lost"):
            await world.move("b")
        await world.garden.seeds["a"].power_off()
        await asyncio.sleep(60)
        await world.move("b")
        await asyncio.sleep(world.config.give_up_after + 1800)
        assert (await world.client.list(Shoot.resource, NAMESPACE)).items == []
        assert await world.left("b") == []

    tell(story)


def test_commands_name_the_existing_seeds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        espalier = GardenCommands(world.client, monkeypatch, capsys)
        lines = (
            ("shoots", "migrate", "apple", "-n", NAMESPACE, "--to", "mars"),
            ("shoots", "plan", "apple", "-n", NAMESPACE, "--to", "mars"),
            ("shoots", "list", "-A", "--seed", "mars"),
            ("seeds", "evacuate", "mars"),
        )
        for line in lines:
            assert (await espalier(*line)).complaint == "there is no seed 'mars'; existing: a, b", line

    tell(story)


def test_seed_deleted_past_admission_loses_no_etcd(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        main = world.seeds["a"].client.get
        before = (await main(Etcd.resource, "etcd-main", "shoot--dev--apple")).tree["spec"]
        assert before["backup"]["store"]["provider"]
        with pytest.raises(ApiError, match=r"Seed a can't be deleted: .*garden-dev/apple"):
            await world.client.delete(Seed.resource, "a")
        await world.client.delete(core.VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.client.delete(Seed.resource, "a")
        await asyncio.sleep(60)
        await world.patch({"metadata": {"annotations": {"gardener.cloud/operation": "reconcile"}}})
        await asyncio.sleep(60)
        assert (await main(Etcd.resource, "etcd-main", "shoot--dev--apple")).tree["spec"] == before
        readiness = {condition.type: condition for condition in (await world.shoot()).status.conditions}[
            READY_FOR_DISASTER
        ]
        assert (readiness.status, readiness.reason) == ("False", "SeedMissing")
        assert readiness.message.startswith("there is no Seed a any more")
        espalier = GardenCommands(world.client, monkeypatch, capsys)
        assert (await espalier("seeds", "evacuate", "a")).complaint.endswith("seed a has no shoots left\n")
        await world.healthy("b")
        assert (await espalier("seeds", "evacuate", "a")).complaint == "there is no seed 'a'; existing: b"

    tell(story)


def test_seed_is_deleted_once_moved_shoots_are_gone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its gardenlet loses its rights with the Seed, and could never remove them."""

    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(30)
        await world.seeds["a"].power_off()
        await world.move("b")
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
        await world.healthy("b")
        await asyncio.sleep(60)
        espalier = GardenCommands(world.client, monkeypatch, capsys)
        evacuated = (await espalier("seeds", "evacuate", "a")).complaint
        assert "seed a has no shoots left\n" in evacuated
        why = "its gardenlet is silent, and may not have removed what shoots garden-dev/apple left"
        refusal = f"Seed a can't be deleted: {why}"
        assert refusal in evacuated.replace("\n", " ")
        with pytest.raises(ApiError, match=refusal):
            await world.client.delete(Seed.resource, "a")
        world.seeds["a"].links.bucket.cut()
        world.seeds["a"].troubles.stuck.add("Worker")  # so that it can't finish
        await world.seeds["a"].power_on()
        await asyncio.sleep(90)
        with pytest.raises(ApiError, match=r"to be removed from this seed: shoot--dev--apple \(now in seed b\)"):
            await world.client.delete(Seed.resource, "a")
        world.seeds["a"].troubles.stuck.clear()
        await world.gone("a", seconds=300)
        await asyncio.sleep(10)
        assert (await espalier("seeds", "evacuate", "a")).complaint.endswith("seed a has no shoots left\n")
        await world.client.delete(Seed.resource, "a")

    tell(story)


def test_a_lost_seed_is_deleted_with_consent() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.seeds["a"].power_off()
        await world.move("b")
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
        await world.healthy("b")
        await asyncio.sleep(60)
        with pytest.raises(ApiError, match=r"kubectl annotate seed a confirmation.gardener.cloud/deletion=true"):
            await world.client.delete(Seed.resource, "a")
        await world.patch_seed("a", {"metadata": {"annotations": {CONFIRM_DELETION: "true"}}})
        await world.client.delete(Seed.resource, "a")
        await world.healthy("b", seconds=1)

    tell(story)


@pytest.mark.parametrize("edited", ["status", "annotation"])
def test_edited_uid_is_named_with_remedy_that_works(edited: str) -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        uid = (await world.healthy("a")).status.uid
        seed, at = world.seeds["a"].client, names.technical_id(PROJECT, "apple")

        async def write(value: str) -> None:
            if edited == "status":
                patch: dict[str, Any] = {"status": {"uid": value}}
                await world.client.patch(
                    Shoot.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE, subresource="status"
                )
            else:
                patch = {"metadata": {"annotations": {SHOOT_UID: value}}}
                await seed.patch(core.NAMESPACE, at, patch=patch, type=PatchType.MERGE)

        await write("wrong")
        told = await world.until(lambda shoot: bool(shoot.status.last_errors), seconds=120)
        condition = told.status.last_errors[0].description
        assert condition.startswith("status.uid: found ")
        assert "is the UID of no other Shoot" in condition
        remedy = f'{{"status":{{"uid":"{uid}"}}}}' if edited == "status" else f"namespace {at} {SHOOT_UID}={uid}"
        assert remedy in condition
        await write(uid)
        await world.until(lambda shoot: not shoot.status.last_errors, seconds=120)
        await world.healthy("a", seconds=60)

    tell(story)


def test_wrong_state_is_reported_until_corrected() -> None:
    """With real extensions: one that fails in the same way again and again says so once."""

    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ("a", "b"), settings) as made:
            user = GardenUser(made)
            await user.create_shoot("apple", "a")
            await user.healthy("a")
            await made.seeds["a"].power_off()
            good = await replaced_states(user, {"Infrastructure": {"networkID": 5}})
            await user.move("b")
            await user.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            wrong = "Infrastructure apple: status.state: Expected `str`, got `object`; allowed: state that this"
            told = await user.until(lambda shoot: wrong in str(shoot.status.last_errors), seconds=120)
            await asyncio.sleep(5)
            at = (Infrastructure.resource, "apple", told.status.technical_id)
            before = await made.seeds["b"].client.get(*at)
            await asyncio.sleep(180)
            assert (await made.seeds["b"].client.get(*at)).resource_version == before.resource_version
            assert wrong in (await user.shoot()).status.last_errors[0].description
            await replaced_states(user, good)
            await user.patch({"metadata": {"annotations": {"gardener.cloud/operation": "retry"}}})
            await user.healthy("b", seconds=60)
            assert "status.state" not in str((await made.seeds["b"].client.get(*at)).tree["status"].get("lastError"))
            assert len(made.cloud.inventory.all("Network")) == 1

    virtual.run(main, epoch=EPOCH, seed=1)


async def replaced_states(user: GardenUser, states: dict[str, Any]) -> dict[str, Any]:
    """Write states of extensions into the ShootState by hand, by kind; gives those that it had."""
    tree = (await user.client.get(ShootState.resource, "apple", NAMESPACE)).tree
    before = {extension["kind"]: extension["state"] for extension in tree["extensions"]}
    for item in tree["extensions"]:
        item["state"] = states.get(item["kind"], item["state"])
    await user.client.replace(ShootState.resource, tree)
    return before


def test_seed_without_a_gardenlet_has_not_stopped() -> None:
    async def story(world: World) -> None:
        spec = (await world.client.get(Seed.resource, "a")).tree["spec"]
        await world.client.create(Seed.resource, {"metadata": {"name": "typo"}, "spec": spec})
        await asyncio.sleep(60)
        (condition,) = (await world.client.get(Seed.resource, "typo")).decode(Seed).status.conditions
        assert condition.message == "its gardenlet has never created Lease typo: check whether it runs"

    tell(story)


def test_moving_shoot_is_listed_with_both_seeds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        espalier, there = GardenCommands(world.client, monkeypatch, capsys), ("apple", "-n", NAMESPACE)
        late = await espalier("shoots", "migrate", *there, "--to", "b", "--timeout", "0s")
        assert late.complaint == "--timeout: found 0s, allowed: more than 0s, like 5m"
        planned = await espalier("shoots", "plan", *there, "--to", "a")
        assert (planned.code, planned.output) == (1, "")
        assert "--to: found a, where shoot garden-dev/apple already is" in planned.complaint
        assert (await world.shoot()).spec.seed_name == "a"
        await world.move("b")
        listed = await espalier("shoots", "list", "-n", NAMESPACE)
        assert listed.output.splitlines()[1].split()[1:5] == ["apple", "a", "->", "b"]
        await world.healthy("b")
        listed = await espalier("shoots", "list", "-n", NAMESPACE)
        assert listed.output.splitlines()[1].split()[:4] == ["garden-dev", "apple", "b", "Restore"]
        assert (await espalier("shoots", "list", "-n", "other")).complaint == "No shoots found in namespace other.\n"

    tell(story)


@dataclass(frozen=True)
class Moment:
    """Of a deletion, at which its seed is lost."""

    name: str
    is_reached: Callable[[Garden, list[Object]], bool]
    """Given the garden's BackupEntries."""
    hinder: Callable[[Garden], None] = lambda _garden: None
    """Keeps it from going on."""


def keeps_network(garden: Garden) -> None:
    """So what is left can only be deleted after it was restored; and by then there is no etcd to restore."""

    def fault(request: CloudRequest) -> Fault | None:
        is_meant = isinstance(request.call, Delete) and request.call.kind == "Network"
        return refuse(Refusal.UNAVAILABLE, "later")(request) if is_meant else None

    garden.cloud.faults = fault


MOMENTS = (
    Moment("its machines are gone", lambda garden, _: not garden.cloud.inventory.all("VirtualMachine")),
    Moment("its network is gone", lambda garden, _: not garden.cloud.inventory.all("Network")),
    Moment(
        "its backups are being deleted",
        lambda _, entries: any(entry.metadata.deletion_timestamp for entry in entries),
        lambda garden: garden.seeds["a"].links.bucket.cut(),
    ),
    Moment("its backups are gone", lambda _, entries: not entries, keeps_network),
)


@pytest.mark.often("backups are gone")
@pytest.mark.parametrize("moment", MOMENTS, ids=lambda item: item.name)
def test_half_deleted_shoot_is_deleted_by_next_seed(moment: Moment) -> None:
    """With real agents and extensions: the next seed neither waits for what the first one has deleted, nor creates
    it."""

    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ("a", "b"), settings) as made:
            user = GardenUser(made)
            await user.create_shoot("apple", "a")
            await user.healthy("a")
            await asyncio.sleep(5)  # by then the garden has seen that the seed lives
            moment.hinder(made)
            await user.client.delete(Shoot.resource, "apple", NAMESPACE)
            async with asyncio.timeout(60):
                result = await entries(user)
                while not moment.is_reached(made, result):
                    await asyncio.sleep(0.05)
                    result = await entries(user)
            await made.seeds["a"].power_off()
            made.cloud.faults = lambda _request: None
            created = len(creations(made))
            await asyncio.sleep(30)  # by then it has seen that it does not
            await user.move("b")
            await deleted(user)
            assert await user.left("b") == []
            assert await entries(user) == []
            assert creations(made)[created:] == []
            assert made.cloud.inventory.all("VirtualMachine") + made.cloud.inventory.all("Network") == []

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_shoot_without_seed_goes_after_backup_entry() -> None:
    """Its etcd can't be restored, and need not be: a person who knows that there are no backups says so."""

    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ("a", "b"), settings) as made:
            user = GardenUser(made)
            await user.create_shoot("apple", "a")
            await user.healthy("a")
            await made.seeds["a"].power_off()
            stores = made.control_planes.stores(made.seeds["b"].links.bucket)
            await stores.delete_bucket("file://", {})
            await user.client.delete(Shoot.resource, "apple", NAMESPACE)
            await asyncio.sleep(30)  # by then the garden has seen that the seed is lost
            await user.move("b")
            told = await user.until(lambda shoot: "no first-start marker" in str(shoot.status), seconds=300)
            assert told.status.last_operation is not None
            assert "delete BackupEntry" in told.status.last_operation.description
            (entry,) = [entry for entry in await entries(user) if not names.is_source_backup_entry(entry.name)]
            await user.client.delete(BackupEntry.resource, entry.name, NAMESPACE)
            await deleted(user)
            assert await user.left("b") == []
            assert await entries(user) == []
            assert made.cloud.inventory.all("VirtualMachine") + made.cloud.inventory.all("Network") == []

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_lost_destination_leaves_source_entry_to_next() -> None:
    """The next one needs an entry of that name, and the finalizer is of a gardenlet that is gone."""

    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.move("b")
        async with asyncio.timeout(300):
            results: list[Object] = []
            while not any(item.metadata.deletion_timestamp for item in results):
                await asyncio.sleep(0.05)
                results = (await world.client.list(BackupEntry.resource, NAMESPACE)).items
        await world.seeds["b"].power_off()
        await asyncio.sleep(120)
        await world.move("c")
        await world.healthy("c", seconds=3600)
        (entry,) = (await world.client.list(BackupEntry.resource, NAMESPACE)).items
        assert not names.is_source_backup_entry(entry.name)

    tell(story, "a", "b", "c")


@pytest.mark.parametrize("way_out", sampled(["migrate", "move"], 1))
def test_infrastructure_deleted_in_a_seed_is_released(way_out: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ("a", "b"), settings) as made:
            user = GardenUser(made)
            await user.create_shoot("apple", "a")
            await user.healthy("a")
            created, seed = len(creations(made)), made.seeds["a"].client
            at = ("apple", names.technical_id(PROJECT, "apple"))
            confirmed = {"metadata": {"annotations": {CONFIRM_DELETION: "true"}}}
            await seed.patch(Infrastructure.resource, *at, patch=confirmed, type=PatchType.MERGE)
            await seed.delete(Infrastructure.resource, *at)
            told = await user.until(lambda shoot: "is used by" in str(shoot.status.last_operation), seconds=60)
            assert "Infrastructure apple is being deleted" in str(told.status.last_operation)
            if way_out == "migrate":
                order = {"metadata": {"annotations": {OPERATION: "migrate"}}}
                await seed.patch(Infrastructure.resource, *at, patch=order, type=PatchType.MERGE)
                await user.healthy("a", seconds=60)
                assert (await seed.get(Infrastructure.resource, *at)).metadata.deletion_timestamp is None
            await user.move("b")
            await user.healthy("b", seconds=600)
            assert creations(made)[created:] == []

    virtual.run(main, epoch=EPOCH, seed=1)


async def deleted(user: GardenUser, seconds: float = 300) -> None:
    """Wait until the Shoot is gone; raises with what it says if it never is."""
    with suppress(NotFound):
        await user.until(lambda _shoot: False, seconds=seconds)


async def entries(user: GardenUser) -> list[Object]:
    return (await user.client.list(BackupEntry.resource, NAMESPACE)).items


def creations(made: Garden) -> list[str]:
    """The resources created in the cloud."""
    return [str(write) for write in made.cloud.log.writes() if isinstance(write.call, Create)]


def test_shoot_of_a_lost_project_waits_and_goes_on() -> None:
    """The Shoot does not change by any of it, and must not wait for the resync."""
    fruit = {"metadata": {"name": "fruit"}, "spec": {"namespace": NAMESPACE}}

    async def story(world: World) -> None:
        await world.client.delete(Project.resource, "dev")
        await world.client.create(Project.resource, fruit)
        await world.create_shoot()
        await world.healthy("a")
        await world.client.delete(Project.resource, "fruit")
        told = await world.until(lambda shoot: bool(shoot.status.last_errors), seconds=60)
        assert "or restore the Project" in told.status.last_errors[0].description
        await asyncio.sleep(600)
        assert not await is_leased(world, "a")
        await world.client.create(Project.resource, fruit)
        await world.healthy("a", seconds=60)
        for _ in range(10):
            await asyncio.sleep(60)
            assert await is_leased(world, "a")

    tell(story, "a")


async def is_leased(world: World, seed: str) -> bool:
    """True if extensions of the seed may act for its shoot."""
    (cluster,) = (await world.seeds[seed].client.list(Cluster.resource)).items
    return cluster.decode(Cluster).spec.lease_expiration > world.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_shoot_never_created_on_lost_seed_is_deleted() -> None:
    """It has no state with which another seed could delete it: docs/migration.md says which finalizers to remove."""

    def nothing_new(request: CloudRequest) -> Fault | None:
        return refuse(Refusal.UNAVAILABLE, "later")(request) if isinstance(request.call, Create) else None

    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ("a", "b"), settings) as made:
            user = GardenUser(made)
            made.cloud.faults = nothing_new
            await user.create_shoot("apple", "a")
            await user.until(lambda shoot: "the cloud refused" in str(shoot.status.last_operation))
            await made.seeds["a"].power_off()
            await asyncio.sleep(60)
            await user.client.delete(Shoot.resource, "apple", NAMESPACE)
            with pytest.raises(Forbidden, match="the shoot can move only after its creation has succeeded"):
                await user.move("b")
            (entry,) = await entries(user)
            for resource, name in (
                (Shoot.resource, "apple"),
                (ShootState.resource, "apple"),
                (BackupEntry.resource, entry.name),
            ):
                without = {"metadata": {"finalizers": None}}
                await user.client.patch(resource, name, NAMESPACE, patch=without, type=PatchType.MERGE)
            await asyncio.sleep(60)
            for resource in (Shoot.resource, ShootState.resource, BackupEntry.resource):
                assert (await user.client.list(resource, NAMESPACE)).items == []
            made.cloud.faults = lambda _request: None
            await user.create_shoot("apple", "b")
            await user.healthy("b")

    virtual.run(main, epoch=EPOCH, seed=1)
