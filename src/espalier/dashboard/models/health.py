"""How an object is, in one of a few words that pages show by shape and colour. Pure.

The judgement is the one that controllers report: conditions, reasons with their remedy, and the phase.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from espalier.api.definitions.reference import Remedy
from espalier.api.eksa.vocabulary.reasons import Reason


class Health(StrEnum):
    """The states that pages distinguish, the worst one first."""

    FAILING = "failing"
    """Somebody must act."""
    CHANGING = "changing"
    """It becomes ready by itself."""
    UNKNOWN = "unknown"
    PAUSED = "paused"
    READY = "ready"


class State(NamedTuple):
    """A state, and the word for it."""

    health: Health
    word: str


WORDS = {
    Health.FAILING: "Failing",
    Health.CHANGING: "Changing",
    Health.UNKNOWN: "Unknown",
    Health.PAUSED: "Paused",
    Health.READY: "Ready",
}


def advice(reason: str) -> tuple[str, str]:
    """The meaning of a reason of a cluster or an upgrade, and what it takes, from its prose; empty for others."""
    try:
        prose = Reason(reason).prose
    except ValueError:
        return "", ""
    takes = {
        Remedy.TIME: "needs time, nobody has to act",
        Remedy.PERSON: "somebody has to act",
        Remedy.CHANGE: "the request has to change",
        Remedy.NONE: "nothing to do",
    }
    return prose.meaning, takes[prose.remedy]


def needs_a_person(reason: str) -> bool:
    """True if nothing goes on, for such a reason, until somebody acts or the request changes."""
    try:
        return Reason(reason).prose.remedy in (Remedy.PERSON, Remedy.CHANGE)
    except ValueError:
        return False
