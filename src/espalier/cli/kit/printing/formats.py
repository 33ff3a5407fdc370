"""Formats of `-o`: every command takes the same, or says which of them it can't print, and why."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from espalier.api.trees.json_path import compiled
from espalier.cli.kit.failures import Usage

TABLE, WIDE, NAME, JSON, YAML = "table", "wide", "name", "json", "yaml"
JSON_PATH, COLUMNS = "jsonpath=", "custom-columns="
ALL = (TABLE, WIDE, NAME, JSON, YAML, JSON_PATH, COLUMNS)
WRITTEN = {JSON_PATH: "jsonpath=TEMPLATE", COLUMNS: "custom-columns=TITLE:PATH"}

NO_NAMES = "this command prints no objects that have names"
MANIFESTS = "this command prints objects as files, not in a table"


def listed(formats: Sequence[str]) -> str:
    """Formats as help and errors name them."""
    *most, last = [WRITTEN.get(format_, format_) for format_ in formats]
    return f"{', '.join(most)} or {last}"


def checked(text: str, refused: Mapping[str, str]) -> str:
    """A format. `refused`: those that a command can't print, with the reasons. Raises `Usage`."""
    chosen = next(
        (format_ for format_ in ALL if format_ == text or (format_.endswith("=") and text.startswith(format_))), ""
    )
    if not chosen or chosen in refused:
        lacking = WRITTEN.get(f"{text}=", "").partition("=")[2]
        why = f"without {lacking}" if lacking else refused.get(chosen, "")
        allowed = listed([format_ for format_ in ALL if format_ not in refused])
        raise Usage(f"-o: found {text!r}{f', but {why}' if why else ''}; allowed are {allowed}")
    if chosen == COLUMNS:
        list(_columns(text))
    return text


def columns_of(text: str) -> tuple[tuple[str, ...], Callable[[Any], list[str]]]:
    """The titles of `custom-columns=...`, and what gives the cells of an object. Raises `Usage`."""
    columns = list(_columns(text))

    def cells(tree: Any) -> list[str]:
        return [", ".join(map(text_of, find(tree))) for _, find in columns]

    return tuple(title for title, _ in columns), cells


_COLUMN = re.compile(r"""((?:[^,\["']|\[[^\]]*\]|"[^"]*"|'[^']*')+)(?:,|$)""")
"""A column; commas within brackets and quotes do not end it."""


def _columns(text: str) -> Iterator[tuple[str, Callable[[Any], list[Any]]]]:
    rest = text.removeprefix(COLUMNS)
    position = 0
    while position < len(rest) or not rest:
        column = _COLUMN.match(rest, position)
        title, colon, path = (column[1] if column is not None else rest[position:]).partition(":")
        if column is None or not colon or not title or not path:
            segment = column[1] if column is not None else rest[position:]
            raise Usage(f"-o custom-columns: found {segment!r}, allowed is TITLE:PATH such as NAME:.metadata.name")
        path = path.removeprefix("{").removesuffix("}")
        try:
            find = compiled(path if path.startswith((".", "[", "$")) else f".{path}")
        except ValueError as error:
            raise Usage(f"-o custom-columns: can't read {path}: {error}") from error
        yield title, find
        position = column.end()


def text_of(value: Any) -> str:
    """A value that a path has found: text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
