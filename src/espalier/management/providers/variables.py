"""Variables in components of providers, as clusterctl has them: `${NAME}` and `${NAME:=value}`; `$$` is a `$`. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

_PLACE = re.compile(r"\$\$|\$\{([^{}\n]*)\}")
_NAME = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?::?[=-](.*))?")
_SIMPLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+=-]*")
"""Values that mean the same in quotes and without; a number stays one where a file has no quotes."""
_UNSET = "set variable {} in the environment"


class Unset(ValueError):
    """A file with variables that have no value, or are written in a way that is not known; a line for each."""


class Substitution:
    """The variables of one file. Values that YAML could take for anything else come in once it is parsed."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self._values = values
        self._marks: dict[str, str] = {}

    def text(self, text: str) -> str:
        """The text of a file with values, or with a mark for each that is not simple. Raises `Unset`."""
        problems: dict[str, None] = {}

        def value(line: str, place: re.Match[str]) -> str:
            if place[0] == "$$":  # so `$${NAME}` in a script is no variable
                return "$"
            parts = _NAME.fullmatch(place[1])
            given, default = (self._values.get(parts[1]), parts[2]) if parts is not None else (None, None)
            if not given and default is None:
                if line.lstrip().startswith("#"):
                    return place[0]
                told = "allowed are ${NAME} and ${NAME:=value}" if parts is None else _UNSET.format(parts[1])
                problems[f"{place[0]}: {told}"] = None
                return ""
            if not given:
                return str(default)  # text of the file, with its quotes
            if _SIMPLE.fullmatch(given):
                return given
            mark = f"espalier-variable-{len(self._marks)}-"
            self._marks[mark] = given
            return mark

        lines = [_PLACE.sub(partial(value, line), line) for line in text.split("\n")]
        if problems:
            raise Unset("\n".join(problems))
        return "\n".join(lines)

    def tree(self, tree: Any) -> Any:
        """A tree that was parsed of that text, with values in place of marks."""
        if not self._marks:
            return tree
        if isinstance(tree, dict):
            return {self.tree(key): self.tree(value) for key, value in tree.items()}
        if isinstance(tree, list):
            return [self.tree(value) for value in tree]
        if isinstance(tree, str):
            for mark, value in self._marks.items():
                tree = tree.replace(mark, value)
        return tree
