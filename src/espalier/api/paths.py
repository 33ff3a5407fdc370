"""Field paths as Kubernetes writes them: `spec.workerNodeGroupConfigurations[0].count`, `metadata.labels[a.b/c]`."""

from __future__ import annotations

import re
from collections.abc import Sequence

Step = str | int

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_STEP = re.compile(r"\[(?P<key>.*?)\](?=[.\[]|\Z)|\.?(?P<name>[^.\[\]]+)", re.DOTALL)


def render(path: Sequence[Step]) -> str:
    """The text of a path. Indexes, and keys that are no plain names, stand in brackets; the root is empty."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def parse(text: str) -> tuple[Step, ...]:
    """The steps of a path; a number in brackets is an index. Raises `ValueError` when the text is no path.

    What `render` wrote is always a path; its steps are the same unless a key has `].` or `][` in it.
    """
    steps: list[Step] = []
    position = 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"{text!r} is not a field path: see character {position + 1}")
        key, name = match["key"], match["name"]
        steps.append(name if key is None else int(key) if key.isdecimal() else key)
        position = match.end()
    return tuple(steps)
