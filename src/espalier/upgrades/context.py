"""What all reconciles over upgrades share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from espalier.api.eksa.reasons import Helps, what_helps
from espalier.api.eksa.upgrades import ACCEPTED, PROGRESSING
from espalier.api.meta import Condition
from espalier.runtime.clock import Clock
from espalier.runtime.events import Recorder
from espalier.runtime.outcome import Continue, Done, Outcome
from espalier.runtime.writer import Writer
from espalier.upgrades import names
from espalier.upgrades.observe import Observer


@dataclass(frozen=True)
class Tools:
    """What all reconciles share."""

    observer: Observer
    writer: Writer
    recorder: Recorder
    clock: Clock


def told(outcome: Outcome, message: str, under_way: frozenset[str]) -> list[Condition]:
    """The conditions Ready, Progressing and Accepted: how a reconcile ended; `message` is said once all is done.

    With a reason of `under_way` it goes on by itself.
    """
    if isinstance(outcome, Done | Continue):
        return [Condition(type_, "True", "Upgraded", message) for type_ in (names.READY, PROGRESSING, ACCEPTED)]
    reason, helps = outcome.reason, what_helps(outcome.reason)
    is_stopped = helps is not Helps.TIME and reason != names.PAUSED
    goes_on: Literal["True", "False", "Unknown"] = "True" if reason in under_way else "Unknown"
    return [
        Condition(names.READY, "False", outcome.reason, outcome.message),
        Condition(PROGRESSING, "False" if is_stopped else goes_on, outcome.reason),
        Condition(ACCEPTED, "False" if helps is Helps.CHANGE else "True", outcome.reason),
    ]
