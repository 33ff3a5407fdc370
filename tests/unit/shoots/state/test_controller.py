"""The synchronization controller: states of extensions in a seed follow into the garden (G31, G32)."""

from __future__ import annotations

import asyncio
import random
from typing import cast

import msgspec
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.metadata_keys import EPOCH, STATE_REVISION
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, Forbidden, Status, Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.gardenlet.states import known_states
from espalier.shoots.gardenlet.states.known_states import KnownStates
from espalier.shoots.state.document import revision_of
from espalier.shoots.state.kinds import declared
from espalier.shoots.state.limits import LARGEST_SHOOT_STATE, LARGEST_STATE, MIB
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.store import ShootStates
from espalier.shoots.state.stored import StaleState, StoredState
from tests.support.gardens.shoot_states import NAME, PROJECT, TECHNICAL_ID, World, json_of, told
from tests.support.sampling import sampled
from tests.support.servers.faults import Blocked, Crash, Refusing
from tests.support.tasks import running

STATE = {"serial": 2**63 - 1, "nothing": None, "deep": [{"none": None}, [], {}], "ratio": 1.5, "text": "\u2028\n"}


@pytest.mark.demand("G16", "G31")
@told
async def test_a_changed_state_follows_with_one_write(world: World) -> None:
    """G31, and G16: whatever JSON it is."""
    await world.set_state("first")
    async with world.syncing():
        assert await world.entries() == {"Infrastructure/infrastructure": "first"}
        before = len(world.garden.changes)
        await world.set_state(STATE)
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": STATE}
        assert len(world.garden.changes) == before + 1


@pytest.mark.demand("G32")
@told
async def test_settled_shoot_causes_no_writes(world: World) -> None:
    """G32."""
    for name, state in (("infrastructure", STATE), ("dns", None), ("large", json_of(600_000))):
        await world.set_state(state, name, resource=Extension.resource)
    async with world.syncing():
        pass
    before = len(world.garden.changes)
    assert before
    async with world.syncing():
        await world.settled(30 * 60)
        await world.set_state(STATE, "infrastructure", resource=Extension.resource)  # written again, and the same
        await world.settled()
    assert world.garden.changes[before:] == []


@pytest.mark.demand("G10")
@told
async def test_an_extension_without_state_has_no_entry(world: World) -> None:
    """G10."""
    async with world.syncing():
        await world.set_state(None, "network", resource=Network.resource)
        await world.settled()
        assert await world.entries() == {}


@pytest.mark.demand("G15")
@told
async def test_control_planes_of_two_purposes_are_two(world: World) -> None:
    """G15."""
    for name, purpose in (("my-shoot", "normal"), ("my-shoot-exposure", "exposure")):
        body = {
            "metadata": {"name": name, "namespace": TECHNICAL_ID},
            "spec": {"type": "local", "purpose": purpose},
            "status": {"state": purpose},
        }
        made = await world.seeds["a"].client.create(ControlPlane.resource, body)
        await world.seeds["a"].client.replace(
            ControlPlane.resource, {**made.tree, "status": {"state": purpose}}, subresource="status"
        )
    async with world.syncing():
        entries = [
            (extension["purpose"], extension["state"]) for extension in (await world.shoot_state())["extensions"]
        ]
        assert entries == [("normal", "normal"), ("exposure", "exposure")]


@pytest.mark.demand(G10="one that keeps state after all is carried", G11="into the ShootState")
@told
async def test_kind_installed_later_is_carried_too(world: World) -> None:
    """G11: the list of kinds is open."""
    runtimes = declared(Resource("extensions.gardener.cloud", "v1alpha1", "containerruntimes", "ContainerRuntime"))
    await world.set_state("kept")
    async with world.syncing():
        await world.seeds["a"].client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(runtimes))
        await world.settled(60)
        await world.set_state(STATE, "gvisor", resource=runtimes.resource)
        await world.settled()
        expected = {"Infrastructure/infrastructure": "kept", "ContainerRuntime/gvisor": STATE}
        assert await world.entries() == expected


@told
async def test_states_of_an_unlisted_kind_stay(world: World) -> None:
    """A gardenlet that has just started has not listed all kinds yet: what it does not see may be there."""
    runtimes = declared(Resource("extensions.gardener.cloud", "v1alpha1", "containerruntimes", "ContainerRuntime"))
    await world.seeds["a"].client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(runtimes))
    await world.set_state("kept")
    await world.set_state(STATE, "gvisor", resource=runtimes.resource)
    async with world.syncing():
        await world.settled(60)
    expected = {"Infrastructure/infrastructure": "kept", "ContainerRuntime/gvisor": STATE}
    assert await world.entries() == expected
    lists = Refusing("containerruntimes", Unreachable("no answer"))
    async with world.syncing(wrap_seed=lists):
        await world.settled(60)
        assert await world.entries() == expected
        await world.set_state("changed")
        lists.refusal = None
        await world.settled(120)
        assert await world.entries() == {**expected, "Infrastructure/infrastructure": "changed"}


@told
async def test_problems_that_pass_are_not_reported(world: World) -> None:
    """Rights follow within seconds, and a conflict is read again: no condition changes for them."""
    await world.set_state("first")
    key = (await world.shoot()).key
    await world.states().ensure(await world.shoot(), 1)
    answers, known, rng = Refusing("shootstates"), KnownStates(), random.Random(1)
    client = Client(answers(InProcessTransport(world.garden.server)), user_agent="gardenlet", retry=Retry(attempts=1))
    garden, own = Caches(world.garden.client, rng=rng), Caches(world.seeds["a"].client, rng=rng)
    made = known_states.controller(
        garden.of(Shoot.resource),
        own,
        known,
        ShootStates(client, "a", cast(Cache, known), known.saw),
        garden=client,
        writer=Writer(world.seeds["a"].client, {}),
        clock=SystemClock(),
        seed="a",
        period=20,
        rng=rng,
    )
    async with running(garden.run(), own.run(), made.run()):
        await world.settled(60)
        for refusal in (Forbidden(Status(code=403, reason="Forbidden")), Conflict.of("it has changed")):
            answers.refusal = refusal
            await world.set_state(str(refusal))
            await world.settled(60)
            assert known.problem(key) == ""
            answers.refusal = None
            await world.settled(60)
            assert await world.entries() == {"Infrastructure/infrastructure": str(refusal)}
        patch = {"metadata": {"annotations": {EPOCH: "99"}}}
        await world.garden.client.patch(ShootState.resource, NAME, PROJECT, patch=patch, type=PatchType.MERGE)
        await world.settled(60)
        assert "belongs to epoch 99" in known.problem(key)


@told
async def test_entry_of_extension_that_was_removed_goes(world: World) -> None:
    await world.set_state("kept")
    await world.set_state("toy", "toy", resource=Extension.resource)
    async with world.syncing():
        assert len(await world.entries()) == 2
        await world.delete_toy(confirmed=True)
        assert await world.entries() == {"Infrastructure/infrastructure": "kept"}


@told
async def test_the_entry_of_a_resource_deleted_by_hand_stays(world: World) -> None:
    """It is restored with it."""
    await world.set_state("kept")
    await world.set_state("toy", "toy", resource=Extension.resource)
    async with world.syncing():
        await world.delete_toy(confirmed=False)
        assert await world.entries() == {"Infrastructure/infrastructure": "kept", "Extension/toy": "toy"}


@told
async def test_an_emptied_namespace_is_no_reason_to_forget(world: World) -> None:
    await world.set_state("kept")
    async with world.syncing():
        await world.seeds["a"].client.delete(Infrastructure.resource, "infrastructure", TECHNICAL_ID)
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "kept"}


@told
async def test_deleting_migration_leaves_the_state(world: World) -> None:
    await world.set_state("last")
    await world.set_state("toy", "toy", resource=Extension.resource)
    async with world.syncing():
        await world.set_shoot("b", "a", "Migrate", "Processing")
        await world.set_state("from the migration")  # an extension may keep more while it migrates
        await world.settled()
        await world.seeds["a"].client.delete(Infrastructure.resource, "infrastructure", TECHNICAL_ID)
        await world.set_state(None, "toy", resource=Extension.resource)
        await world.settled()
        expected = {"Infrastructure/infrastructure": "from the migration", "Extension/toy": "toy"}
        assert await world.entries() == expected


@pytest.mark.soak
@told
async def test_a_seed_that_lost_the_shoot_writes_nothing(world: World) -> None:
    await world.set_state("last")
    async with world.syncing():
        owned = Ownership().add("a", "bucket-a").start(1, "a").add("b", "bucket-b")
        await world.set_shoot("b", "b", "Migrate", "Succeeded", ownership=owned)
        await world.set_state("too late")
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "last"}


@told
async def test_lagging_seed_writes_nothing_after_a_claim(world: World) -> None:
    """The old gardenlet still believes that it has the shoot."""
    await world.set_state("last")
    async with world.syncing():
        stored = await world.states("b").claim(await world.shoot(), 2)
        await world.set_state("too late")
        await world.settled(60)
        assert stored.state_for("Infrastructure", "infrastructure") == b'"last"'
        assert await world.entries() == {"Infrastructure/infrastructure": "last"}


@told
async def test_restored_shoot_state_keeps_its_revision(world: World) -> None:
    """By that its destination judges whether it is an older one; a settled shoot's is made later than was reported."""

    async def revision() -> int:
        return revision_of(await world.garden.client.get(ShootState.resource, NAME, PROJECT))

    async def report(revision: str) -> None:
        reported = {"metadata": {"annotations": {STATE_REVISION: revision}}}
        await world.garden.client.patch(Shoot.resource, NAME, PROJECT, patch=reported, type=PatchType.MERGE)

    await world.set_state("last")
    await report("40")
    async with world.syncing():
        assert await revision() >= 40
    await report("80")
    owned = Ownership().add("a", "bucket-a").start(1, "a").add("b", "bucket-b")
    await world.set_shoot("b", "b", "Restore", "Processing", ownership=owned)
    async with world.syncing("b"):
        assert await revision() < 80


@pytest.mark.demand("G40")
@told
async def test_destination_goes_on_where_source_stopped(world: World) -> None:
    await world.set_state("last")
    async with world.syncing():
        pass
    owned = Ownership().add("a", "bucket-a").start(1, "a").add("b", "bucket-b")
    await world.set_shoot("b", "b", "Restore", "Processing", ownership=owned)
    await world.states("b").claim(await world.shoot(), 2)
    body = {
        "metadata": {
            "name": "infrastructure",
            "namespace": TECHNICAL_ID,
            "annotations": {"gardener.cloud/operation": "restore"},
        },
        "spec": {"type": "local"},
    }
    async with world.syncing("b"):
        client = world.seeds["b"].client
        await client.create(Infrastructure.resource, body)
        await world.set_state("half restored", seed="b")
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "last"}
        patch = {"metadata": {"annotations": {"gardener.cloud/operation": None}}}
        await client.patch(Infrastructure.resource, "infrastructure", TECHNICAL_ID, patch=patch, type=PatchType.MERGE)
        await world.set_state("of the destination", seed="b")
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "of the destination"}
        (entry,) = (await world.shoot_state())["extensions"]
        assert entry["epoch"] == 2


@pytest.mark.demand(G20="1.4, 1.9, 2.5 and 5 MiB")
@pytest.mark.parametrize("mebibytes", [1.4, 1.9, 2.5, 5])
def test_too_large_state_arrives_complete(mebibytes: float) -> None:
    """G20: in Secrets, and whoever reads it sees no difference."""
    state = json_of(int(mebibytes * MIB))

    @told
    async def story(world: World) -> None:
        await world.set_state(state)
        await world.set_state("small", "toy", resource=Extension.resource)
        async with world.syncing():
            shoot_state = await world.garden.client.get(ShootState.resource, NAME, PROJECT)
            assert len(shoot_state.raw) < LARGEST_SHOOT_STATE
            stored = await world.states("b").claim(await world.shoot(), 2)
            result = stored.state_for("Infrastructure", "infrastructure")
            assert result is not None
            assert msgspec.json.decode(result) == state
            assert stored.state_for("Extension", "toy") == b'"small"'

    story()


@told
async def test_many_large_states_move_until_the_rest_fits(world: World) -> None:
    for number in range(9):
        await world.set_state(json_of(200_000 + number), f"toy-{number}", resource=Extension.resource)
    async with world.syncing():
        entries = await world.entries()
        moved = [name for name, state in entries.items() if "secrets" in state]
        assert 0 < len(moved) < 9
        assert all(name in moved for name in ("Extension/toy-8", "Extension/toy-7"))  # the largest first


@pytest.mark.demand(G21="large states alone, and only what changed is written")
@told
async def test_only_secrets_of_state_that_is_there_remain(world: World) -> None:
    """G21: and only what changed was written."""
    await world.set_state(json_of(700_000))
    async with world.syncing():
        first = {secret.name for secret in (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items}
        await world.set_state(json_of(800_000))
        await world.settled()
        second = {secret.name for secret in (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items}
        assert len(second) == 1
        assert not first & second
        await world.set_state("small")
        await world.settled()
        assert (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items == []


@pytest.mark.demand(G20="never a stale or truncated one")
@told
async def test_a_state_with_a_missing_piece_restores_nothing(world: World) -> None:
    await world.set_state(json_of(2 * MIB))
    async with world.syncing():
        pass
    secrets = (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items
    assert len(secrets) > 1
    await world.garden.client.delete(SECRET, secrets[-1].name, names.STATE_NAMESPACE)
    stored = await world.states("b").claim(await world.shoot(), 2)
    with pytest.raises(TruncatedState, match="state of Infrastructure infrastructure is incomplete: Secrets of"):
        stored.state_for("Infrastructure", "infrastructure")
    assert len(stored.problems()) == 1


@pytest.mark.demand(G20="never a stale or truncated one")
@told
async def test_uncarried_state_is_told_and_not_replaced(world: World) -> None:
    """G22: never a stale state."""
    await world.set_state("earlier")
    async with world.syncing():
        await world.set_state("x" * LARGEST_STATE)
        await world.settled()
        (entry,) = (await world.shoot_state())["extensions"]
        assert entry["state"] == "earlier"
        assert entry["outdated"].startswith("its state has 16.0 MiB, at most 16 MiB are allowed")
        stored = await world.states().claim(await world.shoot(), 1)
        with pytest.raises(StaleState, match="the state of Infrastructure infrastructure is outdated"):
            stored.state_for("Infrastructure", "infrastructure")
        assert len(stored.problems()) == 1
        await world.set_state("smaller again")
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "smaller again"}


@pytest.mark.soak
@pytest.mark.parametrize("writes", sampled(range(1, 9), 2))
def test_killed_gardenlet_leaves_completable_states(writes: int) -> None:
    """Between the Secrets of a state, the reference to it, and the end of those that nobody needs any more."""

    @told
    async def story(world: World) -> None:
        await world.set_state(json_of(MIB))
        async with world.syncing():
            pass
        before, after = json_of(MIB), json_of(2 * MIB)
        async with world.syncing(wrap=Crash(writes)):
            await world.set_state(after)
            await world.settled()
            stored = await StoredState.read(
                world.garden.client, await world.garden.client.get(ShootState.resource, NAME, PROJECT)
            )
            state = stored.state_for("Infrastructure", "infrastructure")
            assert state is not None
            assert msgspec.json.decode(state) in (before, after)  # never half of one
        async with world.granting(), world.syncing():
            await world.set_state("small")
            await world.settled()
            assert await world.entries() == {"Infrastructure/infrastructure": "small"}
            assert (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items == []

    story()


@pytest.mark.demand("G31")
@told
async def test_gardenlet_catches_up_with_its_garden(world: World) -> None:
    await world.set_state("first")
    shut = asyncio.Event()
    async with world.syncing(wrap=Blocked("shootstates", shut)):
        shut.set()
        await world.set_state("second")
        await world.settled(600)
        assert await world.entries() == {"Infrastructure/infrastructure": "first"}
        shut.clear()
        await world.settled(60)
        assert await world.entries() == {"Infrastructure/infrastructure": "second"}
