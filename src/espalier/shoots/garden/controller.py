"""The garden's controllers: readiness of seeds, scheduling of new shoots, and migrations.

None of them changes the seed of a shoot that has one: only people do.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.conditions import timestamp
from espalier.api.gardener import names, ownership
from espalier.api.gardener.garden.backups import BackupBucket, BackupBucketStatus
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import CLOCKS_AGREE, GARDENLET_READY, Seed, SeedStatus
from espalier.api.gardener.garden.shoot import READY_FOR_MIGRATION, REPORTED_BY_GARDENLET, Shoot, ShootStatus
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import migrating
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE, GIVE_UP_AFTER, OWNERSHIP
from espalier.api.gardener.vocabulary.operations import Condition, LastOperation, OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ControllerReason, SeedReason, ShootReason
from espalier.api.resource import Key
from espalier.kube.errors import Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.reconciler import replanned
from espalier.runtime.controllers.writer import Precondition, Writer
from espalier.shoots.admission.shoot_rules import moves
from espalier.shoots.admission.shoot_rules.shoots import Garden as Lookups
from espalier.shoots.admission.shoot_rules.shoots import unmovable
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.readiness import choose, placed, unready
from espalier.shoots.garden.seed_leases import SeedLeases


class Garden:
    """The controllers of one garden, with its caches."""

    def __init__(
        self, caches: Caches, writer: Writer, clock: Clock, config: GardenConfig, seed_leases: SeedLeases
    ) -> None:
        self._shoots = caches.of(Shoot.resource)
        self._seeds = caches.of(Seed.resource)
        self._buckets = caches.of(BackupBucket.resource)
        self._profiles = caches.of(CloudProfile.resource)
        self._writer = writer
        self._clock, self._config, self._seed_leases = clock, config, seed_leases

    def controllers(self) -> list[Controller]:
        """Return the controllers, with their watches."""
        seeds = Controller("seed-lifecycle", replanned(self._seed), workers=2)
        seeds.watch(self._seeds)
        scheduler = Controller("shoot-scheduler", replanned(self._schedule), workers=2)
        scheduler.watch(self._shoots)
        for cache in (self._seeds, self._profiles):
            scheduler.watch(
                cache, lambda _object: [shoot.key for shoot in self._shoots.list() if _is_unscheduled(shoot)]
            )
        migration = Controller("shoot-migration", replanned(self._migrate), workers=5)
        migration.watch(self._shoots)
        migration.watch(self._seeds, self._shoots_assigned_to)
        migration.watch(self._buckets, self._migrating_shoots)
        return [seeds, scheduler, migration]

    def _shoots_assigned_to(self, seed: Object) -> list[Key]:
        """The shoots assigned to a seed that migrate there, or have no epoch of it yet."""
        return [
            shoot.key
            for shoot in self._shoots.list()
            if (typed := shoot.decode(Shoot)).spec.seed_name == seed.name
            and (migrating(typed) or not _is_owner(shoot, seed.name))
        ]

    def _migrating_shoots(self, _bucket: Object) -> list[Key]:
        return [shoot.key for shoot in self._shoots.list() if migrating(shoot.decode(Shoot))]

    # Seeds.

    async def _seed(self, key: Key) -> Outcome:
        live = self._seeds.get(key)
        if live is None:
            return Done()
        if not self._seed_leases.is_observed:
            return Wait(ControllerReason.CACHE_NOT_SYNCED, "the Leases of seeds are not synced yet", after=1)
        silence = self._seed_leases.silence(key.name)
        status = live.decode(Seed).status
        has_begun = self._seed_leases.has_lease(key.name)
        is_alive = silence < self._config.heartbeat_grace and has_begun
        since = "has not renewed Lease {} for some time" if has_begun else "has never created Lease {}"
        ready = Condition(
            GARDENLET_READY,
            "True" if is_alive else "Unknown",
            Satisfied.GARDENLET_READY if is_alive else SeedReason.SEED_STATUS_UNKNOWN,
            "" if is_alive else f"its gardenlet {since.format(key.name)}: check whether it runs",
        )
        reported = [ready, *self._clock_condition(status, self._seed_leases.skew(key.name))]
        conditions = merged(status.conditions, reported, self._clock.now())
        wanted = msgspec.structs.replace(status, conditions=conditions)
        # By version: the seed's gardenlet writes conditions beside this one.
        written = await self._writer.status(Seed.resource, live, wanted, Precondition.VERSION, before=status)
        if not is_alive and self._seed_leases.has_lease(key.name):
            await self._report_unknown(key.name)
        own = {"metadata": {"annotations": {GIVE_UP_AFTER: f"{self._config.give_up_after:g}"}}}
        with suppress(Forbidden):  # a role of before: plans say that the time is unknown
            await self._writer.merge(Seed.resource, written, own, Precondition.UID)
        return Wait(
            ControllerReason.LEASE_CHECK_SCHEDULED, "its Lease will be read again", after=self._config.monitor_period
        )

    def _clock_condition(self, status: SeedStatus, skew: float | None) -> list[Condition]:
        """Condition ClocksAgree; none while it is True and was never False, or if the skew is unknown."""
        if skew is None:
            return []
        if not skew:
            was_reported = condition_list.get(status.conditions, CLOCKS_AGREE) is not None
            return [Condition(CLOCKS_AGREE, "True", Satisfied.CLOCKS_AGREE, "")] if was_reported else []
        side = "ahead of" if skew > 0 else "behind"
        message = (
            f"the clock of its gardenlet is more than {self._config.clock_skew:g} s {side} the garden's: extensions "
            "pause, or act on a lease that has ended; correct whichever is wrong"
        )
        return [Condition(CLOCKS_AGREE, "False", SeedReason.CLOCK_SKEW, message)]

    async def _report_unknown(self, seed: str) -> None:
        """Set the conditions of a silent seed's shoots to Unknown; its gardenlet reports them again when it is back."""
        message = f"the gardenlet of seed {seed} has stopped renewing its Lease"
        for shoot in self._shoots.list():
            status = shoot.decode(Shoot).status
            if status.seed_name == seed:
                wanted = msgspec.structs.replace(
                    status, conditions=_unknown(status, ShootReason.STATUS_UNKNOWN, message, self._clock.now())
                )
                with suppress(Conflict, NotFound):  # the next reconcile tries again
                    await self._writer.status(Shoot.resource, shoot, wanted, Precondition.VERSION, before=status)

    # Seeds of new shoots.

    async def _schedule(self, key: Key) -> Outcome:
        live = self._shoots.get(key)
        if live is None or not _is_unscheduled(live) or live.metadata.deletion_timestamp is not None:
            return Done()
        typed = live.decode(Shoot)
        counts = placed(other.decode(Shoot) for other in self._shoots.list())
        profile = self._profile(typed.spec.profile)
        chosen, why = choose(typed, [candidate.decode(Seed) for candidate in self._seeds.list()], counts, profile)
        if chosen is None:
            last = LastOperation(
                OperationType.CREATE, OperationState.PENDING, f"no seed can take the shoot: {why}"[:2048]
            )
            await self._write_operation(live, typed.status, last)
            return Wait(ControllerReason.SEED_MISSING, why)
        await self._writer.merge(Shoot.resource, live, {"spec": {"seedName": chosen}})
        return Done()

    def _profile(self, name: str) -> CloudProfile | None:
        profile = self._profiles.get(Key("", name))
        return profile.decode(CloudProfile) if profile is not None else None

    async def _write_operation(self, live: Object, status: ShootStatus, last: LastOperation) -> None:
        before = status.last_operation
        if before is None or msgspec.structs.replace(before, last_update_time="") != last:
            timed = msgspec.structs.replace(last, last_update_time=timestamp(self._clock.now()))
            wanted = msgspec.structs.replace(status, last_operation=timed)
            await self._writer.status(Shoot.resource, live, wanted, Precondition.VERSION, before=status)

    # Migrations.

    async def _migrate(self, key: Key) -> Outcome:
        live = self._shoots.get(key)
        if live is None or _is_unscheduled(live):
            return Done()
        typed = live.decode(Shoot)
        wanted = typed.spec.seed_name or ""
        if not migrating(typed):
            live = await self._remove_constraint(live)
            return await self._add_epoch(live, wanted)
        seed = self._seeds.get(Key("", wanted))
        reason, message = unready(
            seed.decode(Seed) if seed is not None else None,
            is_deleted=seed is not None and seed.metadata.deletion_timestamp is not None,
        )
        if not reason and seed is not None and (problem := self._bucket_problem(seed)):
            reason, message = ShootReason.DESTINATION_SEED_UNREADY, problem
        if not reason and (refusals := self._refusals(typed)):
            reason, message = ShootReason.MOVE_REFUSED, refusals
        ready = Condition(
            READY_FOR_MIGRATION, "False" if reason else "True", reason or Satisfied.DESTINATION_SEED_READY, message
        )
        now = self._clock.now()
        status = live.decode(Shoot).status
        wanted_status = msgspec.structs.replace(status, constraints=merged(status.constraints, [ready], now))
        live = await self._writer.status(Shoot.resource, live, wanted_status, Precondition.VERSION, before=status)
        if reason:
            return Wait(reason, message, after=self._config.monitor_period if reason == "MoveRefused" else None)
        return await self._await_source(live)

    def _refusals(self, shoot: Shoot) -> str:
        """The violations of a move that has not begun: it may have been requested while no webhook was called."""
        if moves.has_begun(shoot) or shoot.metadata.deletion_timestamp is not None:
            return ""
        others = placed(
            other.decode(Shoot) for other in self._shoots.list() if other.metadata.uid != shoot.metadata.uid
        )

        def seed(name: str) -> Seed | None:
            live = self._seeds.get(Key("", name))
            return live.decode(Seed) if live is not None else None

        lookups = Lookups(seed, self._profile, others.__getitem__)
        refusals = "; ".join(str(violation) for violation in unmovable(shoot, lookups))
        return (
            refusals and f"{refusals}. Name seed {shoot.status.seed_name} again, or another one that can have the shoot"
        )

    def _bucket_problem(self, seed: Object) -> str:
        live = self._buckets.get(Key("", names.bucket(seed.metadata.uid)))
        status = live.decode(BackupBucket).status if live is not None else BackupBucketStatus()
        if status.last_operation is not None and status.last_operation.finished:
            return ""
        why = f": {status.last_error.description}" if status.last_error is not None else ""
        return f"the BackupBucket of seed {seed.name} is not ready{why}"

    async def _await_source(self, live: Object) -> Outcome:
        """Wait until the source hands the shoot over.

        One that is silent for too long is given up: the destination starts without it (the bad case, G43).
        """
        typed = live.decode(Shoot)
        source = typed.status.seed_name or ""
        silence, grace = self._seed_leases.silence(source), self._config.give_up_after
        is_forced = live.metadata.annotations.get(FORCE_RESTORE) == "true"
        if not is_forced and silence < grace:
            return Wait(
                ControllerReason.SOURCE_MIGRATING,
                f"seed {source} has {grace - silence:.0f} s left to hand the shoot over",
                after=self._config.monitor_period,
            )
        why = "as requested" if is_forced else f"which was silent for {silence:.0f} s"
        description = f"seed {source} was given up, {why}; seed {typed.spec.seed_name} continues without it"
        last = LastOperation(
            OperationType.MIGRATE, OperationState.ABORTED, description, 100, timestamp(self._clock.now())
        )
        wanted = msgspec.structs.replace(
            typed.status,
            seed_name=typed.spec.seed_name,
            last_operation=last,
            last_errors=[],
            conditions=_unknown(
                typed.status, ShootReason.SEED_GIVEN_UP, f"seed {source} was given up", self._clock.now()
            ),
        )
        await self._writer.status(Shoot.resource, live, wanted, Precondition.VERSION, before=typed.status)
        return Done()

    async def _remove_constraint(self, live: Object) -> Object:
        status = live.decode(Shoot).status
        constraints = [constraint for constraint in status.constraints if constraint.type != READY_FOR_MIGRATION]
        wanted = msgspec.structs.replace(status, constraints=constraints)
        live = await self._writer.status(Shoot.resource, live, wanted, Precondition.VERSION, before=status)
        if FORCE_RESTORE in live.metadata.annotations:  # it was for the finished move; the next one needs its own
            patch = {"metadata": {"annotations": {FORCE_RESTORE: None}}}
            live = await self._writer.merge(Shoot.resource, live, patch)
        return live

    async def _add_epoch(self, live: Object, wanted: str) -> Outcome:
        """Add an ownership epoch for the responsible seed, if it is not the owner. Written by version."""
        seed = self._seeds.get(Key("", wanted))
        if _is_owner(live, wanted):
            return Done()
        if seed is None:
            return Wait(ControllerReason.SEED_MISSING, f"there is no seed {wanted}")
        try:
            epochs = ownership.parse(live.metadata.annotations.get(OWNERSHIP))
            annotation = epochs.add(wanted, names.bucket(seed.metadata.uid)).render()
        except OwnershipError as error:
            return Fault(ControllerReason.OWNERSHIP_UNREADABLE, f"annotation {OWNERSHIP}: {error}", terminal=True)
        await self._writer.merge(Shoot.resource, live, {"metadata": {"annotations": {OWNERSHIP: annotation}}})
        return Done()


def _is_unscheduled(shoot: Object) -> bool:
    return not shoot.decode(Shoot).spec.seed_name


def _is_owner(shoot: Object, seed: str) -> bool:
    try:
        current = ownership.parse(shoot.metadata.annotations.get(OWNERSHIP)).current
    except OwnershipError:
        return False
    return current is not None and current.seed == seed


def _unknown(status: ShootStatus, reason: str, message: str, now: datetime) -> list[Condition]:
    """The conditions, with those that the gardenlet reports set to Unknown."""
    types = [condition.type for condition in status.conditions if condition.type in REPORTED_BY_GARDENLET]
    return merged(status.conditions, [Condition(type, "Unknown", reason, message) for type in types], now)
