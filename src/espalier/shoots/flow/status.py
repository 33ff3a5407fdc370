"""The state of a flow: the state of each task, progress, and the content of `status.lastOperation` and `lastErrors`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest
from typing import Any

from espalier.api.gardener.vocabulary.reasons import TaskReason
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.task import Failure


class TaskState(StrEnum):
    """The state of a task."""

    DONE = "done"
    SKIPPED = "skipped"
    WAITING = "waiting"
    OVERDUE = "overdue"
    """It waits for longer than it should."""
    FAILED = "failed"
    BLOCKED = "blocked"
    """A task on which it depends is not done."""


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """The state of one task, with its reason and message."""

    state: TaskState
    reason: str = ""
    message: str = ""
    after: float | None = None
    codes: tuple[str, ...] = ()

    @property
    def is_over(self) -> bool:
        """True if the tasks that depend on it may start."""
        return self.state in (TaskState.DONE, TaskState.SKIPPED)


@dataclass(frozen=True, slots=True)
class TaskError:
    """An entry of `status.lastErrors`."""

    description: str
    task_id: str
    codes: tuple[str, ...]


@dataclass(frozen=True)
class FlowStatus:
    """The state of a flow. `tasks` is in an order in which each task comes after its dependencies."""

    flow: str
    tasks: Mapping[str, TaskStatus]

    @property
    def progress(self) -> int:
        """Percentage of finished tasks; 100 only if all are finished."""
        return 100 * sum(task.is_over for task in self.tasks.values()) // max(1, len(self.tasks))

    @property
    def is_done(self) -> bool:
        """True if all tasks are finished."""
        return all(task.is_over for task in self.tasks.values())

    @property
    def errors(self) -> tuple[TaskError, ...]:
        """The failing tasks, and those that wait for too long."""
        return tuple(
            TaskError(task.message, name, task.codes)
            for name, task in self.tasks.items()
            if task.state in (TaskState.FAILED, TaskState.OVERDUE)
        )

    @property
    def is_failing(self) -> bool:
        """True if some task fails: one that only waits for too long does not."""
        return any(task.state is TaskState.FAILED for task in self.tasks.values())

    @property
    def is_failed(self) -> bool:
        """True if some task fails and retrying does not help."""
        return any(not Failure("", error.codes).retryable for error in self.errors)

    @property
    def description(self) -> str:
        """A sentence for each task that waits or fails; function `read` parses it."""
        sentences = [
            f"{name} ({task.reason}): {task.message}" for name, task in self.tasks.items() if _is_pending(task)
        ]
        return "; ".join(sentences) if sentences else f"{self.flow} is done"

    @property
    def outcome(self) -> Outcome:
        """The outcome of the reconcile: `Done`, a `Fault` that is retried unless that is pointless, or a `Wait`."""
        if self.is_done:
            return Done()
        if self.is_failing:
            failed = [error for error in self.errors if self.tasks[error.task_id].state is TaskState.FAILED]
            message = "; ".join(f"{error.task_id}: {error.description}" for error in failed)
            return Fault(TaskReason.TASK_FAILED, message, terminal=self.is_failed)
        waiting = [(name, task) for name, task in self.tasks.items() if _is_pending(task)]
        afters = [task.after for _, task in waiting if task.after is not None]
        name, first = waiting[0]
        return Wait(first.reason, f"{name}: {first.message}", min(afters) if afters else None)


def _is_pending(task: TaskStatus) -> bool:
    return task.state in (TaskState.WAITING, TaskState.OVERDUE, TaskState.FAILED)


_SENTENCE = re.compile(r"(?:^|; )([^;()]+) \(([A-Za-z]+)\): ")


def read(flow: Flow[Any], description: str, failed: Mapping[str, str]) -> FlowStatus:
    """The state of a flow as far as `lastOperation.description` and `lastErrors` (by task) report it.

    Tasks that depend on a reported one are blocked; all others are finished.
    """
    reported: dict[str, TaskStatus] = {}
    matches = [match for match in _SENTENCE.finditer(description) if match[1] in flow.names]
    for match, following in zip_longest(matches, matches[1:]):
        message = description[match.end() : following.start() if following else None]
        reported[match[1]] = TaskStatus(TaskState.WAITING, match[2], message)
    for name, message in failed.items():
        reason = reported[name].reason if name in reported else TaskReason.TASK_FAILED
        reported[name] = TaskStatus(
            TaskState.FAILED if reason == TaskReason.TASK_FAILED else TaskState.OVERDUE, reason, message
        )
    blocked = flow.dependents(reported)
    done = TaskStatus(TaskState.DONE)
    return FlowStatus(
        flow.name,
        {name: TaskStatus(TaskState.BLOCKED) if name in blocked else reported.get(name, done) for name in flow.tasks},
    )
