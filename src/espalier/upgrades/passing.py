"""What all passes over upgrades share."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.meta import Condition
from espalier.runtime.clock import Clock
from espalier.runtime.events import Recorder
from espalier.runtime.outcome import Continue, Done, Outcome
from espalier.upgrades import names
from espalier.upgrades.observe import Observer
from espalier.upgrades.writing import Writer


@dataclass(frozen=True)
class Tools:
    """What all passes share."""

    observer: Observer
    writer: Writer
    recorder: Recorder
    clock: Clock


def ready(outcome: Outcome, message: str) -> Condition:
    """The condition Ready: how a pass ended; `message` is what is said once all is done."""
    if isinstance(outcome, Done | Continue):
        return Condition(type=names.READY, status="True", reason="Upgraded", message=message)
    return Condition(type=names.READY, status="False", reason=outcome.reason, message=outcome.message)
