"""The controller that reports in the own Seed which gardenlet acts there, and that the seed has what it needs.

Gardener's controllers of a garden let no shoot move to a seed whose status has none of it.
"""

from __future__ import annotations

import msgspec

from espalier.api.gardener.garden.seed import SYSTEM_COMPONENTS_HEALTHY, Seed
from espalier.api.gardener.garden.shoot import Gardener
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.resource import Key
from espalier.runtime.controllers import reconciler
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.shoots.gardenlet.context import GardenletTools
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reports.seed_status import SeedObservation, report

NAME = "espalier-gardenlet"


def controller(observer: ShootObserver, tools: GardenletTools) -> Controller:
    """The controller; it reconciles the own Seed only. It runs once the seed has served all kinds of the gardenlet."""
    own, seeds = Key("", tools.config.seed), observer.garden[Seed.resource]
    gardener = Gardener(id=tools.config.seed, name=NAME, version=tools.config.version)

    async def check(observation: SeedObservation) -> Outcome:
        seed = observation.object
        status = seed.decode(Seed).status
        healthy = Condition(SYSTEM_COMPONENTS_HEALTHY, "True", Satisfied.SEED_KINDS_SERVED, "")
        observation.status = msgspec.structs.replace(
            status,
            conditions=merged(status.conditions, [healthy], tools.clock.now()),
            gardener=gardener,
            observed_generation=seed.metadata.generation,
        )
        return Done()

    reconciled = reconciler.Reconciled(Seed.resource, seeds.get, SeedObservation, lambda _observation: (check,), report)
    reconciles = reconciler.Reconciler(reconciled, tools.garden)
    made = Controller("seed-report", reconciler.replanned(reconciles.reconcile), workers=1, rng=tools.rng)
    made.watch(seeds, lambda _object: [own])
    return made
