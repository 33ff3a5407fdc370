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
from espalier.api.core import DEPLOYMENT, SECRET, Secret
from espalier.api.etcd.calls import BackupStatus
from espalier.api.etcd.ownership import first_start_key
from espalier.api.gardener import SHOOT_EXTENSION_KINDS
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import (
    EVERY_NODE_READY,
    READY_FOR_DISASTER,
    Shoot,
    ShootStatus,
)
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import migrating, seed_of
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.reasons import ControllerReason, ShootReason
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.predicates import any_change
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler, Report, replanned
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.bucket_providers import ENDPOINT, with_endpoint
from espalier.shoots.extension.dependents import DEPENDENTS_KEPT
from espalier.shoots.gardenlet.context import GardenletTools, Live, ShootHealth
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reports import reach
from espalier.shoots.gardenlet.reports.health import (
    BackupHealth,
    conditions,
    held_objects,
    is_control_plane_healthy,
)
from espalier.shoots.gardenlet.scope import Scope

_EXTENSIONS = {kind.resource.kind for kind in SHOOT_EXTENSION_KINDS}
LARGEST_ANSWER = 64 * 1024
SILENT_RECHECK = 10.0
"""Seconds until a gardenlet without a renewed Lease checks again."""
RETRY = 60.0
"""The longest time in seconds until a bucket that could not be read is tried again."""


@dataclass
class _Checks:
    """The last results for one shoot in an epoch, and the times of the next requests, by the monotonic clock."""

    epoch: int
    agent_due: float
    bucket_due: float
    answer: tuple[BackupStatus | None, datetime] | None = None
    """The agent's answer, and its time."""
    bucket: tuple[str, bool, bool] | None = None
    """The reason why the garden's credentials can't read it, whether that was tried, and whether they name an endpoint
    that the Seed does not have."""
    shoot_due: float = math.inf
    was_healthy: bool = False
    """True if its control plane was healthy when it was last observed."""
    was_settled: bool = False
    """True if no operation was running when it was last observed."""
    shoot: ShootHealth | None = None
    """The answer of its API server."""


def controller(
    observer: ShootObserver,
    tools: GardenletTools,
    rng: random.Random,
    is_lease_renewed: Callable[[], bool] = lambda: True,
    state_problem: Callable[[Key], str] = lambda _key: "",
) -> Controller:
    """The controller of the seed's shoots. While the garden receives no Lease renewal, the garden reports their
    state. `state_problem`: the reason why a ShootState is not up to date."""
    care = Care(observer, tools, rng, is_lease_renewed, state_problem)
    shoots = Reconciled(Shoot.resource, observer.shoot, care.observe, lambda _observation: (care.check,), _report)
    reconciler = Reconciler(shoots, tools.garden, forget=(care.forget,))
    care_controller = Controller("shoot-care", replanned(reconciler.reconcile), workers=5, rng=rng)
    care_controller.watch(observer.garden[Shoot.resource])

    def of_seed(seed: Object) -> list[Key]:
        """All shoots of this seed: another seed may have reported whether it reaches their bucket."""
        if seed.name == observer.seed_name:
            return []
        return [shoot.key for shoot in observer.shoots() if shoot.decode(Shoot).status.seed_name == observer.seed_name]

    care_controller.watch(observer.garden[Seed.resource], of_seed)
    care_controller.watch(
        observer.garden[Seed.resource],
        lambda seed: [shoot.key for shoot in observer.shoots()] if seed.name == observer.seed_name else [],
        predicate=lambda old, new: old is None or new is None,
    )

    def of_object(object_: Object) -> list[Key]:
        """The shoot of an object, or all shoots of this seed: names of backups are not those of namespaces."""
        key = observer.shoot_of(object_.namespace or object_.name)
        if key is not None or object_.namespace:
            return [key] if key is not None else []
        return [shoot.key for shoot in observer.shoots() if shoot.decode(Shoot).status.seed_name == observer.seed_name]

    for resource, cache in observer.seed.items():
        is_always = resource in (DEPLOYMENT, Etcd.resource)
        care_controller.watch(cache, of_object, predicate=any_change if is_always else _deletions_changed)
    return care_controller


def _deletions_changed(old: Object | None, new: Object | None) -> bool:
    """True if an object begins or ends to be deleted, as by its finalizers, or what it says of others."""
    return _deletion(old) != _deletion(new)


def _deletion(object_: Object | None) -> tuple[object, ...]:
    if object_ is None:
        return ()
    metadata, status = object_.metadata, object_.tree.get("status")
    others = status.get("conditions") if isinstance(status, dict) and object_.kind in _EXTENSIONS else None
    reported = [item.get("message") for item in others or () if item.get("type") == DEPENDENTS_KEPT]
    deleted = (metadata.deletion_timestamp, tuple(metadata.finalizers)) if metadata.deletion_timestamp else ()
    return (*deleted, *reported)


@dataclass
class _Observation:
    """The observation of a shoot."""

    object: Object
    status: ShootStatus | None = None
    """The status with the new conditions; None if there is nothing to report."""


def _report(observation: _Observation, _outcome: Outcome) -> Report | None:
    """The status, written by version: the garden writes conditions beside these."""
    if observation.status is None:
        return None
    return Report(observation.status, before=observation.object.decode(Shoot).status, precondition=Precondition.VERSION)


class Care:
    """Keeps the conditions of shoots up to date."""

    def __init__(
        self,
        observer: ShootObserver,
        tools: GardenletTools,
        rng: random.Random,
        is_lease_renewed: Callable[[], bool],
        state_problem: Callable[[Key], str] = lambda _key: "",
    ) -> None:
        self._state_problem = state_problem
        self._observer, self._tools, self._rng, self._is_lease_renewed = observer, tools, rng, is_lease_renewed
        self._checks: dict[Key, _Checks] = {}
        """After a restart everything is checked again; until then conditions stay as they are."""

    def observe(self, shoot: Object) -> _Observation | None:
        """The observation of a shoot of this seed."""
        return _Observation(shoot) if self._is_ours(shoot) else None

    def forget(self, key: Key) -> None:
        """Drop the results of a shoot that is gone."""
        self._checks.pop(key, None)

    async def check(self, observation: _Observation) -> Outcome:
        """Make the requests that are due, and set the conditions."""
        live, key = observation.object, observation.object.key
        if not self._is_lease_renewed():
            return Wait(
                ControllerReason.SEED_LEASE_NOT_RENEWED,
                "the seed has stopped renewing its Lease; the garden reports it",
                after=SILENT_RECHECK,
            )
        try:
            scope = self._observer.scope(Live(live, None), self._tools.clock.now())
        except OwnershipError:
            return Done()  # its flow reports it
        if not scope.is_owner:
            return Done()
        backups = await self._backups(key, scope)
        status = scope.shoot.status
        shoot = await self._shoot_health(key, scope)
        wanted_conditions = merged(status.conditions, conditions(scope, backups, shoot), scope.now)
        observation.status = msgspec.structs.replace(status, conditions=wanted_conditions)
        checks = self._checks[key]
        due = min(checks.agent_due, checks.bucket_due, checks.shoot_due) - self._tools.clock.monotonic()
        after = self._tools.config.care if backups is None else max(1.0, due)
        _, remaining = held_objects(scope)
        after = min(after, remaining if remaining is not None else math.inf)
        return Wait(ControllerReason.BACKUP_CHECK_SCHEDULED, "its backups will be checked again", after=after)

    def _is_ours(self, live: Object) -> bool:
        typed, seed = live.decode(Shoot), self._tools.config.seed
        is_here = typed.status.seed_name == seed == seed_of(typed) and typed.status.last_operation is not None
        return is_here and not migrating(typed) and not self._observer.technical_id_conflict(live)

    async def _backups(self, key: Key, scope: Scope) -> BackupHealth | None:
        """The state of backups, requested again if due; None until all of it is known."""
        now, config = self._tools.clock.monotonic(), self._tools.config
        checks = self._checks.get(key)
        if checks is None or checks.epoch != scope.epoch:
            checks = self._checks[key] = _Checks(scope.epoch, now, self._first_read(scope, now))
        etcd = scope.typed_etcd
        is_new = checks.bucket is None and not scope.is_hibernated and (etcd is None or not etcd.status.ready)
        if not scope.is_started or is_new:
            return None
        is_healthy = is_control_plane_healthy(scope)
        if is_healthy is not checks.was_healthy:  # the results of both are probably outdated
            checks.was_healthy = is_healthy
            checks.agent_due = now
            if not is_healthy:
                checks.bucket_due = now
        if now >= checks.agent_due:
            checks.agent_due = self._next_check(config.care)
            if not scope.is_hibernated:
                checks.answer = await self._agent_status(scope), self._tools.clock.now()
        if now >= checks.bucket_due:
            checks.bucket = await self._bucket(scope) or checks.bucket
            is_good = checks.bucket is not None and not checks.bucket[0]
            checks.bucket_due = self._next_check(config.bucket_check if is_good else min(RETRY, config.bucket_check))
        if checks.bucket is None or (checks.answer is None and not scope.is_hibernated):
            return None
        status, at = checks.answer or (None, None)
        unreadable, is_checked, is_elsewhere = checks.bucket
        seeds = (seed.decode(Seed) for seed in self._observer.garden[Seed.resource].list())
        others = reach.reports(scope.shoot, scope.seed_name, seeds)
        return BackupHealth(status, at, unreadable, is_checked, others, is_elsewhere, self._state_problem(key))

    async def _shoot_health(self, key: Key, scope: Scope) -> ShootHealth | None:
        """The health of nodes and system components, requested again if due, and at once after an operation."""
        checks, shoots, last = self._checks[key], self._tools.shoots, scope.shoot.status.last_operation
        if shoots is None or scope.is_hibernated:
            checks.shoot, checks.shoot_due = None, math.inf
            return None
        now, is_settled = self._tools.clock.monotonic(), last is not None and last.finished
        is_known = condition_list.get(scope.shoot.status.conditions, EVERY_NODE_READY) is not None
        if is_settled and not checks.was_settled and (checks.shoot is not None or not is_known):
            checks.shoot_due = now
        elif checks.shoot_due == math.inf:  # it was checked by another process: spread the first requests
            checks.shoot_due = now + self._rng.random() * self._tools.config.care
        checks.was_settled = is_settled
        if now >= checks.shoot_due:
            checks.shoot_due = self._next_check(self._tools.config.care)
            checks.shoot = await shoots.health(scope.technical_id)
        return checks.shoot

    def _first_read(self, scope: Scope, now: float) -> float:
        """The time of the first read of a bucket: at once if the shoot has no report yet; else spread, because after a
        restart all buckets are due."""
        before = condition_list.get(scope.shoot.status.conditions, READY_FOR_DISASTER)
        is_known = before is not None and before.reason not in (ShootReason.HANDED_OVER, ShootReason.SEED_GIVEN_UP)
        return now + self._rng.random() * self._tools.config.bucket_check / 4 if is_known else now

    def _next_check(self, seconds: float) -> float:
        return self._tools.clock.monotonic() + seconds * (0.75 + self._rng.random() / 2)

    async def _agent_status(self, scope: Scope) -> BackupStatus | None:
        try:
            text = await self._tools.call(scope.technical_id, "backup/status", b"", scope.peer_files)
            status = json_trees.decode(text[:LARGEST_ANSWER], BackupStatus)
        except Exception:  # a call may fail in any way
            return None
        return status if status.epoch == scope.epoch else None

    async def _bucket(self, scope: Scope) -> tuple[str, bool, bool] | None:
        """The value of `_Checks.bucket`: reads one small object with the credentials that another seed would get.
        None if the garden does not answer."""
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
        secret_name = f"Secret {reference.namespace}/{reference.name} of the garden"
        try:
            secret = await self._tools.garden.client.get(SECRET, reference.name, reference.namespace)
        except NotFound:
            return f"{secret_name} does not exist: no other seed can read bucket {name}", True, False
        except KubeError:
            return None
        data = secret.decode(Secret).data
        endpoint = reach.endpoint_of(scope.seed, self._tools.bucket_providers)
        if endpoint is None and not data.get(ENDPOINT):
            address = reach.address_of(scope.seed) if scope.seed is not None else None
            why = address.unknown if address is not None else "its Seed does not exist"
            return f"the endpoint of bucket {name} is not known: {why}", True, False
        credentials = with_endpoint(data, endpoint or "")
        is_elsewhere = reach.is_elsewhere(credentials, scope.seed)
        if read is None:
            return "", False, is_elsewhere
        problem = await read(store, credentials, first_start_key(scope.epoch))
        return f"with {secret_name} bucket {name} can't be read: {problem}" if problem else "", True, is_elsewhere
