"""The graph of a flow: tasks, each added after those on which it depends."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from espalier.shoots.flow.task import ACTION_TIMEOUT, Task, Verdict, never

S = TypeVar("S")


class FlowError(ValueError):
    """A task can't be added; the message names it."""


class Flow(Generic[S]):
    """Tasks in an order in which each comes after its dependencies: a task can only depend on one that was added before
    it, so there are no cycles."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.tasks: dict[str, Task[S]] = {}
        """By name."""
        self.depth: dict[str, int] = {}
        """By name: 0 for a task without dependencies, else one more than the deepest of them."""

    def add(
        self,
        name: str,
        evaluate: Callable[[S], Verdict],
        *,
        after: Sequence[Task[S]] = (),
        skip: Callable[[S], str] = never,
        action_timeout: float = ACTION_TIMEOUT,
    ) -> Task[S]:
        """Add a task (see `Task`), and return it, for those that depend on it. Raises `FlowError` if there is one of
        this name, or if it depends on a task of another flow."""
        if name in self.tasks:
            raise FlowError(f"flow {self.name}: several tasks are named {name}")
        if foreign := [before.name for before in after if self.tasks.get(before.name) is not before]:
            raise FlowError(f"flow {self.name}: {name} depends on {', '.join(foreign)} of another flow")
        task = self.tasks[name] = Task(name, evaluate, tuple(after), skip, action_timeout)
        self.depth[name] = max((self.depth[before.name] + 1 for before in after), default=0)
        return task

    @property
    def names(self) -> frozenset[str]:
        """The names of all tasks."""
        return frozenset(self.tasks)

    def dependents(self, names: Iterable[str]) -> frozenset[str]:
        """All tasks that depend on any of these, directly or not."""
        dependents: set[str] = set()
        start = set(names)
        for name, task in self.tasks.items():
            if any(before.name in dependents or before.name in start for before in task.after):
                dependents.add(name)
        return frozenset(dependents)
