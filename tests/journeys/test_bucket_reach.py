"""Does a destination's network reach the source's store? Each seed tries, says it, and shoots are judged by it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from espalier.api.core import NAMESPACE, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.gardener import names
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.controller_installation import ControllerInstallation
from espalier.api.gardener.garden.controller_registration import ControllerRegistration
from espalier.api.gardener.garden.seed import (
    BUCKET_REACHABLE,
    GARDENLET_READY,
    SHOOTS_REMOVED,
    SYSTEM_COMPONENTS_HEALTHY,
    Seed,
)
from espalier.api.gardener.garden.shoot import CONTROL_PLANE_HEALTHY, READY_FOR_DISASTER, Shoot
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.garden_objects import CLOUD_SECRET
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import quick_settings
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.cli.shoots.shoot_plan import Plan, observe
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.transports.wire import User
from espalier.runtime import virtual
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from tests.support.gardens.garden_users import PROJECT, GardenUser
from tests.support.gardens.gardens import EPOCH, GARDENLET, World, client_of, garden

BY_OTHERS = "BucketNotReachedByOthers"


def told(story: Callable[[GardenUser], Awaitable[None]], *seeds: str, care: float = 2, bucket_check: float = 8) -> None:
    """A garden with real agents, whose shoot `apple` is on the first seed."""
    settings = quick_settings(random_keys=False)
    settings = replace(settings, gardenlet=replace(settings.gardenlet, care=care, bucket_check=bucket_check))

    async def main(simulation: virtual.Simulation) -> None:
        async with Garden.run_with(simulation.clock, simulation.random, seeds, settings) as made:
            user = GardenUser(made)
            await user.create_shoot("apple", seeds[0])
            await user.until(lambda shoot: ready(shoot).status == "True")
            await story(user)

    virtual.run(main, epoch=EPOCH, seed=1)


def ready(shoot: Shoot) -> Condition:
    result = (condition for condition in shoot.status.conditions if condition.type == READY_FOR_DISASTER)
    return next(result, Condition(READY_FOR_DISASTER, ""))


async def says(user: GardenUser, seed: str) -> dict[str, tuple[str, str]]:
    """The seed's report about the stores of others, by their names."""
    conditions = (await user.client.get(Seed.resource, seed)).decode(Seed).status.conditions
    return {
        condition.type.removeprefix(BUCKET_REACHABLE): (condition.status, condition.reason)
        for condition in conditions
        if condition.type.startswith(BUCKET_REACHABLE)
    }


@pytest.mark.soak
def test_only_other_seed_cut_from_store_is_reported() -> None:
    async def story(user: GardenUser) -> None:
        reached = "the garden's credentials can read the bucket, and seed b reaches it"
        await user.until(lambda shoot: ready(shoot).message.endswith(reached), seconds=30)
        assert await says(user, "b") == {"a": ("True", "BucketReached")}
        user.garden.seeds["b"].links.bucket.cut()
        lost = ready(await user.until(lambda shoot: ready(shoot).status == "False", seconds=30))
        assert lost.reason == BY_OTHERS
        assert lost.message == "no other seed reaches its bucket: seed b: file:///: no route to host"
        assert await says(user, "b") == {"a": ("False", "BucketNotReached")}
        user.garden.seeds["b"].links.bucket.restore()
        await user.until(lambda shoot: ready(shoot).reason == "BackupsCurrent", seconds=30)
        assert await says(user, "b") == {"a": ("True", "BucketReached")}

    told(story, "a", "b")


@pytest.mark.soak
def test_moved_shoot_reports_its_present_bucket() -> None:
    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        await user.move("b")
        moved = await user.until(lambda shoot: shoot.status.seed_name == "b", every=0.05)
        assert (ready(moved).status, ready(moved).reason) == ("Unknown", ShootReason.HANDED_OVER)
        assert ready(moved).message == "seed b has the shoot now, and its gardenlet has not reported yet"
        await user.healthy("b")
        await user.until(lambda shoot: ready(shoot).message.endswith("seed a reaches it"), seconds=10)

    told(story, "a", "b", care=60, bucket_check=600)


@pytest.mark.soak
def test_shoot_cut_from_bucket_is_unready_for_disaster() -> None:
    def is_unhealthy(shoot: Shoot) -> bool:
        return any(
            condition.type == CONTROL_PLANE_HEALTHY and condition.status != "True"
            for condition in shoot.status.conditions
        )

    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        user.garden.seeds["a"].links.bucket.cut()
        await user.until(is_unhealthy, seconds=60)
        await user.until(lambda shoot: ready(shoot).status != "True", seconds=2)
        user.garden.seeds["a"].links.bucket.restore()
        await user.until(lambda shoot: ready(shoot).status == "True", seconds=120)

    told(story, "a", "b", care=60, bucket_check=600)


def test_single_reachable_seed_of_two_is_enough() -> None:
    async def story(user: GardenUser) -> None:
        await user.until(lambda shoot: ready(shoot).message.endswith("seeds b, c reach it"), seconds=30)
        user.garden.seeds["b"].links.bucket.cut()
        reachable = await user.until(lambda shoot: ready(shoot).message.endswith("seed c reaches it"), seconds=30)
        assert ready(reachable).status == "True"
        user.garden.seeds["c"].links.bucket.cut()
        lost = await user.until(lambda shoot: ready(shoot).status == "False", seconds=30)
        assert "seed b: file:///: no route to host; seed c: file:///: no route to host" in ready(lost).message
        await user.patch_seed("c", {"spec": {"taints": [{"key": "closed"}]}})
        await user.until(lambda shoot: "seed c" not in ready(shoot).message, seconds=30)
        await user.patch_seed("b", {"spec": {"taints": [{"key": "closed"}]}})
        alone = await user.until(lambda shoot: ready(shoot).status == "True", seconds=30)
        assert ready(alone).message.endswith("no other seed has tried to reach it")

    told(story, "a", "b", "c")


def test_false_bucket_address_is_not_connected_to() -> None:
    """A gardenlet writes spec and status of its BackupBucket."""
    theirs = "http://inside.of.b.example:8080"

    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        bucket = names.bucket((await user.client.get(Seed.resource, "a")).metadata.uid)
        await user.garden.kill("gardenlet a")
        liar = client_of(user.garden.server, "hostile", User(USER.format(seed="a"), (SEEDS, "system:authenticated")))
        config = {"url": "file:///etc", "endpoint": theirs, "more": "inside"}

        async def lie(part: str, body: Tree) -> None:
            patch = {part: body}
            sub = "status" if part == "status" else None
            await liar.patch(BackupBucket.resource, bucket, patch=patch, type=PatchType.MERGE, subresource=sub)

        await lie("spec", {"providerConfig": config})
        await lie("status", {"providerStatus": config})
        await user.move("b")
        to_source = Key(names.technical_id(PROJECT, "apple"), names.SOURCE_BACKUP_SECRET)
        seed, secret = user.garden.seeds["b"].client, None
        while secret is None:
            await asyncio.sleep(1)
            with suppress(NotFound):
                secret = await seed.get(SECRET, to_source.name, to_source.namespace)
        assert set(secret.tree["data"]) == {"account", "bucketName", "url"}
        assert base64.b64decode(secret.tree["data"]["url"]).decode() == f"file:///{bucket}"
        assert await says(user, "b") == {"a": ("True", "BucketReached")}
        assert "inside" not in str((await user.client.get(Seed.resource, "b")).tree)

    told(story, "a", "b")


@pytest.mark.soak
def test_endpoint_named_later_reaches_agents() -> None:
    named = "https://store.a.example"

    async def story(user: GardenUser) -> None:
        await user.patch_seed("a", {"spec": {"backup": {"providerConfig": {"endpoint": named}}}})
        await asyncio.sleep(20)
        secrets = await user.secrets("a")
        assert base64.b64decode(secrets[names.BACKUP_SECRET]["endpoint"]).decode() == named
        assert f"{named} answers" in str((await user.client.get(Seed.resource, "b")).tree)
        assert ready(await user.shoot()).message.endswith("seed b reaches it")
        elsewhere = {"stringData": {"endpoint": "https://another.example"}}
        await user.client.patch(SECRET, "backup-a", "garden", patch=elsewhere, type=PatchType.MERGE)
        reachable = await user.until(lambda shoot: "other seeds can't try it" in ready(shoot).message, seconds=30)
        assert ready(reachable).status == "True", "what others say is of another server"

    told(story, "a", "b")


def test_typo_in_endpoint_keeps_store_and_is_reported() -> None:
    named = "https://store.a.example"

    async def story(user: GardenUser) -> None:
        async def name(endpoint: str) -> None:
            await user.patch_seed("a", {"spec": {"backup": {"providerConfig": {"endpoint": endpoint}}}})

        await name(named)
        await user.until(lambda shoot: ready(shoot).message.endswith("seed b reaches it"), seconds=30)
        with pytest.raises(Forbidden, match=r"spec.backup.providerConfig.endpoint: found 'store.a.example'"):
            await name("store.a.example")
        await user.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await name("store.a.example")
        told = await user.until(lambda shoot: ready(shoot).status == "False", seconds=60)
        assert "spec.backup.providerConfig of Seed a: endpoint: " in ready(told).message
        secrets = await user.secrets("a")
        assert base64.b64decode(secrets[names.BACKUP_SECRET]["endpoint"]).decode() == named
        await name(named)
        await user.until(lambda shoot: ready(shoot).status == "True", seconds=60)

    told(story, "a", "b")


def written(world: World, agent: str = GARDENLET) -> int:
    """Writes of a program to Seeds of the garden."""
    requests = world.server.requests.items()
    return sum(
        count
        for (verb, resource, _, who), count in requests
        if verb == "patch" and resource == "seeds" and who == agent
    )


@pytest.mark.soak
def test_seeds_are_written_once_for_each_change() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a", "b", "c") as world:
            await asyncio.sleep(60)
            before = written(world)
            assert before <= 6, "one for each seed, and one more for each that was added after it"
            await asyncio.sleep(1300)
            await world.garden.restart("gardenlet a")
            await asyncio.sleep(1300)
            assert written(world) == before
            world.seeds["a"].links.bucket.cut()
            await asyncio.sleep(1300)
            assert written(world) == before + 1, "two stores are in one place"

    virtual.run(main, epoch=EPOCH, seed=1)


def test_conditions_of_a_deleted_seed_go_alone() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a", "b", "c") as world:
            await asyncio.sleep(60)
            foreign = {"type": "Foreign", "status": "True"}
            status = (await world.client.get(Seed.resource, "a")).tree["status"]
            await world.client.patch(
                Seed.resource,
                "a",
                patch={"status": {"conditions": [*status["conditions"], foreign]}},
                type=PatchType.MERGE,
                subresource="status",
            )
            await world.garden.kill("gardenlet c")
            await world.client.delete(Seed.resource, "c")
            await asyncio.sleep(60)
            conditions = (await world.client.get(Seed.resource, "a")).decode(Seed).status.conditions
            ours = {GARDENLET_READY, SHOOTS_REMOVED, SYSTEM_COMPONENTS_HEALTHY, BUCKET_REACHABLE + "b"}
            assert {item.type for item in conditions} == {*ours, "Foreign"}

    virtual.run(main, epoch=EPOCH, seed=1)


BACKUP = "backup-a"
"""The Secret of the garden with the credentials of seed a's bucket."""


NEEDED = (
    (BACKUP, names.GARDEN_NAMESPACE, "access to the source's backups"),
    ("backup-b", names.GARDEN_NAMESPACE, "access to its own backups"),
    (CLOUD_SECRET, f"garden-{PROJECT}", "the provider's credentials"),
)


@pytest.mark.parametrize(("name", "namespace", "what"), NEEDED)
def test_missing_secret_at_destination_stops_nothing(name: str, namespace: str, what: str) -> None:
    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        secret = await user.client.get(SECRET, name, namespace)
        for problem in ("is empty", "does not exist"):
            if problem == "is empty":
                await user.client.patch(SECRET, name, namespace, patch={"data": None}, type=PatchType.MERGE)
            else:
                await user.client.delete(SECRET, name, namespace)
            planned = Plan.of(await observe(user.client, Key(f"garden-{PROJECT}", "apple"), "b"))
            (finding,) = [finding for finding in planned.findings if finding.what == f"destination b gets {what}"]
            assert finding.ready is False
            assert f"Secret {namespace}/{name}" in finding.message
            assert problem in finding.message
        await asyncio.sleep(90)  # by then a seed has seen that its own one is gone
        await user.move("b")
        waiting = await user.until(lambda shoot: f"Secret {namespace}/{name}" in described(shoot), seconds=120)
        assert "does not exist; create it" in described(waiting)
        await asyncio.sleep(60)
        assert (await user.garden.shoot("shoot--dev--apple").list(NAMESPACE)).items, "its API is served"
        await user.client.create(
            SECRET, {"metadata": {"name": name, "namespace": namespace}, "data": secret.tree["data"]}
        )
        await user.healthy("b", seconds=300)

    told(story, "a", "b")


def test_move_waits_for_extensions_at_destination() -> None:
    resources = [{"kind": kind, "type": "local"} for kind in ("Infrastructure", "ControlPlane")]
    installation = garden_objects.installation("b")
    name = installation["metadata"]["name"]

    async def planned(user: GardenUser, kind: str) -> tuple[bool | None, str]:
        made = Plan.of(await observe(user.client, Key(f"garden-{PROJECT}", "apple"), "b"))
        what = f"destination b gets an extension for {kind} of type local"
        (finding,) = [finding for finding in made.findings if finding.what == what]
        return finding.ready, finding.message

    async def report(user: GardenUser, healthy: str) -> None:
        results = [
            {"type": "Installed", "status": "True", "reason": "X", "message": ""},
            {"type": "Healthy", "status": healthy, "reason": "X", "message": "no pods"},
        ]
        patch = {"status": {"conditions": results}}
        await user.client.patch(
            ControllerInstallation.resource, name, patch=patch, type=PatchType.MERGE, subresource="status"
        )

    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        patch = {"spec": {"resources": resources}}
        registration = garden_objects.REGISTRATION
        await user.client.patch(ControllerRegistration.resource, registration, patch=patch, type=PatchType.MERGE)
        await user.client.delete(ControllerInstallation.resource, name)
        missing = f"ControllerRegistration {registration} has no ControllerInstallation for this seed; install it there"
        assert (await planned(user, "Infrastructure"))[0] is False
        assert missing in (await planned(user, "Infrastructure"))[1]
        assert (await planned(user, "Worker"))[0] is None, "not registered"
        await user.move("b")
        await user.until(lambda shoot: "(ExtensionNotInstalled): seed b lacks" in described(shoot), seconds=120)
        await user.client.create(ControllerInstallation.resource, installation)
        await report(user, "False")
        unhealthy = f"ControllerInstallation {name}: condition Healthy: found False: no pods, allowed: True"
        await user.until(lambda shoot: unhealthy in described(shoot), seconds=120)
        await asyncio.sleep(60)
        assert (await user.garden.shoot("shoot--dev--apple").list(NAMESPACE)).items, "its API is served"
        await report(user, "True")
        assert (await planned(user, "ControlPlane"))[0] is True
        await user.healthy("b", seconds=300)

    told(story, "a", "b")


@pytest.mark.soak
def test_shoot_of_a_lost_seed_names_its_backup_secret() -> None:
    async def story(user: GardenUser) -> None:
        await user.healthy("a")
        secret = await user.client.get(SECRET, BACKUP, names.GARDEN_NAMESPACE)
        await user.client.delete(SECRET, BACKUP, names.GARDEN_NAMESPACE)
        await user.garden.seeds["a"].power_off()
        await user.move("b")
        await user.until(lambda shoot: f"Secret garden/{BACKUP} of the garden" in described(shoot))
        data = {"metadata": {"name": BACKUP, "namespace": names.GARDEN_NAMESPACE}, "data": secret.tree["data"]}
        await user.client.create(SECRET, data)
        await user.healthy("b")

    told(story, "a", "b")


def described(shoot: Shoot) -> str:
    last = shoot.status.last_operation
    return last.description if last is not None else ""
