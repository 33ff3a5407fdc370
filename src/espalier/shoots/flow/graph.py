"""The graph of a flow: the dependencies of tasks, validated when it is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Generic, TypeVar

from espalier.shoots.flow.task import Task

S = TypeVar("S")


class FlowError(ValueError):
    """The tasks are no acyclic graph; the message names them."""


class Flow(Generic[S]):
    """Tasks in an order in which each comes after its dependencies. Raises `FlowError` if there is none."""

    def __init__(self, name: str, tasks: Iterable[Task[S]]) -> None:
        self.name = name
        task_list = list(tasks)
        by_name = {task.name: task for task in task_list}
        if len(by_name) < len(task_list):
            duplicates = sorted(
                {task.name for task in task_list if sum(task.name == other.name for other in task_list) > 1}
            )
            raise FlowError(f"flow {name}: several tasks are named {', '.join(duplicates)}")
        for task in task_list:
            if unknown := [before for before in task.after if before not in by_name]:
                raise FlowError(f"flow {name}: {task.name} depends on {', '.join(unknown)}, which does not exist")
        self.tasks: Mapping[str, Task[S]] = {task: by_name[task] for task in _ordered(name, by_name)}
        self.depth: Mapping[str, int] = _depths(self.tasks)

    @property
    def names(self) -> frozenset[str]:
        """The names of all tasks."""
        return frozenset(self.tasks)

    def dependents(self, names: Iterable[str]) -> frozenset[str]:
        """All tasks that depend on any of these, directly or not."""
        dependents: set[str] = set()
        start = set(names)
        for name, task in self.tasks.items():
            if any(before in dependents or before in start for before in task.after):
                dependents.add(name)
        return frozenset(dependents)


def _ordered(flow: str, tasks: Mapping[str, Task[S]]) -> list[str]:
    """Names so that each comes after its dependencies; of several candidates, the one that was given first."""
    ordered: dict[str, None] = {}
    remaining = dict(tasks)
    while remaining:
        ready = next(
            (name for name, task in remaining.items() if all(before in ordered for before in task.after)), None
        )
        if ready is None:
            raise FlowError(f"flow {flow}: tasks depend on each other in a cycle: {' -> '.join(_cycle(remaining))}")
        ordered[ready] = None
        del remaining[ready]
    return list(ordered)


def _cycle(remaining: Mapping[str, Task[S]]) -> list[str]:
    path: list[str] = []
    name = next(iter(remaining))
    while name not in path:
        path.append(name)
        name = next(before for before in remaining[name].after if before in remaining)
    return [*path[path.index(name) :], name][::-1]


def _depths(tasks: Mapping[str, Task[S]]) -> dict[str, int]:
    depths: dict[str, int] = {}
    for name, task in tasks.items():
        depths[name] = max((depths[before] + 1 for before in task.after), default=0)
    return depths
