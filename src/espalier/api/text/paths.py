"""Field paths as Kubernetes writes them: `spec.workerNodeGroupConfigurations[0].count`, `metadata.labels[a.b/c]`.

And the paths at which two trees differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

PathStep = str | int
Parts = Callable[[Any], Mapping[Any, Any] | None]

_LONGEST = 8192
"""Characters: deeper than any object goes."""

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_NAME = re.compile(r"\.?([^.\[\]]+)")
_END = re.compile(r"\](?=[.\[]|\Z)")


def render(path: Sequence[PathStep]) -> str:
    """The text of a path. Indexes, and keys that are not plain names, are in brackets; the root is empty."""
    text = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def parts_of_map(value: Any) -> Mapping[Any, Any] | None:
    """The parts of a map; other values are compared as a whole."""
    return value if isinstance(value, dict) else None


def differences(
    before: Any, after: Any, path: tuple[PathStep, ...] = (), *, parts: Parts = parts_of_map, missing: Any = None
) -> Iterator[tuple[tuple[PathStep, ...], Any, Any]]:
    """Where two trees differ, with what each has there (`missing` for nothing). Values with `parts` are compared by
    them."""
    old, new = parts(before), parts(after)
    if old is not None and new is not None:
        for name in dict.fromkeys((*old, *new)):
            yield from differences(
                old.get(name, missing), new.get(name, missing), (*path, name), parts=parts, missing=missing
            )
    elif before != after:
        yield path, before, after


def parse(text: str) -> tuple[PathStep, ...]:
    """The steps of a path; a number in brackets is an index. Raises `ValueError` when the text is no path.

    What `render` wrote is always a path; its steps are the same unless a key has `].` or `][` in it.
    """
    if len(text) > _LONGEST:
        raise ValueError(f"this is not a field path: it has {len(text)} characters, allowed are {_LONGEST}")
    step_at: dict[int, tuple[int, PathStep]] = {}
    for position in reversed(range(len(text))):  # a key may contain what looks like its end: the rest decides
        for end, step in _steps(text, position):
            if end == len(text) or end in step_at:
                step_at[position] = end, step
                break
    steps: list[PathStep] = []
    position = 0
    while position < len(text):
        if position not in step_at:
            raise ValueError(f"{text!r} is not a field path: see character {_readable(text) + 1}")
        position, step = step_at[position]
        steps.append(step)
    return tuple(steps)


def parsed(text: str) -> tuple[PathStep, ...] | None:
    """The same; None if the text is not a path, or its keys are too long for one."""
    try:
        return parse(text)
    except ValueError:
        return None


def _steps(text: str, position: int) -> Iterator[tuple[int, PathStep]]:
    """The steps that are possible at a position, each with its end: the shortest first."""
    if text[position] == "[":
        for bracket in _END.finditer(text, position + 1):
            key = text[position + 1 : bracket.start()]
            yield bracket.end(), int(key) if key.isdecimal() else key
    elif name := _NAME.match(text, position):
        yield name.end(), name[1]


def _readable(text: str) -> int:
    """Number of characters of an invalid path that can be parsed."""
    position = 0
    while position < len(text) and (match := next(_steps(text, position), None)) is not None:
        position = match[0]
    return position
