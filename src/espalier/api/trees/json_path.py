"""JSONPath as kubectl and printer columns of CRDs use it: names, indexes, slices, wildcards, descent, unions, filters.

`compiled(path)` gives a function from an object to the list of what the path finds there. Examples:
`.spec.replicas`, `.metadata.labels['a\\.b/c']`, `.status.conditions[?(@.type=="Ready")].status`, `.spec.ports[*].port`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from espalier.api.trees import json_trees

JSONPathStep = Callable[[Any], Iterator[Any]]
Finder = Callable[[Any], list[Any]]

_TOKEN = re.compile(
    r"""
      \.\.(?P<descent>(?:\\.|[^.\[\\])+)          # ..name
    | \.(?P<any>\*)                               # .*
    | \.?(?P<name>(?:\\.|[^.\[\]\\\s])+)          # .name, dots in it escaped
    | \[\s*\*\s*\](?P<all>)                       # [*]
    | \[\s*(?P<index>-?\d+)\s*\]                  # [0]
    | \[\s*(?P<start>-?\d*)\s*:\s*(?P<end>-?\d*)\s*(?::\s*(?P<stride>[1-9]\d*)\s*)?\]   # [0:4:2]
    | \[\s*(?P<quoted>'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*")\s*\]   # ['name']
    | \[(?P<union>[^\[\]?]+,[^\[\]?]+)\]           # ['name', 'kind'], [0,2]
    | \[\?\((?P<filter>.*?)\)\]                   # [?(@.type=="Ready")]
    """,
    re.VERBOSE,
)
_COMPARISON = re.compile(r"(?P<left>.+?)(?P<operator>==|!=|<=|>=|<|>)(?P<right>.+)")
LONGEST = 1024
"""The maximum length of a path: it is evaluated on every object."""

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}


@lru_cache(maxsize=1024)
def compiled(path: str) -> Finder:
    """A function that evaluates a path, in document order. Raises `ValueError` for an invalid path."""
    if len(path) > LONGEST:
        raise ValueError(f"this is not a JSONPath: it has {len(path)} characters, allowed are {LONGEST}")
    try:
        steps = tuple(_steps(path))
    except RecursionError:
        raise ValueError(f"{path!r} is a JSONPath that can't be parsed: its filters are nested too deeply") from None

    def find(tree: Any) -> list[Any]:
        nodes = [tree]
        for step in steps:
            nodes = [value for parent in nodes for value in step(parent)]
        return nodes

    return find


def _steps(path: str) -> Iterator[JSONPathStep]:
    text = path.strip()
    if text.startswith("{") and text.endswith("}"):
        text = text[1:-1].strip()
    text = text.removeprefix("$").removeprefix("@")
    position = 0
    while position < len(text) and text[position:] != ".":
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(f"{path!r} is not a JSONPath: see {text[position:]!r}")
        yield _step(match)
        position = match.end()


def _step(match: re.Match[str]) -> JSONPathStep:
    if (name := match["name"]) is not None:
        return _child(_unescaped(name))
    if (name := match["quoted"]) is not None:
        return _child(_unescaped(name[1:-1]))
    if (name := match["descent"]) is not None:
        return _descent(_unescaped(name))
    if (index := match["index"]) is not None:
        return _slice(int(index), int(index) + 1 or None)
    if match["start"] is not None:
        return _slice(_number(match["start"]), _number(match["end"]), _number(match["stride"] or ""))
    if (union := match["union"]) is not None:
        return _union([compiled(f"[{member}]") for member in union.split(",")])
    if (condition := match["filter"]) is not None:
        return _filter(condition.strip())
    return _children


def _unescaped(name: str) -> str:
    return re.sub(r"\\(.)", r"\1", name)


def _number(text: str) -> int | None:
    return int(text) if text else None


def _child(name: str) -> JSONPathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, dict) and name in value:
            yield value[name]

    return step


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


def _descent(name: str) -> JSONPathStep:
    child = _child(name)

    def step(value: Any) -> Iterator[Any]:
        yield from child(value)
        for part in _children(value):
            yield from step(part)

    return step


def _slice(start: int | None, end: int | None, stride: int | None = None) -> JSONPathStep:
    def step(value: Any) -> Iterator[Any]:
        if isinstance(value, list):
            yield from value[start:end:stride]

    return step


def _union(members: Sequence[Finder]) -> JSONPathStep:
    return lambda value: (node for member in members for node in member(value))


def _filter(condition: str) -> JSONPathStep:
    comparison = _COMPARISON.fullmatch(condition)
    if comparison is None:
        exists = _operand(condition)
        return lambda value: (item for item in _children(value) if exists(item))
    left, right = _operand(comparison["left"].strip()), _operand(comparison["right"].strip())
    compare = _OPERATORS[comparison["operator"]]

    def holds(item: Any) -> bool:
        try:
            return any(compare(value, other) for value in left(item) for other in right(item))
        except TypeError:  # a number and a text can't be compared
            return False

    return lambda value: (item for item in _children(value) if holds(item))


def _operand(text: str) -> Finder:
    if text.startswith(("@", "$")):
        return compiled(text)
    if text.startswith("'") and text.endswith("'"):
        constant: Any = _unescaped(text[1:-1])
    else:
        try:
            constant = json_trees.decode(text)
        except msgspec.MsgspecError as error:
            raise ValueError(f"{text!r} is neither a path (@.name) nor a value in a JSONPath filter") from error
    return lambda _: [constant]
