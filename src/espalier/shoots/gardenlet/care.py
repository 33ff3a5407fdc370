"""The controller that reports the health of a shoot: from caches at once; periodically from its etcd's agent, its
bucket and its API server.

Requests are rare and randomly spread, so that a gardenlet with many shoots has an even load. Nothing is reported for a
shoot that is being moved away: its operation reports its progress.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import msgspec

from espalier.api import conditions as condition_list
from espalier.api import json_trees
from espalier.api.core import DEPLOYMENT, SECRET, Secret
from espalier.api.etcd.calls import BackupStatus
from espalier.api.etcd.ownership import first_start_key
from espalier.api.gardener.conditions import merged
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import migrating, seed_of
from espalier.api.gardener.seed import Seed
from espalier.api.gardener.shoot import (
    EVERY_NODE_READY,
    HANDED_OVER,
    READY_FOR_DISASTER,
    SEED_GIVEN_UP,
    Shoot,
    ShootStatus,
)
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controller import Controller
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.runtime.reconciler import Reconciled, Reconciler, Report, replanned
from espalier.runtime.writer import Precondition
from espalier.shoots.gardenlet import reach
from espalier.shoots.gardenlet.context import Live, ShootHealth, Tools
from espalier.shoots.gardenlet.health import Backups, conditions, is_control_plane_healthy
from espalier.shoots.gardenlet.observe import Observer
from espalier.shoots.gardenlet.scope import Scope
from espalier.shoots.local_provider.backups import ENDPOINT, with_endpoint

LARGEST_ANSWER = 64 * 1024
SILENT_RECHECK = 10.0
"""Seconds until a gardenlet without a renewed Lease checks again."""
AGAIN = 60.0
"""Seconds until a bucket that could not be read is tried again."""


@dataclass
class _Asked:
    """The last results on one shoot's backups in an epoch, and the times of the next requests."""

    epoch: int
    agent_due: float
    bucket_due: float
    answer: tuple[BackupStatus | None, datetime] | None = None
    """The agent's answer, and its time."""
    bucket: tuple[str, bool, bool] | None = None
    """The reason why another seed could not read it, whether that was tried, and whether others can't know where it
    is."""
    shoot_due: float = math.inf
    was_healthy: bool = False
    """True if its control plane was healthy when it was last observed."""
    was_settled: bool = False
    """True if no operation was running when it was last observed."""
    shoot: ShootHealth | None = None
    """The answer of its API server."""


def controller(
    observer: Observer, tools: Tools, rng: random.Random, is_lease_renewed: Callable[[], bool] = lambda: True
) -> Controller:
    """The controller of the seed's shoots. While the garden receives no Lease renewal, the garden reports their
    state."""
    care = Care(observer, tools, rng, is_lease_renewed)
    shoots = Reconciled(Shoot.resource, observer.shoot, care.observe, lambda _observation: (care.check,), _report)
    reconciler = Reconciler(shoots, tools.garden, forget=(care.forget,))
    made = Controller("shoot-care", replanned(reconciler.reconcile), workers=5, rng=rng)
    made.watch(observer.garden[Shoot.resource])

    def of_namespace(found: Object) -> list[Key]:
        key = observer.shoot_of(found.namespace)
        return [key] if key is not None else []

    def of_another(found: Object) -> list[Key]:
        """All shoots here: another seed may have said whether it reaches their bucket."""
        if found.name == observer.seed_name:
            return []
        return [one.key for one in observer.shoots() if one.decode(Shoot).status.seed_name == observer.seed_name]

    made.watch(observer.garden[Seed.resource], of_another)
    made.watch(
        observer.garden[Seed.resource],
        lambda found: [one.key for one in observer.shoots()] if found.name == observer.seed_name else [],
        predicate=lambda old, new: old is None or new is None,
    )
    made.watch(observer.seed[DEPLOYMENT], of_namespace)
    made.watch(observer.seed[Etcd.resource], of_namespace)
    return made


@dataclass
class _Observation:
    """The observation of a shoot."""

    object: Object
    said: ShootStatus | None = None
    """The status with the conditions; None if nothing is to be said."""


def _report(observation: _Observation, _outcome: Outcome) -> Report | None:
    """By version: the garden writes conditions beside these."""
    if observation.said is None:
        return None
    return Report(observation.said, before=observation.object.decode(Shoot).status, precondition=Precondition.VERSION)


class Care:
    """Keeps the conditions of shoots up to date."""

    def __init__(
        self, observer: Observer, tools: Tools, rng: random.Random, is_lease_renewed: Callable[[], bool]
    ) -> None:
        self._observer, self._tools, self._rng, self._is_lease_renewed = observer, tools, rng, is_lease_renewed
        self._asked: dict[Key, _Asked] = {}
        """After a restart everything is checked again; until then conditions stay as they are."""

    def observe(self, found: Object) -> _Observation | None:
        """The observation of a shoot of this seed."""
        return _Observation(found) if self._is_ours(found) else None

    def forget(self, key: Key) -> None:
        """Nothing is asked about the shoot any more."""
        self._asked.pop(key, None)

    async def check(self, observation: _Observation) -> Outcome:
        """Find out how the shoot is, as far as is due."""
        found, key = observation.object, observation.object.key
        if not self._is_lease_renewed():
            return Wait(
                "SeedLeaseNotRenewed",
                "the seed has stopped renewing its Lease; the garden reports it",
                after=SILENT_RECHECK,
            )
        try:
            scope = self._observer.scope(Live(found, None), self._tools.clock.now())
        except OwnershipError:
            return Done()  # its flow says so
        if not scope.is_owner:
            return Done()
        backups = await self._ask(key, scope)
        status = scope.shoot.status
        shoot = await self._shoot(key, scope)
        wanted = merged(status.conditions, conditions(scope, backups, shoot), scope.now)
        observation.said = msgspec.structs.replace(status, conditions=wanted)
        asked = self._asked[key]
        due = min(asked.agent_due, asked.bucket_due, asked.shoot_due) - self._tools.clock.monotonic()
        after = self._tools.config.care if backups is None else max(1.0, due)
        return Wait("BackupCheckScheduled", "its backups will be checked again", after=after)

    def _is_ours(self, found: Object) -> bool:
        typed, seed = found.decode(Shoot), self._tools.config.seed
        is_whole = typed.status.seed_name == seed == seed_of(typed) and typed.status.last_operation is not None
        return is_whole and not migrating(typed) and not self._observer.claims_another(found)

    async def _ask(self, key: Key, scope: Scope) -> Backups | None:
        """The state of backups, requested again if due; None until all of it is known."""
        now, config = self._tools.clock.monotonic(), self._tools.config
        asked = self._asked.get(key)
        if asked is None or asked.epoch != scope.epoch:
            asked = self._asked[key] = _Asked(scope.epoch, now, self._first(scope, now))
        etcd = scope.typed_etcd
        is_new = asked.bucket is None and not scope.is_hibernated and (etcd is None or not etcd.status.ready)
        if not scope.is_started or is_new:
            return None
        is_healthy = is_control_plane_healthy(scope)
        if is_healthy is not asked.was_healthy:  # what both have said is probably over
            asked.was_healthy = is_healthy
            asked.agent_due = now
            if not is_healthy:
                asked.bucket_due = now
        if now >= asked.agent_due:
            asked.agent_due = self._later(config.care)
            if not scope.is_hibernated:
                asked.answer = await self._status(scope), self._tools.clock.now()
        if now >= asked.bucket_due:
            asked.bucket = await self._bucket(scope) or asked.bucket
            is_good = asked.bucket is not None and not asked.bucket[0]
            asked.bucket_due = self._later(config.bucket_check if is_good else min(AGAIN, config.bucket_check))
        if asked.bucket is None or (asked.answer is None and not scope.is_hibernated):
            return None
        status, at = asked.answer or (None, None)
        unreadable, is_checked, is_elsewhere = asked.bucket
        seeds = (one.decode(Seed) for one in self._observer.garden[Seed.resource].list())
        others = reach.reports(scope.shoot, scope.seed_name, seeds)
        return Backups(status, at, unreadable, is_checked, others, is_elsewhere)

    async def _shoot(self, key: Key, scope: Scope) -> ShootHealth | None:
        """The answer of its API server, requested again if due, and at once after an operation."""
        asked, shoots, last = self._asked[key], self._tools.shoots, scope.shoot.status.last_operation
        if shoots is None or scope.is_hibernated:
            asked.shoot, asked.shoot_due = None, math.inf
            return None
        now, is_settled = self._tools.clock.monotonic(), last is not None and last.finished
        is_known = condition_list.get(scope.shoot.status.conditions, EVERY_NODE_READY) is not None
        if is_settled and not asked.was_settled and (asked.shoot is not None or not is_known):
            asked.shoot_due = now
        elif asked.shoot_due == math.inf:  # of another process: not all of them at a time
            asked.shoot_due = now + self._rng.random() * self._tools.config.care
        asked.was_settled = is_settled
        if now >= asked.shoot_due:
            asked.shoot_due = self._later(self._tools.config.care)
            asked.shoot = await shoots.health(scope.technical_id)
        return asked.shoot

    def _first(self, scope: Scope, now: float) -> float:
        """A bucket is read at once, unless this process has just started: then not all of them are read at a time."""
        before = condition_list.get(scope.shoot.status.conditions, READY_FOR_DISASTER)
        is_known = before is not None and before.reason not in (HANDED_OVER, SEED_GIVEN_UP)
        return now + self._rng.random() * self._tools.config.bucket_check / 4 if is_known else now

    def _later(self, seconds: float) -> float:
        return self._tools.clock.monotonic() + seconds * (0.75 + self._rng.random() / 2)

    async def _status(self, scope: Scope) -> BackupStatus | None:
        try:
            text = await self._tools.call(scope.technical_id, "backup/status", b"")
            found = json_trees.decode(text[:LARGEST_ANSWER], BackupStatus)
        except Exception:  # a call may fail in any way
            return None
        return found if found.epoch == scope.epoch else None

    async def _bucket(self, scope: Scope) -> tuple[str, bool, bool] | None:
        """The value of `_Asked.bucket`: one small object is read, with the credentials that the garden has for others.
        None where the garden can't be asked for them."""
        read, etcd, bucket = self._tools.read_backup, scope.typed_etcd, scope.bucket
        store = etcd.spec.backup.store if etcd is not None else None
        if bucket is None or store is None:
            return "", False, False
        name = bucket.metadata.name
        reference = bucket.spec.credentials_ref or bucket.spec.secret_ref
        if reference is None:
            return (
                f"BackupBucket {name} names no credentials (spec.credentialsRef): no other seed can read it",
                True,
                False,
            )
        where = f"Secret {reference.namespace}/{reference.name} of the garden"
        try:
            secret = await self._tools.garden.client.get(SECRET, reference.name, reference.namespace)
        except NotFound:
            return f"{where} does not exist: no other seed can read bucket {name}", True, False
        except KubeError:
            return None
        files, endpoint = secret.decode(Secret).data, reach.endpoint_of(scope.seed)
        if endpoint is None and not files.get(ENDPOINT):
            place = reach.place_of(scope.seed) if scope.seed is not None else None
            why = place.unknown if place is not None else "its Seed does not exist"
            return f"the endpoint of bucket {name} is not known: {why}", True, False
        credentials = with_endpoint(files, endpoint or "")
        is_elsewhere = reach.is_elsewhere(credentials, scope.seed)
        if read is None:
            return "", False, is_elsewhere
        problem = await read(store, credentials, first_start_key(scope.epoch))
        return f"with {where} bucket {name} can't be read: {problem}" if problem else "", True, is_elsewhere
