"""Runs a flow: observes, acts where tasks are due, and observes again until nothing more can be done now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from espalier.api.gardener.vocabulary.reasons import TaskReason
from espalier.kube.errors import KubeError
from espalier.runtime.controllers.outcome import Continue, Done, Wait, fault_of
from espalier.runtime.controllers.writer import NameTaken
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.status import FlowStatus, TaskState, TaskStatus
from espalier.shoots.flow.task import Action, Failure, Overdue, Task, Verdict

S = TypeVar("S")
Guard = Callable[[], Awaitable[Wait | Failure | None]]
"""Called before each action; a result other than None is used as the task's verdict."""

_DONE = TaskStatus(TaskState.DONE)
_log = structlog.get_logger("espalier.flow")


async def run(flow: Flow[S], observe: Callable[[], S], guard: Guard | None = None) -> FlowStatus:
    """Do whatever can be done now. Tasks whose dependencies are done act at the same time.

    `observe` is called again after actions. Each task acts once: what it still wants to do then waits for the caches. A
    task that fails stops those that depend on it, and no others.
    """
    acted: dict[str, Verdict] = {}
    while True:
        scope = observe()
        verdicts = _verdicts(flow, scope, acted)
        due = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Action) and name not in acted}
        if not due:
            return FlowStatus(flow.name, {name: _task_status(verdicts.get(name)) for name in flow.tasks})
        results = await asyncio.gather(*(_perform(flow.tasks[name], action, guard) for name, action in due.items()))
        acted |= dict(zip(due, results, strict=True))


Verdicts = dict[str, Verdict | str]
"""By task: its verdict, or the reason why it is skipped. Blocked tasks are missing."""


def _verdicts(flow: Flow[S], scope: S, acted: dict[str, Verdict]) -> Verdicts:
    verdicts: Verdicts = {}
    over: set[str] = set()
    for name, task in flow.tasks.items():
        if not all(before.name in over for before in task.after):
            continue
        verdicts[name] = verdict = task.skip(scope) or _verdict(task, scope, acted.get(name))
        if isinstance(verdict, str | Done):
            over.add(name)
    return verdicts


def _verdict(task: Task[S], scope: S, result: Verdict | None) -> Verdict:
    """The verdict of the task now, given the result of its action in this reconcile."""
    if result is not None and not isinstance(result, Wait):
        return result
    try:
        verdict = task.evaluate(scope)
    except Exception as error:
        _log.exception("could not evaluate a task", task=task.name)
        return Failure(f"{type(error).__name__}: {error}")
    if isinstance(verdict, Action) and result is not None:
        return result
    return verdict


async def _perform(task: Task[S], action: Action, guard: Guard | None) -> Verdict:
    """`Done`, `Wait` or `Failure`, whatever happens."""
    try:
        async with asyncio.timeout(task.action_timeout):
            objection = await guard() if guard is not None else None
            if objection is not None:
                return objection
            _log.info("task", task=task.name, what=action.what)
            outcome = await action.run()
    except TimeoutError:
        return Failure(f"{action.what}: no answer within {task.action_timeout:g} seconds")
    except (KubeError, NameTaken) as error:
        return Failure(fault_of(error).message)
    except Exception as error:
        _log.exception("a task failed", task=task.name)
        return Failure(f"{type(error).__name__}: {error}")
    return Done() if isinstance(outcome, Continue) else outcome


def _task_status(verdict: Verdict | str | None) -> TaskStatus:
    match verdict:
        case None:
            return TaskStatus(TaskState.BLOCKED)
        case str():
            return TaskStatus(TaskState.SKIPPED, "Skipped", verdict)
        case Done():
            return _DONE
        case Overdue():
            return TaskStatus(TaskState.OVERDUE, verdict.reason, verdict.message, verdict.after)
        case Failure():
            return TaskStatus(TaskState.FAILED, TaskReason.TASK_FAILED, verdict.message, codes=verdict.codes)
        case Wait():
            return TaskStatus(TaskState.WAITING, verdict.reason, verdict.message, verdict.after)
        case Action():
            raise AssertionError("what a task still wants to do was done before")
