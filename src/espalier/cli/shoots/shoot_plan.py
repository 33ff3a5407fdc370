"""The plan of a shoot's move: steps, observations, expected gap, data at risk. Pure except for `observe`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.core import LEASE
from espalier.api.gardener import move_times, names, ownership
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import BUCKET_REACHABLE, GARDENLET_READY, Seed
from espalier.api.gardener.garden.shoot import READY_FOR_DISASTER, Shoot
from espalier.api.gardener.move_times import MoveTimes
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.vocabulary.metadata_keys import GIVE_UP_AFTER, OWNERSHIP
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import ADMIN
from espalier.shoots.admission.shoot_rules import shoots as rules
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.readiness import unready
from espalier.shoots.gardenlet.destination import Need, bucket_of_data, needs
from espalier.shoots.gardenlet.reconciling.flows import MIGRATE, RECONCILE

START = 10.0
"""Typical seconds for starting etcd and the API server at the destination."""


@dataclass(frozen=True)
class Seen:
    """The input of a plan."""

    shoot: Object
    destination: str
    seeds: Mapping[str, Seed]
    shoots: tuple[Shoot, ...]
    profiles: Mapping[str, CloudProfile]
    buckets: Mapping[str, BackupBucket]
    times: Mapping[str, MoveTimes] = field(default_factory=dict)
    """The times with which gardenlets run, by seed, as far as they report them."""
    unread: tuple[str, ...] = ()
    """Kinds that may not be read."""
    needs: tuple[Need, ...] = ()
    """The needs of the destination, as the move itself reads them before it stops anything."""


async def observe(client: Client, key: Key, destination: str) -> Seen:
    """Read everything that a plan needs at once. What may not be read is omitted and reported."""
    unread: list[str] = []

    async def of(resource: Resource, namespace: str | None = None) -> list[Object]:
        try:
            return (await client.list(resource, namespace)).items
        except (Forbidden, NotFound):
            unread.append(resource.plural)
            return []

    shoot, seeds, shoots, profiles, buckets, leases = await asyncio.gather(
        client.get(Shoot.resource, key.name, key.namespace),
        of(Seed.resource),
        of(Shoot.resource),
        of(CloudProfile.resource),
        of(BackupBucket.resource),
        of(LEASE, names.SEED_LEASES),
    )
    reported = {lease.name: move_times.parse(lease.metadata.annotations.get(move_times.KEY)) for lease in leases}
    seen = Seen(
        shoot,
        destination,
        {seed.name: seed.decode(Seed) for seed in seeds},
        tuple(shoot.decode(Shoot) for shoot in shoots),
        {profile.name: profile.decode(CloudProfile) for profile in profiles},
        {bucket.name: bucket.decode(BackupBucket) for bucket in buckets},
        {name: times for name, times in reported.items() if times is not None},
        tuple(sorted(unread)),
    )
    return replace(seen, needs=tuple(await needs(client, shoot, destination)))


class Finding(msgspec.Struct, frozen=True, rename="camel"):
    """A check and its result."""

    what: str
    ready: bool | None
    """None if this is unknown."""
    message: str


class Times(msgspec.Struct, frozen=True, rename="camel"):
    """Expected seconds of a move or a wait, and their parts."""

    total: float
    parts: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, *parts: tuple[str, float]) -> Times:
        """The sum of the parts."""
        return cls(sum(seconds for _, seconds in parts), parts)


class Plan(msgspec.Struct, frozen=True, rename="camel"):
    """The plan of a move."""

    source: str
    destination: str
    refusals: tuple[str, ...]
    """The refusals of the garden's admission."""
    findings: tuple[Finding, ...]
    steps: tuple[tuple[str, str], ...]
    """Location and content."""
    good_case: Times
    """The expected API gap if the source works."""
    bad_case: Times
    """The longest API gap if the source is lost."""
    is_source_alive: bool
    at_risk: str
    times_note: str
    """A sentence for people: whose times these are."""
    unread: tuple[str, ...] = ()

    @classmethod
    def of(cls, seen: Seen) -> Plan:
        """The plan from these observations. Times are those of the destination's gardenlet, or defaults if it reports
        none."""
        times = seen.times.get(seen.destination, MoveTimes())
        shoot = seen.shoot.decode(Shoot)
        source = shoot.status.seed_name or shoot.spec.seed_name or ""
        is_alive = _renews_lease(seen, source)[0]
        return cls(
            source,
            seen.destination,
            tuple(_refusals(seen)),
            tuple(_findings(seen, shoot, source)),
            tuple(
                [(source, name) for name in MIGRATE.tasks if is_alive]
                + [(seen.destination, name) for name in RECONCILE.tasks]
            ),
            good_case(times),
            bad_case(times, _give_up_after(seen, source)),
            is_alive,
            _at_risk(shoot, is_alive=is_alive),
            _times_note(seen, source),
            seen.unread,
        )

    def facts(self) -> Tree:
        """The same for programs."""
        tree: Tree = msgspec.to_builtins(self)
        return tree


def good_case(times: MoveTimes) -> Times:
    """The API gap of a move whose source works."""
    answered = times.timing.store_staleness + times.timing.store_timeout
    return Times.of(
        ("the source closes etcd and stores its final snapshot", answered),
        ("the destination copies it", answered),
        *_start(times),
    )


def bad_case(times: MoveTimes, give_up_after: float | None = None) -> Times:
    """The longest API gap of a move whose source is lost, counted from when the move is asked for."""
    return Times.of(
        ("the garden gives up on the source", give_up_after or GardenConfig().give_up_after),
        ("the destination proceeds without a final snapshot", times.timing.progress_timeout),
        ("leases of the source's extensions end", times.timing.lease_wait),
        *_start(times),
    )


def _start(times: MoveTimes) -> tuple[tuple[str, float], ...]:
    """The parts after ownership was taken: the DNS record changes while etcd and kube-apiserver start."""
    return (
        ("etcd and kube-apiserver start", START),
        ("resolvers forget the old address, after that", max(times.dns_ttl - START, 0)),
    )


def _give_up_after(seen: Seen, source: str) -> float | None:
    """The garden's time, if it has told it, and nobody has written anything else there."""
    seed = seen.seeds.get(source)
    try:
        seconds = float(seed.metadata.annotations[GIVE_UP_AFTER]) if seed is not None else 0.0
    except (KeyError, ValueError):
        return None
    return seconds if 0 < seconds < math.inf else None


def _times_note(seen: Seen, source: str) -> str:
    """A sentence about whose times a plan has, and what is wrong with them."""
    of_garden = "that of the garden is its own"
    if _give_up_after(seen, source) is None:
        of_garden = "the garden does not report its own, which is that of `espalier garden` by default"
    of_destination = seen.times.get(seen.destination)
    if of_destination is None:
        return f"Times are defaults: the gardenlet of seed {seen.destination} does not report its own; {of_garden}."
    of_source = seen.times.get(source)
    if of_source is not None and of_source.timing != of_destination.timing:
        differ = f"Seeds {source} and {seen.destination} run with different times"
        return f"{differ}: give both the same. These are the latter's; {of_garden}."
    return f"Times are those of the gardenlet of seed {seen.destination}; {of_garden}."


def _refusals(seen: Seen) -> Iterator[str]:
    old, moved = seen.shoot, seen.shoot.tree
    moved = {**moved, "spec": {**moved["spec"], "seedName": seen.destination}}
    placed = [(shoot.spec.seed_name, shoot.status.seed_name) for shoot in seen.shoots]
    garden = rules.Garden(seen.seeds.get, seen.profiles.get, lambda seed: sum(seed in seeds for seeds in placed))
    if old.decode(Shoot).spec.seed_name == seen.destination:
        yield f"spec.seedName: found {seen.destination}, where the shoot already is, or moves to; name another seed"
        return
    for violation in rules.violations(old, Object(encode_json(moved)), ADMIN, garden):
        yield str(violation)


def _findings(seen: Seen, shoot: Shoot, source: str) -> Iterator[Finding]:
    yield Finding(f"source {source} renews its Lease", *_renews_lease(seen, source))
    reason, message = unready(seen.seeds.get(seen.destination))
    yield Finding(f"destination {seen.destination} is ready", not reason, message or "its gardenlet reports it ready")
    yield _bucket(seen, "source", source, bucket_of_data(shoot) or _bucket_of_seed(seen, source))
    yield _bucket(seen, "destination", seen.destination, _bucket_of_seed(seen, seen.destination))
    for need in seen.needs:
        if not need.what.startswith("seed "):  # a seed has a finding of its own
            yield _need(seen.destination, need)
    yield _network(seen, source)
    yield _ownership(shoot, source)
    last = shoot.status.last_operation
    state = f"{last.type} {last.state}" if last is not None else "nothing yet"
    yield Finding("no operation is under way", last is not None and last.finished, f"the last one: {state}")
    yield _backups(shoot)


def _backups(shoot: Shoot) -> Finding:
    """The report of the source's gardenlet about its backups."""
    requirement = "backups are current, and others can read them"
    condition = _condition(shoot)
    if condition is None:
        return Finding(requirement, None, "no gardenlet has reported it yet")
    ready = {"True": True, "False": False}.get(condition.status)
    return Finding(requirement, ready, f"{condition.message} (as of {condition.last_update_time})")


def _condition(shoot: Shoot) -> Condition | None:
    return condition_list.get(shoot.status.conditions, READY_FOR_DISASTER)


def _bucket_of_seed(seen: Seen, name: str) -> str:
    seed = seen.seeds.get(name)
    return names.bucket(seed.metadata.uid) if seed is not None else ""


def _bucket(seen: Seen, role: str, name: str, bucket_name: str) -> Finding:
    bucket_of_role = f"bucket of {role} {name}"
    bucket = seen.buckets.get(bucket_name)
    if bucket is None:
        why = f"found no BackupBucket {bucket_name}" if bucket_name else f"there is no Seed {name}, which names it"
        return Finding(f"{bucket_of_role} is there", None if "backupbuckets" in seen.unread else False, why)
    status = bucket.status
    last = status.last_operation
    error = status.last_error.description if status.last_error is not None else ""
    is_ready = last is not None and last.finished
    reference = bucket.spec.credentials_ref or bucket.spec.secret_ref
    if role == "source" and reference is None:
        return Finding(f"the destination can open {bucket_of_role}", False, "it names no credentials in the garden")
    message = error or ("its last operation succeeded" if is_ready else "its seed has not reported it ready")
    if role == "source" and is_ready and reference is not None:
        message = f"its seed reports it ready; the destination gets Secret {reference.namespace}/{reference.name}"
    return Finding(f"{bucket_of_role} is ready", is_ready, message)


def _need(destination: str, need: Need) -> Finding:
    requirement = f"destination {destination} gets {need.what}"
    if need.problem is None:
        return Finding(requirement, None, need.note)
    return Finding(requirement, not need.problem, need.problem or need.note or "the Secret in the garden has data")


def _network(seen: Seen, source: str) -> Finding:
    """The report of the destination's gardenlet about its network."""
    requirement = f"the network of destination {seen.destination} reaches the store of source {source}"
    seed = seen.seeds.get(seen.destination)
    conditions = seed.status.conditions if seed is not None else []
    condition = condition_list.get(conditions, BUCKET_REACHABLE + source)
    if condition is None:
        return Finding(requirement, None, "its gardenlet has not reported it yet")
    ready = {"True": True, "False": False}.get(condition.status)
    return Finding(requirement, ready, f"{condition.message} (as of {condition.last_update_time})")


def _ownership(shoot: Shoot, source: str) -> Finding:
    try:
        epochs = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP))
    except OwnershipError as error:
        return Finding("ownership epochs can be read", False, str(error))
    last = epochs.last_started
    is_so = last is not None and last.seed == source
    message = f"epoch {last.epoch} of seed {last.seed} owns the data" if last is not None else "no epoch has started"
    return Finding(f"{source} owns the shoot's etcd", is_so, message)


def _renews_lease(seen: Seen, name: str) -> tuple[bool, str]:
    """The garden's report about a seed's gardenlet."""
    seed = seen.seeds.get(name)
    if seed is None:
        return False, "there is no such seed"
    ready = condition_list.get(seed.status.conditions, GARDENLET_READY)
    if ready is None:
        return False, "its gardenlet has not reported yet"
    return ready.status == "True", ready.message or "its gardenlet renews its Lease"


def _at_risk(shoot: Shoot, *, is_alive: bool) -> str:
    if is_alive:
        return "nothing that was acknowledged: the source stores a final snapshot before the move"
    condition = _condition(shoot)
    known = f"{condition.message}, as of {condition.last_update_time}" if condition is not None else "age unknown"
    return f"what was acknowledged since the last delta snapshot ({known})"
