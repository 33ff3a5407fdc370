"""One task of a flow: it looks at the world, and says that it is done, what it would do, or what it waits for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
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
"""Error codes against which repeating does not help: somebody has to change something first."""

ACTION_TIMEOUT = 30.0
"""Seconds that one action may take: a few requests."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The task can't go on. It is retried, unless one of `codes`, Gardener's error codes, says that it is of no use."""

    message: str
    codes: tuple[str, ...] = ()

    @property
    def retryable(self) -> bool:
        """True if repeating may help."""
        return NOT_RETRYABLE.isdisjoint(self.codes)


@dataclass(frozen=True, slots=True)
class Act:
    """Something is to be done. `run` does it: `Continue` when the task is done by it, `Wait` when the world has to
    follow, `Failure` when it can't be done.
    """

    what: str
    """For people, and for previews that act nowhere: what would be done."""
    run: Callable[[], Awaitable[Continue | Wait | Failure]] = field(compare=False)


Verdict: TypeAlias = Done | Act | Wait | Failure


def _never(_scope: object) -> str:
    return ""


def _unknown(_scope: object) -> datetime | None:
    return None


@dataclass(frozen=True)
class Task(Generic[S]):
    """A named task. Nothing about it is remembered between two reconciles: `look` finds out from the world."""

    name: str
    """Also the `taskID` in errors, so it is stable."""
    look: Callable[[S], Verdict]
    """Pure: reads the scope and nothing else."""
    after: tuple[str, ...] = ()
    """Names of the tasks that have to be done before."""
    skip: Callable[[S], str] = _never
    """The reason why there is nothing to do in this case; empty when there is."""
    since: Callable[[S], datetime | None] = _unknown
    """When the world began to follow, where it tells; from then on `timeout` counts."""
    timeout: float | None = None
    """Seconds after which waiting is an error. It goes on then, but people are told."""
    action_timeout: float = ACTION_TIMEOUT
