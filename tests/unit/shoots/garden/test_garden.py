"""The garden: which seed a shoot gets, which shoots are moved next, and how long a seed has been silent."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.core import LEASE, NAMESPACE
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.cloud_profile import CloudProfile, CloudProfileSpec
from espalier.api.gardener.garden.seed import (
    GARDENLET_READY,
    Seed,
    SeedBackup,
    SeedNetworks,
    SeedProvider,
    SeedSpec,
    SeedStatus,
    SeedTaint,
)
from espalier.api.gardener.garden.shoot import (
    READY_FOR_MIGRATION,
    Networking,
    Provider,
    SeedSelector,
    Shoot,
    ShootSpec,
    ShootStatus,
    Toleration,
)
from espalier.api.gardener.names import SEED_LEASES
from espalier.api.gardener.vocabulary.operations import Condition, LastOperation
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, KubeError
from espalier.kube.objects import Object
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.controller import Garden
from espalier.shoots.garden.evacuation import next_moves
from espalier.shoots.garden.readiness import choose, unready
from espalier.shoots.garden.roles import in_project
from espalier.shoots.garden.seed_leases import SeedLeases
from tests.support.servers.embedded_server import client_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def seed(name: str, region: str = "here", *, ready: bool = True, room: int | None = None, taint: str = "") -> Seed:
    condition = Condition(GARDENLET_READY, "True" if ready else "Unknown", message="" if ready else "it is silent")
    return Seed(
        metadata=ObjectMeta(name=name),
        spec=SeedSpec(
            provider=SeedProvider(type="local", region=region),
            backup=SeedBackup(provider="local"),
            taints=[SeedTaint(taint)] if taint else [],
        ),
        status=SeedStatus(conditions=[condition], allocatable={"shoots": room} if room is not None else {}),
    )


def shoot(
    name: str = "apple", wanted: str | None = None, has: str | None = None, last: str = "Reconcile Succeeded"
) -> Shoot:
    kind, state = last.split()
    return Shoot(
        metadata=ObjectMeta(name=name, namespace="garden-dev"),
        spec=ShootSpec(provider=Provider(type="local"), region="here", seed_name=wanted),
        status=ShootStatus(seed_name=has, last_operation=LastOperation(kind, state)),
    )


def test_new_shoot_goes_to_emptiest_seed_of_its_region() -> None:
    seeds = [seed("a", "there"), seed("b"), seed("c"), seed("d")]
    assert choose(shoot(), seeds, {"b": 3, "c": 1, "d": 1}) == ("c", "")
    assert choose(shoot(), [seed("a", "there"), seed("b", ready=False)], {}) == ("a", "")


def test_each_seed_that_does_not_fit_says_why() -> None:
    seeds = [seed("a", ready=False), seed("b", room=2), seed("c", taint="special")]
    chosen, why = choose(shoot(), seeds, {"b": 2})
    assert chosen is None
    assert why == (
        "a: seed a is not ready: it is silent; b with 2 shoots: the seed has reached its limit of shoots; name another "
        "one, or raise status.allocatable.shoots of the Seed; "
        "c with taint special: the seed has a taint that the shoot does not tolerate; add it to spec.tolerations"
    )
    tolerant = shoot()
    tolerant.spec.tolerations = [Toleration("special")]
    assert choose(tolerant, seeds, {"b": 2})[0] == "c"


def test_seed_that_admission_refuses_is_not_chosen() -> None:
    near, far = seed("b"), seed("c", "there")
    near.spec.networks = SeedNetworks(pods="10.0.0.0/16")
    apple = shoot("apple", "a", "a")
    apple.spec.networking = Networking(type="local", pods="10.0.0.0/24")
    assert choose(apple, [near, far], {})[0] == "c"
    assert [move.destination for move in next_moves("a", [apple], [seed("a"), near, far], limit=1).moves] == ["c"]
    apple.spec.cloud_profile_name = "metal"
    profile = CloudProfile(spec=CloudProfileSpec(type="metal", seed_selector=SeedSelector(provider_types=["metal"])))
    chosen, why = choose(apple, [near, far], {}, profile)
    assert chosen is None
    assert "b: its pods are 10.0.0.0/16, the shoot's pods 10.0.0.0/24: the networks of the seed" in why
    assert "c of local: the shoot, or its cloud profile, does not allow seeds of this provider" in why


def test_refused_move_takes_no_place_of_others() -> None:
    shoots = [shoot(name, "a", "a") for name in ("apple", "pear")]
    evacuation = next_moves("a", shoots, [seed("a"), seed("b")], limit=1, refused={"garden-dev/apple": "for a reason"})
    assert [move.shoot for move in evacuation.moves] == ["pear"]
    assert evacuation.blocked == {"garden-dev/apple": "for a reason"}


def test_failed_move_takes_no_place_of_others() -> None:
    shoots = [shoot("apple", "b", "a", "Migrate Failed"), shoot("pear", "a", "a")]
    evacuation = next_moves("a", shoots, [seed("a"), seed("b")], limit=1)
    assert [move.shoot for move in evacuation.moves] == ["pear"]
    assert (evacuation.running, evacuation.remaining) == (0, 2)
    assert "move to seed b has failed" in evacuation.blocked["garden-dev/apple"]
    begins = [shoot("apple", "b", "a", "Reconcile Failed")]
    assert next_moves("a", begins, [seed("a"), seed("b")], limit=1).running == 1


def test_deleted_shoot_goes_to_a_seed_that_deletes() -> None:
    going = shoot("apple", "a", "a")
    going.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert next_moves("a", [going], [seed("a"), seed("b")], limit=1).blocked == {
        "garden-dev/apple": "it is being deleted"
    }
    lost = next_moves("a", [going], [seed("a", ready=False), seed("b")], limit=1)
    assert [move.destination for move in lost.moves] == ["b"]


def test_missing_or_deleted_seed_is_not_ready() -> None:
    assert unready(None)[0] == "DestinationSeedMissing"
    assert unready(seed("a"), is_deleted=True)[0] == "DestinationSeedInDeletion"
    assert unready(seed("a")) == ("", "")


@pytest.mark.demand("G5")
def test_a_seed_is_evacuated_a_few_shoots_at_a_time() -> None:
    shoots = [shoot(f"apple-{number}", "a", "a") for number in range(6)]
    shoots += [shoot("moving", "b", "a", "Migrate Processing"), shoot("new", "a", "a", "Create Processing")]
    evacuation = next_moves("a", shoots, [seed("a"), seed("b"), seed("c")], limit=3)
    assert [(move.shoot, move.destination) for move in evacuation.moves] == [("apple-0", "c"), ("apple-1", "b")]
    assert (evacuation.running, evacuation.remaining) == (1, 7)
    assert evacuation.blocked == {"garden-dev/new": "its creation has not finished"}


def test_evacuation_without_a_seed_says_so() -> None:
    evacuation = next_moves("a", [shoot("apple", "a", "a")], [seed("a"), seed("b", ready=False)], limit=3)
    assert evacuation.moves == ()
    assert evacuation.blocked == {"garden-dev/apple": "b: seed b is not ready: it is silent"}


@given(st.integers(1, 5), st.lists(st.sampled_from(["here", "leaving", "arriving", "failed"]), max_size=12))
def test_evacuation_keeps_its_limit(limit: int, states: list[str]) -> None:
    made = {
        "here": ("a", "a", "Reconcile Succeeded"),
        "leaving": ("b", "a", "Migrate Processing"),
        "arriving": ("b", "b", "Restore Processing"),
        "failed": ("b", "b", "Restore Failed"),
    }
    shoots = [shoot(f"apple-{at}", *made[state]) for at, state in enumerate(states)]
    evacuation = next_moves("a", shoots, [seed("a"), seed("b")], limit)
    under_way = states.count("leaving") + states.count("arriving")
    assert evacuation.running == under_way
    assert len(evacuation.moves) == max(0, min(states.count("here"), limit - under_way))


@pytest.mark.parametrize(
    ("skew", "delay", "expected"),
    [(0, 0, 0), (30, 0, 30), (-30, 0, -20), (4, 0, 0), (-4, 8, 0)],
    ids=["right", "ahead", "behind", "allowed", "slow"],
)
def test_clock_of_a_gardenlet_is_judged_by_renewals(skew: float, delay: float, expected: float) -> None:
    """A clock counts as behind the last observation, ten seconds ago: the renewal may be as old as that."""

    async def main(simulation: virtual.Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=random.Random(1))
        await server.start()
        client = client_of(server)
        await client.create(NAMESPACE, {"metadata": {"name": SEED_LEASES}})
        lease = {"metadata": {"name": "a", "namespace": SEED_LEASES}, "spec": {"holderIdentity": "a"}}
        await client.create(LEASE, lease)
        seed_leases = SeedLeases(client, simulation.clock, GardenConfig(monitor_period=10))
        skews = []
        await seed_leases.observe()
        await asyncio.sleep(10)
        for _ in range(5):
            time = simulation.clock.now() + timedelta(seconds=skew)
            renewed = {"spec": {"renewTime": time.strftime("%Y-%m-%dT%H:%M:%S.%fZ")}}
            await asyncio.sleep(delay)
            await client.patch(LEASE, "a", SEED_LEASES, patch=renewed, type=PatchType.MERGE)
            await seed_leases.observe()
            skews.append(seed_leases.skew("a"))
            await asyncio.sleep(10 - delay)
        assert skews[:2] == [None, None]
        assert skews[-1] == pytest.approx(expected, abs=0.1)
        await asyncio.sleep(300)  # nobody renews: what was known stays
        await seed_leases.observe()
        assert seed_leases.skew("a") == skews[-1]
        await client.patch(LEASE, "a", SEED_LEASES, patch={"spec": {"renewTime": None}}, type=PatchType.MERGE)
        await seed_leases.observe()
        assert seed_leases.skew("a") == skews[-1]
        await server.close()

    virtual.run(main, epoch=NOW, seed=1)


def test_silence_counts_from_unbroken_observation() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=random.Random(1))
        await server.start()
        client = client_of(server)
        await client.create(NAMESPACE, {"metadata": {"name": SEED_LEASES}})
        spec = {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.000000Z"}
        await client.create(LEASE, {"metadata": {"name": "a", "namespace": SEED_LEASES}, "spec": spec})
        seed_leases = SeedLeases(client, simulation.clock, GardenConfig(monitor_period=10))
        await asyncio.sleep(1000)  # nobody looked
        assert seed_leases.silence("a") == 0
        for _ in range(6):
            await seed_leases.observe()
            await asyncio.sleep(10)
        assert seed_leases.silence("a") == 50
        assert seed_leases.silence("never-seen") == 50
        await asyncio.sleep(300)  # this process slept
        await seed_leases.observe()
        assert seed_leases.silence("a") == 0
        await server.close()

    virtual.run(main, epoch=NOW, seed=1)


def test_a_failed_observation_begins_anew() -> None:
    class Away:
        async def list(self, *_: object) -> object:
            raise KubeError("away")

    async def main(simulation: virtual.Simulation) -> None:
        seed_leases = SeedLeases(Away(), simulation.clock, GardenConfig(monitor_period=10))  # type: ignore[arg-type]
        seed_leases._observing_since, seed_leases._observed = 0.0, 500.0
        assert seed_leases.silence("a") == 500
        task = asyncio.create_task(seed_leases.run())
        await asyncio.sleep(1)
        assert seed_leases.silence("a") == 0
        assert not seed_leases.is_observed
        task.cancel()

    virtual.run(main, epoch=NOW, seed=1)


def test_a_seed_has_no_rights_where_it_has_no_shoots() -> None:
    assert in_project("a", []) == []


def bucket(last: str = "Reconcile Succeeded", error: str = "") -> Object:
    kind, state = last.split()
    status: Tree = {"lastOperation": {"type": kind, "state": state}} if last != "none none" else {}
    if error:
        status["lastError"] = {"description": error}
    tree = {
        "apiVersion": BackupBucket.resource.api_version,
        "kind": "BackupBucket",
        "metadata": {"name": "1"},
        "spec": {"provider": {"type": "local", "region": "here"}, "seedName": "b"},
        "status": status,
    }
    return Object(msgspec.json.encode(tree))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (None, "the BackupBucket of seed b is not ready"),
        (bucket("none none"), "the BackupBucket of seed b is not ready"),
        (bucket("Create Processing"), "the BackupBucket of seed b is not ready"),
        (bucket("Create Error", "no rights"), "the BackupBucket of seed b is not ready: no rights"),
        (bucket(), ""),
    ],
)
async def test_move_begins_once_the_bucket_is_ready(value: Object | None, problem: str) -> None:
    """Otherwise the source would stop, and its etcd would have nowhere to go."""
    moving, destination = shoot(wanted="b", has="a"), seed("b")
    moving.metadata.uid, destination.metadata.uid = "2", "1"
    caches = Snapshot()
    written: list[ShootStatus] = []

    async def status(_resource: object, live: Object, wanted: ShootStatus, *_: object, **__: object) -> Object:
        written.append(wanted)
        return live

    writer = cast(Writer, SimpleNamespace(status=status))
    silences = cast(SeedLeases, SimpleNamespace(silence=lambda _seed: 0.0))
    garden = Garden(cast(Caches, caches), writer, SystemClock(), GardenConfig(), silences)
    for object_ in (moving, destination, value):
        if object_ is not None:
            caches.put(object_ if isinstance(object_, Object) else Object(msgspec.json.encode(object_)))
    await garden._migrate(Key("garden-dev", "apple"))
    (constraint,) = (constraint for constraint in written[0].constraints if constraint.type == READY_FOR_MIGRATION)
    assert (constraint.status, constraint.message) == ("False" if problem else "True", problem)


async def test_silent_seed_is_reported_with_an_older_role() -> None:
    """A role of a former release does not allow the annotation."""
    caches = Snapshot()
    written: list[SeedStatus] = []

    async def status(_resource: object, live: Object, wanted: SeedStatus, *_: object, **__: object) -> Object:
        written.append(wanted)
        return live

    async def merge(*_: object) -> Object:
        raise Forbidden.of("seeds a is forbidden")

    writer = cast(Writer, SimpleNamespace(status=status, merge=merge))
    silences = SimpleNamespace(
        is_observed=True, silence=lambda _seed: 1e6, has_lease=lambda _seed: True, skew=lambda _seed: None
    )
    garden = Garden(cast(Caches, caches), writer, SystemClock(), GardenConfig(), cast(SeedLeases, silences))
    caches.put(Object(msgspec.json.encode(seed("a"))))
    assert isinstance(await garden._seed(Key("", "a")), Wait)
    assert [condition.status for condition in written[0].conditions] == ["Unknown"]
