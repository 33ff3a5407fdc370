"""ShootStates in the garden: secrets that are generated once, claims of new epochs, deletion."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import SECRET
from espalier.api.gardener import names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import PersistedSecret, ShootState
from espalier.api.gardener.numbers import LARGEST
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.metadata_keys import STATE_REVISION
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.shoots.state import pieces
from espalier.shoots.state.document import Document, revision_of
from espalier.shoots.state.store import EpochOver
from espalier.shoots.state.stored import StaleState
from tests.support.gardens.shoot_states import NAME, PROJECT, World, json_of, told

CA = PersistedSecret(name="ca", data={"ca.crt": "Yw==", "ca.key": "aw=="})
OTHER_CA = PersistedSecret(name="ca", data={"ca.crt": "b3RoZXI="})
KEYS = PersistedSecret(name="ssh-keypair", data={"id_rsa": "eA=="})


def secrets_of(state: Object) -> dict[str, PersistedSecret]:
    return Document(state.raw).secrets


@pytest.mark.demand("G12", "G13")
@told
async def test_a_shoot_state_is_owned_by_its_shoot_and_held(world: World) -> None:
    """G12, G13."""
    shoot = await world.shoot()
    made = await world.states().ensure(shoot, 1)
    assert (made.namespace, made.name) == (PROJECT, NAME)
    assert made.metadata.finalizers == ["gardener"]
    (owner,) = made.metadata.owner_references
    assert (owner.api_version, owner.kind, owner.name) == ("core.gardener.cloud/v1beta1", "Shoot", NAME)
    assert (owner.uid, owner.controller, owner.block_owner_deletion) == (shoot.metadata.uid, True, True)


@pytest.mark.demand("G14", "G30")
@told
async def test_stored_secrets_win_over_generated(world: World) -> None:
    """G30: a gardenlet that crashed between generation and deployment deploys the same CA afterwards."""
    shoot = await world.shoot()
    assert secrets_of(await world.states().persist(shoot, [CA], 1)) == {"ca": CA}
    assert secrets_of(await world.states().persist(shoot, [OTHER_CA, KEYS], 1)) == {"ca": CA, "ssh-keypair": KEYS}
    stored = (await world.shoot_state())["gardenlet"]["secrets"]
    assert stored[0] == {"name": "ca", "data": CA.data}  # G14


@told
async def test_persisting_what_is_there_writes_nothing(world: World) -> None:
    shoot = await world.shoot()
    await world.states().persist(shoot, [CA], 1)
    before = len(world.garden.changes)
    await world.states().persist(shoot, [CA], 1)
    await world.states().persist(shoot, [], 1)
    assert len(world.garden.changes) == before


@told
async def test_concurrent_persists_get_the_stored(world: World) -> None:
    shoot = await world.shoot()
    first, second = world.states(), world.states()
    await first.ensure(shoot, 1)
    at_once = await asyncio.gather(first.persist(shoot, [CA], 1), second.persist(shoot, [OTHER_CA, KEYS], 1))
    result, other = map(secrets_of, at_once)
    final = secrets_of(await first.persist(shoot, [], 1))
    assert result["ca"] == other["ca"] == final["ca"]
    assert set(final) == {"ca", "ssh-keypair"}


@told
async def test_entries_of_others_in_a_shoot_state_stay(world: World) -> None:
    shoot = await world.shoot()
    await world.states().ensure(shoot, 1)
    foreign = {
        "resources": [{"kind": "Secret", "name": "x", "data": {"deep": {"nothing": None, "number": 2**63 - 1}}}],
        "extensions": [{"kind": "DNSProvider", "state": {"nothing": None}, "unknown": [None]}],
        "gardenlet": {"unknown": {"a": 1}, "secrets": []},
    }
    live = await world.shoot_state()
    await world.garden.client.replace(ShootState.resource, {**live, **foreign})
    await world.states().persist(shoot, [CA], 1)
    after = await world.shoot_state()
    assert after["resources"] == foreign["resources"]
    assert after["extensions"] == foreign["extensions"]
    assert after["gardenlet"]["unknown"] == {"a": 1}


@told
async def test_an_epoch_that_is_over_writes_nothing(world: World) -> None:
    shoot = await world.shoot()
    await world.states("a").persist(shoot, [CA], 1)
    stored = await world.states("b").claim(shoot, 2)
    assert stored.secrets == {"ca": CA}
    with pytest.raises(EpochOver, match="belongs to epoch 2; this is epoch 1"):
        await world.states("a").persist(shoot, [KEYS], 1)


@told
async def test_claim_does_not_read_a_fresh_state_again(world: World) -> None:
    """A destination claims in each of its looks, and states are large."""
    shoot, states = await world.shoot(), world.states("b")
    await world.states("a").persist(shoot, [CA], 1)
    await states.claim(shoot, 2)
    state = await states.read(shoot)
    before = reads(world)
    assert (await states.claim(shoot, 2, state)).secrets == {"ca": CA}
    assert reads(world) == before


@told
async def test_largest_revision_is_not_exceeded(world: World) -> None:
    """A larger one could not be read, and would count as none: the ShootState would look older than it is."""
    shoot, states = await world.shoot(), world.states()
    live = await states.ensure(shoot, 1)
    tree = {**live.tree, "metadata": {**live.tree["metadata"], "annotations": {STATE_REVISION: str(LARGEST)}}}
    await world.garden.client.replace(ShootState.resource, tree)
    written = await states.persist(shoot, [CA], 1)
    assert revision_of(written) == LARGEST


@told
async def test_shoot_state_made_again_is_no_older_one(world: World) -> None:
    """Somebody has deleted it; no seed would restore one with a smaller revision than was reported."""
    patch = {"metadata": {"annotations": {STATE_REVISION: "7"}}}
    await world.garden.client.patch(Shoot.resource, NAME, PROJECT, patch=patch, type=PatchType.MERGE)
    assert revision_of(await world.states().ensure(await world.shoot(), 1)) == 8


def reads(world: World) -> int:
    return sum(count for (_, what, *_), count in world.garden.server.requests.items() if what == "shootstates")


@told
async def test_claim_of_nothing_is_error_and_makes_nothing(world: World) -> None:
    with pytest.raises(StaleState, match="there is no ShootState"):
        await world.states("b").claim(await world.shoot(), 2)
    with pytest.raises(NotFound):
        await world.shoot_state()


@told
async def test_state_of_earlier_shoot_of_name_is_not_used(world: World) -> None:
    await world.states().persist(await world.shoot(), [CA], 1)
    await world.garden.client.delete(Shoot.resource, NAME, PROJECT)
    spec = {"provider": {"type": "local"}, "seedName": "a"}
    body = {"metadata": {"name": NAME, "namespace": PROJECT}, "spec": spec}
    again = await world.garden.client.create(Shoot.resource, body)
    with pytest.raises(StaleState, match="belongs to an earlier Shoot"):
        await world.states().persist(again, [KEYS], 1)


@pytest.mark.demand("G13")
@told
async def test_deleted_shoot_state_is_held_and_updated(world: World) -> None:
    """G13: also while a migration runs."""
    await world.set_state("before")
    async with world.syncing():
        await world.garden.client.delete(ShootState.resource, NAME, PROJECT)
        await world.set_shoot("b", "a", "Migrate", "Processing")
        await world.set_state("after")
        await world.settled()
        assert await world.entries() == {"Infrastructure/infrastructure": "after"}
        await world.states().persist(await world.shoot(), [CA], 1)
        assert (await world.states("b").claim(await world.shoot(), 2)).secrets == {"ca": CA}


@told
async def test_state_goes_with_its_shoot_and_secrets(world: World) -> None:
    await world.set_state(json_of(2_000_000))
    async with world.syncing():
        pass
    shoot = await world.shoot()
    await world.states().release(shoot)
    with pytest.raises(NotFound):
        await world.shoot_state()
    assert (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items == []
    states = world.garden.writes("ShootState")
    assert states[-1].before is not None
    confirmed = states[-1].before.metadata.annotations
    assert confirmed["confirmation.gardener.cloud/deletion"] == "true", "Gardener deletes no other"
    await world.states().release(shoot)


@told
async def test_states_of_deleted_one_are_of_no_other_shoot(world: World) -> None:
    """Ownership that can't be read stops the controller: nobody knows whose turn it is."""
    await world.set_state("before")
    patch = {"metadata": {"annotations": {"espalier.gardener.cloud/ownership": "[nonsense"}}}
    await world.garden.client.patch(Shoot.resource, NAME, PROJECT, patch=patch, type=PatchType.MERGE)
    async with world.syncing():
        with pytest.raises(NotFound):
            await world.shoot_state()
    await world.set_shoot("a", "a", ownership=Ownership().add("a", "bucket-a"))
    async with world.syncing():
        assert await world.entries() == {"Infrastructure/infrastructure": "before"}


@told
async def test_late_seed_leaves_pieces_of_newer_epoch_alone(world: World) -> None:
    """They are there before the reference that names them."""
    shoot = await world.shoot()
    uid = shoot.metadata.uid
    for epoch in (1, 2):
        _, made = pieces.split(b'"state %d"' % epoch, uid, epoch)
        for secret in made:
            await world.garden.client.create(SECRET, secret)
    async with world.granting():
        await world.states().sweep(shoot, (), 1)
    (left,) = (await world.garden.client.list(SECRET, names.STATE_NAMESPACE)).items
    assert pieces.origin_of(left.name) == (uid, 2)


@told
async def test_sweep_that_fails_leaves_no_deletion_under_way(world: World) -> None:
    """The next change may need a Secret of that name again, and finds it while it is still there."""
    shoot, deleted = await world.shoot(), []
    names_of = [pieces.split(state, shoot.metadata.uid, 1)[1][0]["metadata"]["name"] for state in (b"1", b"2")]
    states = world.states()

    async def delete(name: str) -> None:
        if name == names_of[0]:
            raise Unreachable("no answer")
        await asyncio.sleep(0.05)
        deleted.append(name)

    states._delete_piece = delete  # type: ignore[method-assign]
    async with world.granting():
        with pytest.raises(Unreachable):
            await states.sweep(shoot, (), 1, names_of)
        assert deleted == names_of[1:]
