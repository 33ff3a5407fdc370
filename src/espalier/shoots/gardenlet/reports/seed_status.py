"""The report of controllers that write conditions into the status of the own Seed, each its own."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.gardener.garden.seed import Seed, SeedStatus
from espalier.kube.objects import Object
from espalier.runtime.controllers import reconciler
from espalier.runtime.controllers.outcome import Outcome
from espalier.runtime.controllers.writer import Precondition


@dataclass
class SeedObservation:
    """The own Seed."""

    object: Object
    status: SeedStatus | None = None
    """The status with the new conditions; None if there is nothing to report."""


def report(observation: SeedObservation, _outcome: Outcome) -> reconciler.Report | None:
    """The status, written by version: others write conditions beside these."""
    if observation.status is None:
        return None
    before = observation.object.decode(Seed).status
    return reconciler.Report(observation.status, before=before, precondition=Precondition.VERSION)
