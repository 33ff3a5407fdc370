"""Control plane migration on simulated seeds: the good case, the bad case, and back again."""

from __future__ import annotations

import asyncio
import base64
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import pytest
from structlog.testing import capture_logs

from espalier.api import core
from espalier.api.core import VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.gardener import GARDEN_KINDS, names, ownership
from espalier.api.gardener.extensions import leases
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import API_SERVER_AVAILABLE, Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, ServerFailure
from espalier.kube.transports.wire import Request, Response, Transport, User
from espalier.runtime import virtual
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens.gardens import EPOCH, GARDEN, GARDENLET, NAMESPACE, World, client_of, garden
from tests.support.sampling import sampled
from tests.support.servers.faults import Interceptor, refusal

T = TypeVar("T")


def told(story: Callable[[World], Awaitable[T]], *seeds: str) -> T:
    async def main(simulation: virtual.Simulation) -> T:
        async with garden(simulation, *seeds) as world:
            return await story(world)

    return virtual.run(main, epoch=EPOCH, seed=1)


def test_a_shoot_is_created_and_settles() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")

    told(story)


@pytest.mark.demand(
    "G1",
    "G6",
    "G7",
    "G29",
    "G34",
    "G41",
    "G42",
    "G61",
    G38="one that was deleted without it would be deleted in the infrastructure",
    G39="never two: its witness",
)
def test_a_shoot_moves_and_nothing_is_made_anew() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        before = await world.secrets("a")
        creates = world.infrastructures.count("create")
        await world.move("b")
        await world.healthy("b")
        after = await world.secrets("b")
        assert {name: before[name] for name in secret_names.PERSISTED} == {
            name: after[name] for name in secret_names.PERSISTED
        }
        assert before["kube-scheduler"] != after["kube-scheduler"]
        state = (await world.client.get(ShootState.resource, "apple", NAMESPACE)).decode(ShootState)
        assert sorted(secret.name for secret in state.gardenlet.secrets) == sorted(secret_names.PERSISTED)
        assert world.infrastructures.count("create") == creates
        assert world.infrastructures.count("delete") == 0
        await world.gone("a")
        assert names.SOURCE_BACKUP_SECRET not in after
        [entry] = (await world.client.list(BackupEntry.resource)).items
        assert not names.is_source_backup_entry(entry.name)

    told(story)


def last_of(shoot: Shoot) -> tuple[str, str]:
    last = shoot.status.last_operation
    return (last.type, last.state) if last is not None else ("", "")


def epochs(shoot: Shoot) -> list[tuple[str, bool]]:
    result = ownership.parse(shoot.metadata.annotations[metadata_keys.OWNERSHIP])
    return [(epoch.seed, epoch.started) for epoch in result.epochs]


def serving(world: World) -> list[tuple[str, bool]]:
    return [(seed, begins) for _, _, seed, begins in world.witness.history]


@pytest.mark.demand("G32")
def test_a_settled_shoot_makes_no_write_but_leases() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(60)
        writes = written(world)
        await asyncio.sleep(1800)
        await world.garden.restart("gardenlet a")
        await world.garden.restart("garden")
        await asyncio.sleep(1800)
        assert {key for key in written(world) - writes if key[:2] != ("patch", "leases")} == {
            ("patch", "clusters", "", GARDENLET)
        }

    told(story)


def test_settled_shoot_renews_leases_as_docs_say() -> None:
    """Of all programs: gardenlets, extensions and the garden."""
    minutes, figures = 20, (Path(__file__).parents[2] / "docs" / "figures.md").read_text()

    def counted(world: World) -> Counter[tuple[str, str, str, str]]:
        servers = (world.server, *(seed.server for seed in world.seeds.values()))
        total = sum((Counter(server.requests) for server in servers), Counter[tuple[str, str, str, str]]())
        return Counter({key: count for key, count in total.items() if key[0] not in ("get", "list", "watch")})

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(120)
            before = counted(world)
            await asyncio.sleep(minutes * 60)
            writes = counted(world) - before
            heartbeats = writes.pop(("patch", "leases", "", GARDENLET))
            renewals = writes.pop(("patch", "clusters", "", GARDENLET))
            assert writes == {}
            hourly = (heartbeats // len(world.seeds) + 200 * renewals) * 60 // minutes
            assert f"a gardenlet with 200 settled shoots, an hour | 0 writes except leases ({hourly:,})" in figures

    virtual.run(main, epoch=EPOCH, seed=1)


def written(world: World) -> Counter[tuple[str, str, str, str]]:
    result: Counter[tuple[str, str, str, str]] = Counter()
    for server in (world.server, *(seed.server for seed in world.seeds.values())):
        for key, count in server.requests.items():
            if key[0] not in ("get", "list", "watch") and key[3] in (GARDENLET, GARDEN):
                result[key] += count
    return result


@pytest.mark.demand("G35", "G75", "G76", "G77")
def test_lease_is_renewed_until_move_is_requested() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        for _ in range(120):
            await asyncio.sleep(5)
            assert await lease(world, "a") > 60
        world.seeds["b"].links.garden.cut()
        await asyncio.sleep(60)  # b is not ready any longer
        await world.move("b")
        await asyncio.sleep(60)
        asked = await expires(world, "a")
        await asyncio.sleep(60)
        assert await expires(world, "a") == asked
        assert last_of(await world.shoot()) == ("Migrate", "Pending")
        assert world.witness.serving  # nothing is stopped before the destination is ready
        constraint = (await world.shoot()).status.constraints[0]
        assert (constraint.type, constraint.status, constraint.reason) == (
            "ReadyForMigration",
            "False",
            "DestinationSeedUnready",
        )
        world.restore_links()
        await world.healthy("b")

    told(story)


async def expires(world: World, seed: str) -> datetime:
    cluster = await world.seeds[seed].client.get(Cluster.resource, "shoot--dev--apple")
    moment = leases.expiration(cluster.decode(Cluster))
    assert moment is not None
    return moment


async def lease(world: World, seed: str) -> float:
    return (await expires(world, seed) - world.now()).total_seconds()


@pytest.mark.soak
def test_quick_reconciles_renew_the_lease_once() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(60)
        before = written(world)
        for number in range(20):
            await world.patch({"metadata": {"annotations": {"number": f"{number}"}}})
            await asyncio.sleep(0.1)
        assert (written(world) - before)["patch", "clusters", "", GARDENLET] <= 2

    told(story)


@pytest.mark.demand("G77")
def test_gardenlet_without_garden_lets_lease_expire() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].links.garden.cut()
        await asyncio.sleep(world.timing.lease_validity + 1)
        assert await lease(world, "a") < 0
        world.restore_links()
        await asyncio.sleep(world.timing.lease_renewal + 1)
        assert await lease(world, "a") > 0

    told(story)


@pytest.mark.demand("G2", "G17", G40="the source's API is away", G43="dead")
def test_dead_source_is_given_up_after_the_grace() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        creates = world.infrastructures.count("create")
        await world.seeds["a"].power_off()
        await asyncio.sleep(100)
        await world.move("b")
        await asyncio.sleep(world.config.give_up_after - 130)
        assert (await world.shoot()).status.seed_name == "a"
        moved = await world.healthy("b")
        assert epochs(moved) == [("a", True), ("b", True)]
        assert world.infrastructures.count("create") == creates
        assert serving(world) == [("a", True), ("a", False), ("b", True)]

    told(story)


@pytest.mark.demand("G62", G43="cut from the garden")
def test_bad_case_waits_for_the_lease_of_the_source() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].links.garden.cut()
        await asyncio.sleep(60)
        await world.move("b")
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
        await world.until(lambda shoot: last_of(shoot) == ("Restore", "Processing"))
        begun = asyncio.get_running_loop().time()
        await asyncio.sleep(world.timing.lease_wait - 60)
        await world.garden.restart("gardenlet b")  # begins the wait anew: nobody knows how long it was
        anew = asyncio.get_running_loop().time()
        await world.healthy("b")
        started = next(at for at, _, seed, begins in world.witness.history if seed == "b" and begins)
        calls = [at for at, seed, _, _, _ in world.infrastructures.log if seed == "b"]
        assert started >= anew + world.timing.lease_wait > begun + world.timing.lease_wait
        assert min(calls) >= anew + world.timing.lease_wait
        assert FORCE_RESTORE not in (await world.shoot()).metadata.annotations

    told(story)


@pytest.mark.demand("G5", "G81")
def test_returning_source_cleans_up_without_provider() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.seeds["a"].power_off()
        await world.move("b")
        await world.healthy("b")
        inventory, calls = dict(world.infrastructures.inventory), world.infrastructures.log
        before = len([call for call in calls if call[1] == "a"])
        await world.seeds["a"].power_on()
        await world.gone("a")
        assert len([call for call in calls if call[1] == "a"]) == before
        assert world.infrastructures.inventory == inventory
        await world.healthy("b")
        await world.move("a")
        await world.healthy("a")
        await world.gone("b")
        assert world.infrastructures.inventory == inventory

    told(story)


@pytest.mark.demand(G5="a Seed that is deleted and registered again (twenty shoots in `make soak`)")
@pytest.mark.parametrize("count", sampled([1, 20], 0))
def test_emptied_seed_registers_anew_and_gets_shoots(count: int) -> None:
    async def story(world: World) -> None:
        shoots = [f"shoot-{number}" for number in range(count)]

        async def all_on(seed: str) -> None:
            for name in shoots:
                await world.healthy(seed, name, seconds=3600)

        for name in shoots:
            await world.create_shoot(name, "a")
        await all_on("a")
        inventory, buckets = dict(world.infrastructures.inventory), dict(world.buckets.data)
        for destination, source in (("b", "a"), ("a", "b")):
            for name in shoots:
                await world.move(destination, name)
            await all_on(destination)
            for name in shoots:
                await world.gone(source, name)
            if source == "a":
                before = (await world.client.get(Seed.resource, "a")).metadata.uid
                await world.client.delete(Seed.resource, "a")
                await world.garden.add_seed("a")
                assert (await world.client.get(Seed.resource, "a")).metadata.uid != before
                await asyncio.sleep(world.config.heartbeat_grace)
        assert world.infrastructures.inventory == inventory
        assert world.witness.serving == {f"shoot--dev--{name}": "a" for name in shoots}
        assert buckets.items() <= world.buckets.data.items(), "with what was left in the first bucket"

    told(story)


@pytest.mark.demand(G18="a search of the garden's objects, events and logs of two moves, not of seeds")
def test_keys_of_a_shoot_are_in_its_state_only() -> None:
    """G18: in a whole life, with a move and a source that is given up."""

    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        hidden = await keys_and_tokens(world, "a")
        await world.move("b")
        await world.healthy("b")
        hidden |= await keys_and_tokens(world, "b")
        await world.seeds["b"].power_off()
        await world.move("a")
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
        await world.healthy("a")
        assert len(hidden) > 2 * len(secret_names.PERSISTED)
        kinds = [kind.resource for kind in GARDEN_KINDS if kind.resource != ShootState.resource]
        shown = [*kinds, core.CORE_EVENT, core.LEASE, core.CONFIG_MAP, core.ROLE, core.CLUSTER_ROLE]
        texts = {str(element): [item.raw for item in (await world.client.list(element)).items] for element in shown}
        texts["logs"] = [str(entry).encode() for entry in logged]
        assert all(texts[str(item)] for item in (Shoot.resource, core.LEASE)), "there is something to look at"
        results = {where for where, raw in texts.items() for text in raw for value in hidden if value in text}
        assert results == set()
        state = await world.client.get(ShootState.resource, "apple", NAMESPACE)
        assert any(value in state.raw for value in hidden), "as the search would find them"

    with capture_logs() as logged:
        told(story)


async def keys_and_tokens(world: World, seed: str) -> set[bytes]:
    """The private contents of the shoot's Secrets in a seed, plain and as Secrets encode them."""
    values = [value for data in (await world.secrets(seed)).values() for value in data.values()]
    private = [value for value in values if not base64.b64decode(value).startswith(b"-----BEGIN CERTIFICATE")]
    plain = {line for value in private for line in base64.b64decode(value).splitlines() if len(line) > 24}
    return {*map(str.encode, private), *plain} - {b"-----BEGIN EC PRIVATE KEY-----", b"-----BEGIN RSA PRIVATE KEY-----"}


@pytest.mark.demand(G43="never a source that is slow")
@pytest.mark.soak
def test_a_seed_that_is_merely_slow_is_not_given_up() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].troubles.stuck.add("Infrastructure")
        await world.move("b")
        await asyncio.sleep(3 * world.config.give_up_after)
        assert (await world.shoot()).status.seed_name == "a"
        assert last_of(await world.shoot())[0] == "Migrate"
        world.seeds["a"].troubles.stuck.clear()
        await world.healthy("b")

    told(story)


@pytest.mark.soak
def test_outage_of_garden_is_no_silence_of_seeds() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].troubles.stuck.add("Infrastructure")
        await world.move("b")
        await asyncio.sleep(30)
        for seed in world.seeds.values():
            seed.links.garden.cut()
        await world.garden.kill("garden")
        await asyncio.sleep(2 * world.config.give_up_after)
        world.garden.run_garden()
        await asyncio.sleep(20)
        world.restore_links()
        await asyncio.sleep(200)
        assert (await world.shoot()).status.seed_name == "a"

    told(story)


@pytest.mark.soak
@pytest.mark.parametrize("link", sampled(["garden", "seed"], 1))
def test_shoots_of_a_silent_seed_are_unknown(link: str) -> None:
    async def story(world: World) -> None:
        async def state() -> tuple[str, str | None]:
            shoot = await world.shoot()
            first = next(condition for condition in shoot.status.conditions if condition.type == API_SERVER_AVAILABLE)
            return first.status, shoot.metadata.resource_version

        await world.create_shoot()
        await world.healthy("a")
        await asyncio.sleep(30)
        assert (await state())[0] == "True"
        getattr(world.seeds["a"].links, link).cut()
        await asyncio.sleep(2 * world.config.heartbeat_grace)
        silent = await state()
        assert silent[0] == "Unknown"
        await asyncio.sleep(90)
        assert await state() == silent, "garden and gardenlet do not write in turns"
        world.restore_links()
        await asyncio.sleep(60)
        assert (await state())[0] == "True"

    told(story)


@pytest.mark.demand("G80")
def test_gardenlet_without_its_seed_begins_nothing() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].links.seed.cut()
        await world.move("b")
        shoot = await world.until(lambda shoot: bool(shoot.status.last_errors))
        assert last_of(shoot) == ("Migrate", "Error")
        assert "the Cluster can't be read or written in the seed" in shoot.status.last_errors[0].description
        assert world.witness.serving == {"shoot--dev--apple": "a"}
        world.restore_links()
        await world.healthy("b")

    told(story)


@pytest.mark.demand(G43="cut from its own API")
@pytest.mark.soak
def test_seed_cut_from_gardenlet_is_given_up() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        inventory = dict(world.infrastructures.inventory)
        world.seeds["a"].links.seed.cut()
        await world.move("b")
        await world.healthy("b")
        assert serving(world) == [("a", True), ("a", False), ("b", True)]
        world.restore_links()
        await world.gone("a")
        assert world.infrastructures.inventory == inventory

    told(story)


@pytest.mark.demand(
    G67="without `Ready`, it waits up to `copyTimeout`, and the namespace stays until the next seed has started"
)
@pytest.mark.soak
def test_source_without_its_bucket_hands_over_in_time() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["a"].links.bucket.cut()
        await world.move("b")
        await world.healthy("b", seconds=2 * world.timing.copy_timeout)
        await world.gone("a")

    told(story)


@pytest.mark.demand("G24", G30="a destination generates none")
def test_shoot_of_which_state_is_lost_is_not_made_anew() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        creates = world.infrastructures.count("create")
        await world.seeds["a"].power_off()
        with pytest.raises(Forbidden, match="the only record of the shoot's control plane"):
            await world.client.delete(ShootState.resource, "apple", NAMESPACE)
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        patch = {"metadata": {"finalizers": None}}
        await world.client.patch(ShootState.resource, "apple", NAMESPACE, patch=patch, type=PatchType.MERGE)
        await world.client.delete(ShootState.resource, "apple", NAMESPACE)
        await world.move("b")
        shoot = await world.until(lambda shoot: last_of(shoot) == ("Restore", "Error"))
        assert "a restored shoot gets no new secrets" in shoot.status.last_errors[0].description
        assert [error.task_id for error in shoot.status.last_errors] == ["Generate secrets"]
        await asyncio.sleep(600)
        assert world.infrastructures.count("create") == creates

    told(story)


@pytest.mark.soak
def test_dead_destination_is_given_up_for_another() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        inventory = dict(world.infrastructures.inventory)
        world.seeds["b"].troubles.stuck.add("Infrastructure")
        await world.move("b")
        await world.until(lambda shoot: last_of(shoot) == ("Restore", "Processing"))
        await asyncio.sleep(30)
        await world.seeds["b"].power_off()
        with pytest.raises(Forbidden, match="the shoot is already moving"):
            await world.move("c")
        await asyncio.sleep(60)  # b counts as lost
        await world.move("c")
        moved = await world.healthy("c")
        assert epochs(moved) == [("a", True), ("b", True), ("c", True)]
        assert world.infrastructures.inventory == inventory
        await world.gone("a")

    told(story, "a", "b", "c")


class OneLook(Interceptor):
    """A garden that tells a gardenlet of its Shoot once in a moment, and no second time: as if it were lost between."""

    def __init__(self) -> None:
        self.is_on = False
        self._last = -1.0

    async def request(self, transport: Transport, request: Request) -> Response:
        if self.is_on and request.method == "GET" and request.path.endswith("/shoots/apple"):
            now = asyncio.get_running_loop().time()
            if now == self._last:
                return refusal(ServerFailure.of("lost"))
            self._last = now
        return await transport.request(request)


@pytest.mark.soak
def test_task_of_a_source_acts_on_fresh_reads() -> None:
    look = OneLook()

    async def main(simulation: virtual.Simulation) -> None:
        own = {"gardenlet a": look}
        async with garden(simulation, wrap=lambda program, way: own[program](way) if program in own else way) as world:
            await world.create_shoot()
            await world.healthy("a")
            look.is_on = True
            await world.move("b")
            await asyncio.sleep(120)
            assert last_of(await world.shoot()) == ("Migrate", "Error")
            assert serving(world) == [("a", True)]
            look.is_on = False
            await world.healthy("b")

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_two_shoots_move_in_opposite_directions() -> None:
    async def story(world: World) -> None:
        await world.create_shoot("apple", "a")
        await world.create_shoot("pear", "b")
        await world.healthy("a", "apple")
        await world.healthy("b", "pear")
        await world.move("b", "apple")
        await world.move("a", "pear")
        await world.healthy("b", "apple")
        await world.healthy("a", "pear")
        await world.gone("a", "apple")
        await world.gone("b", "pear")
        assert world.witness.serving == {"shoot--dev--apple": "b", "shoot--dev--pear": "a"}

    told(story)


@pytest.mark.demand("G74")
def test_hibernated_shoot_moves_asleep_and_wakes_up() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.patch({"spec": {"hibernation": {"enabled": True}}})
        await world.until(lambda shoot: shoot.status.hibernated)
        assert world.witness.serving == {}
        await world.move("b")
        await world.healthy("b")
        await world.gone("a")
        assert (await world.shoot()).status.hibernated
        assert world.witness.serving == {}
        await world.patch({"spec": {"hibernation": {"enabled": False}}})
        await world.until(lambda shoot: not shoot.status.hibernated)
        assert world.witness.serving == {"shoot--dev--apple": "b"}
        assert len({tuple(data) for data in world.buckets.data.values()}) == 1

    told(story)


@pytest.mark.demand(G35="it can be taken back")
def test_move_is_reverted_while_it_waits() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["b"].links.garden.cut()
        await asyncio.sleep(60)
        await world.move("b")
        await world.until(lambda shoot: last_of(shoot) == ("Migrate", "Pending"))
        await asyncio.sleep(60)
        await world.move("a")
        moved = await world.healthy("a")
        assert epochs(moved) == [("a", True)]
        assert serving(world) == [("a", True)]

    told(story)


@pytest.mark.soak
def test_unstarted_destination_is_skipped_on_return() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        inventory = dict(world.infrastructures.inventory)
        world.seeds["b"].links.garden.cut()  # it counts as ready for a moment still
        await world.move("b")
        await world.until(lambda shoot: shoot.status.seed_name == "b")
        await asyncio.sleep(60)
        await world.move("a")
        moved = await world.healthy("a")
        assert epochs(moved) == [("a", True), ("b", False), ("a", True)]
        assert world.infrastructures.inventory == inventory
        assert len({tuple(data) for data in world.buckets.data.values()}) == 1

    told(story)


@pytest.mark.soak
def test_begun_move_is_restored_if_nothing_was_given() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        inventory = dict(world.infrastructures.inventory)
        world.seeds["a"].troubles.stuck.add("Worker")
        await world.move("b")
        await asyncio.sleep(60)
        assert last_of(await world.shoot()) == ("Migrate", "Processing")
        world.seeds["a"].troubles.stuck.clear()
        with pytest.raises(Forbidden, match="the shoot is already moving"):
            await world.move("a")
        world.seeds["a"].troubles.stuck.add("Worker")
        await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
        await world.move("a")
        world.seeds["a"].troubles.stuck.clear()
        moved = await world.healthy("a")
        assert epochs(moved) == [("a", True)]
        assert world.infrastructures.inventory == inventory
        assert world.infrastructures.count("delete") == 0

    told(story)


@pytest.mark.demand("G18")
def test_seed_reads_keys_of_shoot_only_while_it_has_it() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        users = {name: User(USER.format(seed=name), (SEEDS, "system:authenticated")) for name in "ab"}
        seeds = {name: client_of(world.server, "seed", user) for name, user in users.items()}
        await seeds["a"].get(ShootState.resource, "apple", NAMESPACE)
        with pytest.raises(Forbidden):
            await seeds["b"].get(ShootState.resource, "apple", NAMESPACE)
        for client in seeds.values():
            with pytest.raises(Forbidden):
                await client.list(ShootState.resource, NAMESPACE)
        await world.move("b")
        await world.healthy("b")
        await seeds["b"].get(ShootState.resource, "apple", NAMESPACE)
        with pytest.raises(Forbidden):
            await seeds["a"].get(ShootState.resource, "apple", NAMESPACE)

    told(story)


@pytest.mark.demand("G13")
def test_a_shoot_that_is_deleted_leaves_nothing() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.client.delete(Shoot.resource, "apple", NAMESPACE)
        await world.gone("a")
        await asyncio.sleep(30)
        assert (await world.client.list(Shoot.resource)).items == []
        assert (await world.client.list(ShootState.resource)).items == []
        assert (await world.client.list(BackupEntry.resource)).items == []
        assert world.infrastructures.inventory == {}

    told(story)


@pytest.mark.soak
def test_shoot_deleted_in_a_move_leaves_nothing() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.move("b")
        await asyncio.sleep(5)
        await world.client.delete(Shoot.resource, "apple", NAMESPACE)
        await world.gone("b")
        await world.gone("a")
        await asyncio.sleep(60)
        assert (await world.client.list(Shoot.resource)).items == []
        assert world.infrastructures.inventory == {}

    told(story)


@pytest.mark.soak
def test_new_shoot_waits_for_a_seed() -> None:
    async def story(world: World) -> None:
        await asyncio.sleep(30)  # seeds get ready
        await world.patch_seed("a", {"spec": {"settings": {"scheduling": {"visible": False}}}})
        await world.patch_seed("b", {"spec": {"taints": [{"key": "special"}]}})
        await world.create_shoot(seed=None)
        shoot = await world.until(lambda shoot: last_of(shoot) == ("Create", "Pending"))
        assert shoot.status.last_operation is not None
        assert "a: it is hidden from the scheduler" in shoot.status.last_operation.description
        assert (
            "b with taint special: the seed has a taint that the shoot does not tolerate"
            in shoot.status.last_operation.description
        )
        await world.patch_seed("b", {"spec": {"taints": None}})
        await world.healthy("b")

    told(story)


@pytest.mark.soak
def test_returning_source_of_a_deleted_shoot_cleans_up() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        await world.seeds["a"].power_off()
        await world.move("b")
        await world.healthy("b")
        await world.client.delete(Shoot.resource, "apple", NAMESPACE)
        await world.gone("b")
        calls = len([entry for entry in world.infrastructures.log if entry[1] == "a"])
        await world.seeds["a"].power_on()
        await world.gone("a")
        assert len([entry for entry in world.infrastructures.log if entry[1] == "a"]) == calls
        assert world.infrastructures.inventory == {}

    told(story)


@pytest.mark.soak
def test_permanent_error_waits_for_requested_retry() -> None:
    async def story(world: World) -> None:
        world.seeds["a"].troubles.failing["Infrastructure"] = "no quota"
        world.seeds["a"].troubles.codes.append("ERR_INFRA_QUOTA_EXCEEDED")
        await world.create_shoot()
        shoot = await world.until(lambda shoot: last_of(shoot) == ("Create", "Failed"))
        error = shoot.status.last_errors[0]
        assert (error.task_id, error.codes) == ("Deploy infrastructure", ["ERR_INFRA_QUOTA_EXCEEDED"])
        world.seeds["a"].troubles.failing.clear()
        await asyncio.sleep(600)
        assert last_of(await world.shoot()) == ("Create", "Failed")
        await world.patch({"metadata": {"annotations": {metadata_keys.OPERATION: "retry"}}})
        shoot = await world.healthy("a")
        assert metadata_keys.OPERATION not in shoot.metadata.annotations

    told(story)


@pytest.mark.soak
def test_failing_extension_is_reported_with_its_task() -> None:
    async def story(world: World) -> None:
        await world.create_shoot()
        await world.healthy("a")
        world.seeds["b"].troubles.failing["Infrastructure"] = "no answer from the provider"
        await world.move("b")
        shoot = await world.until(lambda shoot: last_of(shoot) == ("Restore", "Error"))
        assert [error.task_id for error in shoot.status.last_errors] == ["Deploy infrastructure"]
        assert world.witness.serving == {"shoot--dev--apple": "b"}  # others go on
        told_extensions = (await world.seeds["b"].client.get(Cluster.resource, "shoot--dev--apple")).tree["spec"]
        assert told_extensions["shoot"]["status"]["lastOperation"] == {"type": "Restore", "state": "Processing"}
        world.seeds["b"].troubles.failing.clear()
        shoot = await world.healthy("b")
        assert shoot.status.last_errors == []

    told(story)
