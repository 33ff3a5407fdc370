"""The state of a flow: the state of each task, progress, and the content of `status.lastOperation` and `lastErrors`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from espalier.runtime.outcome import Done, Fault, Outcome, Wait
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.task import Failure

RETRY_WAITING = 10.0
"""Seconds after which a waiting task is observed again if no event is sure to come."""


class State(StrEnum):
    """The state of a task."""

    DONE = "done"
    SKIPPED = "skipped"
    DUE = "due"
    """It would act."""
    WAITING = "waiting"
    FAILED = "failed"
    BLOCKED = "blocked"
    """A task on which it depends is not done."""


@dataclass(frozen=True, slots=True)
class Stand:
    """The state of one task, with its reason and message."""

    state: State
    reason: str = ""
    message: str = ""
    after: float | None = None
    codes: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if the tasks that depend on it may start."""
        return self.state in (State.DONE, State.SKIPPED)


@dataclass(frozen=True, slots=True)
class TaskError:
    """An entry of `status.lastErrors`."""

    description: str
    task_id: str
    codes: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """The state of a flow. `tasks` is in an order in which each task comes after its dependencies."""

    flow: str
    tasks: Mapping[str, Stand]

    @property
    def progress(self) -> int:
        """Percentage of finished tasks; 100 only if all are finished."""
        return 100 * sum(stand.is_over for stand in self.tasks.values()) // max(1, len(self.tasks))

    @property
    def is_done(self) -> bool:
        """True if all tasks are finished."""
        return all(stand.is_over for stand in self.tasks.values())

    @property
    def errors(self) -> tuple[TaskError, ...]:
        """The failing tasks."""
        return tuple(
            TaskError(stand.message, name, stand.codes)
            for name, stand in self.tasks.items()
            if stand.state is State.FAILED
        )

    @property
    def is_failed(self) -> bool:
        """True if some task fails and retrying does not help."""
        return any(not Failure("", error.codes).retryable for error in self.errors)

    @property
    def description(self) -> str:
        """A sentence for each task that the flow waits for; `frontier` parses it."""
        fronts = [f"{name} ({stand.reason}): {stand.message}" for name, stand in self.tasks.items() if _stands(stand)]
        return "; ".join(fronts) if fronts else f"{self.flow} is done"

    @property
    def outcome(self) -> Outcome:
        """The outcome of the reconcile: `Done`, a `Fault` that is retried unless that is pointless, or a `Wait`."""
        if self.is_done:
            return Done()
        failed = self.errors
        if failed:
            message = "; ".join(f"{error.task_id}: {error.description}" for error in failed)
            return Fault("TaskFailed", message, terminal=self.is_failed)
        waiting = [(name, stand) for name, stand in self.tasks.items() if _stands(stand)]
        afters = [stand.after for _, stand in waiting if stand.after is not None]
        name, first = waiting[0]
        return Wait(first.reason, f"{name}: {first.message}", min(afters) if afters else None)


def _stands(stand: Stand) -> bool:
    return stand.state in (State.DUE, State.WAITING, State.FAILED)


_FRONT = re.compile(r"(?:^|; )([^;()]+) \(([A-Za-z]+)\): ")


def read(flow: Flow[Any], description: str, failed: Mapping[str, str]) -> Standing:
    """The state of a flow as far as `lastOperation.description` and `lastErrors` (by task) report it.

    Tasks that depend on a reported one are blocked; all others are finished.
    """
    fronts: dict[str, Stand] = {}
    matches = [match for match in _FRONT.finditer(description) if match[1] in flow.names]
    for match, following in zip_longest(matches, matches[1:]):
        message = description[match.end() : following.start() if following else None]
        fronts[match[1]] = Stand(State.WAITING, match[2], message)
    fronts |= {name: Stand(State.FAILED, "TaskFailed", message) for name, message in failed.items()}
    behind = flow.behind(fronts)
    over = Stand(State.DONE)
    return Standing(
        flow.name,
        {name: Stand(State.BLOCKED) if name in behind else fronts.get(name, over) for name in flow.tasks},
    )
