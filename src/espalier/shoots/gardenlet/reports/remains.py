"""The controller that reports in the own Seed what shoots have left in this seed that were moved or deleted elsewhere.

Only its gardenlet can remove that, and it loses its rights with its Seed: so the Seed is deleted afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.core import NAMESPACE
from espalier.api.gardener.extensions import extension_backups
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.seed import SHOOTS_REMOVED, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import seed_of
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.gardener.vocabulary.reasons import SeedReason
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.kube.objects import Object
from espalier.runtime.controllers import reconciler
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.shoots.gardenlet.context import GardenletTools
from espalier.shoots.gardenlet.names import SHOOT_UID
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reports.seed_status import SeedObservation, report

MOST_NAMED = 5
SPACING = 5.0
"""Seconds between two reports: many shoots may leave at once."""


def controller(observer: ShootObserver, tools: GardenletTools) -> Controller:
    """The controller; it reconciles the own Seed only."""
    own, seeds = Key("", tools.config.seed), observer.garden[Seed.resource]

    async def check(observation: SeedObservation) -> Outcome:
        status = observation.object.decode(Seed).status
        conditions = merged(status.conditions, [condition(list(remains(observer)))], tools.clock.now())
        observation.status = msgspec.structs.replace(status, conditions=conditions)
        return Done()

    reconciled = reconciler.Reconciled(Seed.resource, seeds.get, SeedObservation, lambda _observation: (check,), report)
    reconciles = reconciler.Reconciler(reconciled, tools.garden)
    remains_controller = Controller(
        "moved-shoots", reconciler.replanned(reconciles.reconcile), workers=1, spacing=SPACING, rng=tools.rng
    )
    watched = (
        seeds,
        observer.garden[Shoot.resource],
        observer.garden[BackupEntry.resource],
        observer.seed[extension_backups.BackupEntry.resource],
    )
    for cache in watched:
        remains_controller.watch(cache, lambda _object: [own])
    for resource in (NAMESPACE, Cluster.resource):
        remains_controller.watch(observer.seed[resource], lambda _object: [own], predicate=_comes_or_goes)
    return remains_controller


def _comes_or_goes(old: Object | None, new: Object | None) -> bool:
    """False for renewed leases, which change nothing."""
    return old is None or new is None


def remains(observer: ShootObserver) -> Iterator[str]:
    """The remains of shoots that this seed no longer has, and which seed has each of them now."""
    marked = (namespace for namespace in observer.seed[NAMESPACE].list() if SHOOT_UID in namespace.metadata.annotations)
    for name in sorted({object_.name for object_ in (*marked, *observer.seed[Cluster.resource].list())}):
        key = observer.shoot_of(name)
        shoot = observer.shoot(key) if key is not None else None
        if shoot is None:
            yield f"{name} (its Shoot is gone)"
        elif (seed := seed_of(shoot.decode(Shoot))) != observer.seed_name:
            yield f"{name} (now in seed {seed})"
    present = observer.garden[BackupEntry.resource].list()
    entries = {object_.name: object_.decode(BackupEntry) for object_ in present}
    for resource in observer.seed[extension_backups.BackupEntry.resource].list():
        entry = entries.get(resource.name)
        if entry is None or entry.spec.seed_name != observer.seed_name:
            yield f"BackupEntry {resource.name}"


def condition(names: list[str]) -> Condition:
    """The condition for these remains."""
    if not names:
        return Condition(SHOOTS_REMOVED, "True", Satisfied.NOTHING_LEFT, "")
    message = f"to be removed from this seed: {first(names, MOST_NAMED)}"
    return Condition(SHOOTS_REMOVED, "False", SeedReason.SHOOTS_LEFT, message)
