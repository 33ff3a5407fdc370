"""The outcome of a step or a reconcile: a reason for programs, a message for people."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.kube.errors import ApiError


@dataclass(frozen=True, slots=True)
class Continue:
    """The step is done; the next one may run."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The reconcile waits, which is not an error. `reason` is CamelCase and stable; `message` says for what.

    An event of a watched object causes the next reconcile, or a timer of `after` seconds, for what no watch reports.
    """

    reason: str
    message: str
    after: float | None = None
    ends_by_itself: bool = field(default=False, repr=False)
    """True if time or a running controller ends it, so that nobody has to act. A preview looks past it."""


@dataclass(frozen=True, slots=True)
class Done:
    """The desired state is reached; nothing to do until something changes, or `after` seconds have passed."""

    after: float | None = None


@dataclass(frozen=True, slots=True)
class Fault:
    """The reconcile failed. It is retried with a growing back-off, unless `terminal`: then only after a change.

    `after` (seconds) is the time until the next attempt is useful, if known.
    """

    reason: str
    message: str
    terminal: bool = False
    after: float | None = None


Outcome = Continue | Wait | Done | Fault

PLAN_OUTDATED = "PlanOutdated"
"""Reason of a wait that says nothing about the object: the plan was made from an outdated state of it."""


def outdated(error: Exception) -> Wait:
    """The outcome of a write that was refused because an object has changed or is gone: plan again."""
    return Wait(PLAN_OUTDATED, f"objects changed meanwhile: {error}", after=1.0)


def fault_of(error: Exception) -> Fault:
    """The fault for an exception; its reason is the server's, or the name of the exception's class."""
    reason = error.status.reason if isinstance(error, ApiError) else ""
    notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
    return Fault(reason or type(error).__name__, f"{error}{notes}", after=getattr(error, "after", None))
