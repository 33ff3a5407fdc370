"""Helm templates of objects: YAML, in which values stand where the chart's user may set something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any

from espalier.api.meta import Tree
from espalier.cli.kit.printing import output

_PLACE = r"HELMMARK(\d+)X"
_LINE = re.compile(rf"(?P<indent> *)(?:- {_PLACE}|{_PLACE}: null)")
_BLOCK = re.compile(rf"(?P<indent> *)(?P<dash>- )?(?P<key>[^ ]+: ){_PLACE}")


class _Kind(Enum):
    VALUE, BLOCK, LINE = range(3)


class Template:
    """Trees with marks, and the text of a template in which an expression of Helm stands for each mark."""

    def __init__(self) -> None:
        self._marked: list[tuple[_Kind, str]] = []

    def value(self, expression: str) -> str:
        """Stands for a scalar: the result of an expression, which has to be YAML."""
        return self._mark(_Kind.VALUE, expression)

    def block(self, expression: str) -> str:
        """Stands for the value of a key: the result of an expression, a list or a map."""
        return self._mark(_Kind.BLOCK, expression)

    def entries(self, condition: str, tree: Mapping[str, Any]) -> Tree:
        """These entries of a map, if a condition (`if ...`, `with ...`, `range ...`) holds. Not the first ones."""
        return {self._line(condition): None, **tree, self._line("end"): None}

    def items(self, condition: str, items: Sequence[Any]) -> list[Any]:
        """These items of a list, if a condition holds."""
        return [self._line(condition), *items, self._line("end")]

    def merged(self, expression: str) -> Tree:
        """The entries of a map that an expression results in, among others. Not the first ones."""
        return {self._mark(_Kind.LINE, f"{expression} | nindent INDENT"): None}

    def text(self, trees: Iterable[Tree], condition: str = "") -> str:
        """The documents of a template; all of them only if a condition holds."""
        documents = "---\n".join(output.to_yaml(tree) for tree in trees)
        text = "".join(self._written(line) + "\n" for line in documents.splitlines())
        return f"{{{{- {condition} }}}}\n---\n{text}{{{{- end }}}}\n" if condition else text

    def _line(self, text: str) -> str:
        return self._mark(_Kind.LINE, text)

    def _mark(self, kind: _Kind, text: str) -> str:
        self._marked.append((kind, text))
        return f"HELMMARK{len(self._marked) - 1}X"

    def _written(self, line: str) -> str:
        line = line.replace("{{", '{{ "{{" }}')
        if alone := _LINE.fullmatch(line):
            kind, text = self._marked[int(alone[2] or alone[3])]
            if kind is _Kind.LINE:
                indent = len(alone["indent"])
                return f"{' ' * indent}{{{{- {text.replace('INDENT', str(indent))} }}}}"
        elif block := _BLOCK.fullmatch(line):
            kind, text = self._marked[int(block[4])]
            if kind is _Kind.BLOCK:
                indent = len(block["indent"]) + len(block["dash"] or "") + 2
                key = block["key"].rstrip()
                return f"{block['indent']}{block['dash'] or ''}{key} {{{{- toYaml ({text}) | nindent {indent} }}}}"
        return re.sub(_PLACE, lambda mark: f"{{{{ {self._marked[int(mark[1])][1]} }}}}", line)
