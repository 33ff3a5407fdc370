"""The one channel out of a step and out of a reconcile: a word for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kube.errors import ApiError


@dataclass(frozen=True, slots=True)
class Continue:
    """The step has nothing left to do; the next one may run."""


@dataclass(frozen=True, slots=True)
class Wait:
    """Waiting is no error. `reason` is CamelCase and stable; `message` says for what.

    An event of something watched brings the key back; `after` (seconds) is a timer, for what no watch tells.
    """

    reason: str
    message: str
    after: float | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """The world is as desired; nothing more to do until something changes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something failed. Retried with growing backoff, unless `terminal`: then only a change of the world helps.

    `after` (seconds) is when the next attempt is of use, where that is known.
    """

    reason: str
    message: str
    terminal: bool = False
    after: float | None = None


Outcome = Continue | Wait | Done | Fault


def fault_of(error: Exception) -> Fault:
    """The fault an exception stands for; the reason is the server's, or the name of the exception's class."""
    reason = error.status.reason if isinstance(error, ApiError) else ""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return Fault(reason or type(error).__name__, f"{error}{notes}", after=getattr(error, "after", None))
