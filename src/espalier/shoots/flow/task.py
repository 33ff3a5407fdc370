"""One task of a flow: it observes the world, and reports that it is done, what it would do, or what it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeAlias, TypeVar

from espalier.runtime.outcome import Continue, Done, Wait

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
class Act:
    """Something has to be done. `run` does it: `Continue` if that completes the task, `Wait` if the world has to
    follow, `Failure` if it can't be done."""

    what: str
    """A description for people."""
    run: Callable[[], Awaitable[Continue | Wait | Failure]] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Overdue:
    """The task waits for longer than it should. That is an error for people, and the task waits on: it never ends the
    operation, as nobody would continue it when what it waits for comes after all."""

    reason: str
    message: str
    after: float | None = None


Verdict: TypeAlias = Done | Act | Wait | Overdue | Failure


def _never(_scope: object) -> str:
    return ""


@dataclass(frozen=True)
class Task(Generic[S]):
    """A named task. Nothing about it is remembered between reconciles: `evaluate` derives its state from objects."""

    name: str
    """Also the `taskID` in errors, so it never changes."""
    evaluate: Callable[[S], Verdict]
    """Pure: reads the scope and nothing else."""
    after: tuple[str, ...] = ()
    """Names of the tasks on which it depends."""
    skip: Callable[[S], str] = _never
    """The reason why there is nothing to do in this case; empty if there is something."""
    action_timeout: float = ACTION_TIMEOUT
