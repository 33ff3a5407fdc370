"""One task of a flow: it evaluates observed objects, and returns that it is done, an action, a wait, or a failure."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from espalier.runtime.controllers.outcome import Continue, Done, Wait

S = TypeVar("S")

NOT_RETRYABLE = frozenset(
    {
        "ERR_INFRA_UNAUTHENTICATED",
        "ERR_INFRA_UNAUTHORIZED",
        "ERR_INFRA_QUOTA_EXCEEDED",
        "ERR_INFRA_DEPENDENCIES",
        "ERR_CONFIGURATION_PROBLEM",
        "ERR_PROBLEMATIC_WEBHOOK",
    }
)
"""Error codes for which retrying does not help: somebody has to change something first."""

ACTION_TIMEOUT = 30.0
"""The largest number of seconds of one action: a few requests."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The task failed. It is retried, unless one of `codes`, Gardener's error codes, says that this is pointless."""

    message: str
    codes: tuple[str, ...] = ()

    @property
    def retryable(self) -> bool:
        """True if retrying may help."""
        return NOT_RETRYABLE.isdisjoint(self.codes)


@dataclass(frozen=True, slots=True)
class Action:
    """An action of the task. `run` returns `Continue` if it completes the task, `Wait` if its effect has to be
    observed, `Failure` if it can't be done."""

    what: str
    """A description for people."""
    run: Callable[[], Awaitable[Continue | Wait | Failure]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Overdue:
    """The task waits for longer than it should. That is reported as an error, and the task keeps waiting. It never
    makes the operation Failed: that would not continue once the wait ends after all."""

    reason: str
    message: str
    after: float | None = None


Verdict: TypeAlias = Done | Action | Wait | Overdue | Failure


def never(_scope: object) -> str:
    """No reason to skip a task."""
    return ""


@dataclass(frozen=True, eq=False)
class Task(Generic[S]):
    """A named task. Nothing about it is remembered between reconciles: `evaluate` derives its state from objects."""

    name: str
    """Also the `taskID` in errors, so it never changes."""
    evaluate: Callable[[S], Verdict]
    """Pure: reads the scope and nothing else."""
    after: tuple[Task[S], ...] = ()
    """The tasks on which it depends."""
    skip: Callable[[S], str] = never
    """The reason why there is nothing to do in this case; empty if there is something."""
    action_timeout: float = ACTION_TIMEOUT
