"""A flow as text: each task below those on which it depends, with a symbol for its state."""

from __future__ import annotations

from typing import Any

from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.status import FlowStatus, TaskState, TaskStatus

SYMBOLS = {
    TaskState.DONE: "[x]",
    TaskState.SKIPPED: "[-]",
    TaskState.WAITING: "[~]",
    TaskState.OVERDUE: "[!]",
    TaskState.FAILED: "[!]",
    TaskState.BLOCKED: "[ ]",
}


def draw(flow: Flow[Any], status: FlowStatus, operation: str = "") -> str:
    """The lines of a heading, and one for each task, indented by its depth in the graph.

    The heading is the operation, where one flow serves several: a restore runs the flow of a reconcile.
    """
    lines = [f"{operation or flow.name}: {status.progress} % of {len(flow.tasks)} tasks"]
    for name, task in flow.tasks.items():
        task_status = status.tasks[name]
        names = ", ".join(before.name for before in task.after)
        after = f"  after {names}" if task_status.state is TaskState.BLOCKED and names else ""
        lines.append(f"{'  ' * flow.depth[name]}{SYMBOLS[task_status.state]} {name}{_detail(task_status)}{after}")
    return "\n".join(lines)


def _detail(task: TaskStatus) -> str:
    if task.state in (TaskState.DONE, TaskState.BLOCKED):
        return ""
    return f": {task.message}" if task.state is TaskState.SKIPPED else f": {task.reason}: {task.message}"
