"""A flow as text: each task below those on which it depends, with a mark for its state."""

from __future__ import annotations

from typing import Any

from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.standing import Stand, Standing, State

MARKS = {
    State.DONE: "[x]",
    State.SKIPPED: "[-]",
    State.DUE: "[>]",
    State.WAITING: "[~]",
    State.FAILED: "[!]",
    State.BLOCKED: "[ ]",
}


def draw(flow: Flow[Any], standing: Standing) -> str:
    """The lines of a heading, and one for each task, indented by its depth in the graph."""
    lines = [f"{flow.name}: {standing.progress} % of {len(flow.tasks)} tasks"]
    for name, task in flow.tasks.items():
        stand = standing.tasks[name]
        after = f"  after {', '.join(task.after)}" if stand.state is State.BLOCKED and task.after else ""
        lines.append(f"{'  ' * flow.depth[name]}{MARKS[stand.state]} {name}{_said(stand)}{after}")
    return "\n".join(lines)


def _said(stand: Stand) -> str:
    if stand.state in (State.DONE, State.BLOCKED):
        return ""
    return f": {stand.message}" if stand.state in (State.SKIPPED, State.DUE) else f": {stand.reason}: {stand.message}"
