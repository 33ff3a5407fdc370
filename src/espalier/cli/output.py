"""Output of objects: tables that fit a terminal, or `-o name|wide|json|yaml|jsonpath=...`."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import yaml

from espalier.api.json_path import compiled
from espalier.api.printable import in_one_line, json_text, printable
from espalier.cli.failures import Usage

if TYPE_CHECKING:
    from rich.console import Console

Tree = dict[str, Any]

FORMATS = ("", "wide", "name", "json", "yaml")


def check_format(output: str) -> str:
    """The output format itself. Raises `Usage` for an unknown one."""
    if output in FORMATS or output.startswith("jsonpath="):
        return output
    raise Usage(f"-o: found {output!r}, allowed are wide, name, json, yaml and jsonpath='{{.metadata.name}}'")


def console(*, stderr: bool = False) -> Console:
    """A console with colours only on a terminal, which never wraps words of piped tables."""
    from rich.console import Console  # noqa: PLC0415  the formats for programs need not load it

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, soft_wrap=not stream.isatty())


def say(text: str = "", *, stderr: bool = False) -> None:
    """Print sentences, with text of others escaped for the terminal."""
    stream = sys.stderr if stderr else sys.stdout
    stream.write(printable(text) + "\n")
    stream.flush()


def write_data(text: str) -> None:
    """Print output for programs unchanged; on a terminal, escaped like a sentence."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def write_styled(text: str) -> None:
    """Print styled text that is already escaped for a terminal."""
    sys.stdout.write(text)


def error(text: str) -> None:
    """Print on standard error why a command ends."""
    say(text if text.startswith("Error") else f"error: {text}", stderr=True)


def write_objects(objects: Sequence[Tree], output: str, *, single: bool) -> None:
    """Print trees in the requested format. A single object that was named is not wrapped in a List."""
    for item in objects:
        if isinstance(item.get("metadata"), dict):
            item["metadata"].pop("managedFields", None)
    whole: Tree = (
        objects[0]
        if single and len(objects) == 1
        else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}
    )
    if output == "json":
        text = _json(whole)
    elif output == "yaml":
        text = to_yaml(whole)
    elif output == "name":
        text = "".join(name_of(item) + "\n" for item in objects)
    else:
        text = json_path(whole, output.removeprefix("jsonpath="))
    write_data(text)


def write_facts(facts: Tree, output: str) -> None:
    """Print data that is not an object, in the formats that make sense for it."""
    if output == "json":
        write_data(_json(facts))
    elif output == "yaml":
        write_data(to_yaml(facts))
    elif output.startswith("jsonpath="):
        write_data(json_path(facts, output.removeprefix("jsonpath=")))
    else:
        raise Usage(f"-o: found {output!r}, allowed are json, yaml and jsonpath=TEMPLATE")


def _json(tree: Tree) -> str:
    return json_text(json.dumps(tree, indent=4, ensure_ascii=False)) + "\n"


def to_yaml(tree: Any) -> str:
    """YAML in block style, with keys in their order."""
    return yaml.dump(tree, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)


def name_of(tree: Tree) -> str:
    """`cluster.anywhere.eks.amazonaws.com/garden`, as `kubectl -o name` prints it."""
    group, slash, _ = str(tree.get("apiVersion", "")).partition("/")
    kind = str(tree.get("kind", "")).lower()
    return f"{kind}.{group}/{tree['metadata']['name']}" if slash else f"{kind}/{tree['metadata']['name']}"


_ACTION = re.compile(r"""\{((?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\}""")
"""An expression in braces; braces within quotes do not count."""


def json_path(tree: Tree, template: str) -> str:
    """A kubectl JSONPath template: text, and expressions in braces, with `range`. Raises `Usage` for one that can't be
    read.
    """
    pieces: list[tuple[str, str]] = []
    position = 0
    while (start := template.find("{", position)) >= 0:
        action = _ACTION.match(template, start)
        if action is None:
            raise Usage(f"-o jsonpath: can't read {template[start:]}: found no end of it, expected `}}`")
        pieces += [("text", template[position:start]), ("expression", action[1].strip())]
        position = action.end()
    pieces.append(("text", template[position:]))
    rest = iter(pieces)
    made = _rendered([tree], rest)
    if next(rest, None) is not None:
        raise Usage("-o jsonpath: can't read {end}: found no {range} before it")
    return made


def _rendered(trees: Sequence[Any], pieces: Iterator[tuple[str, str]], *, within: str = "") -> str:
    """The pieces up to the end of a range, or all of them, for each of these trees."""
    body: list[tuple[str, str]] = []
    depth, is_closed = 0, not within
    for kind, text in pieces:
        if kind == "expression" and text.split(maxsplit=1)[:1] == ["range"]:
            depth += 1
        elif kind == "expression" and text == "end":
            if not depth:
                is_closed = True
                break
            depth -= 1
        body.append((kind, text))
    if not is_closed:
        raise Usage(f"-o jsonpath: can't read {{{within}}}: found no {{end}} after it")
    return "".join(_one(tree, iter(body)) for tree in trees)


def _one(tree: Any, pieces: Iterator[tuple[str, str]]) -> str:
    parts = []
    for kind, text in pieces:
        if kind == "text":
            parts.append(text.replace("\\n", "\n").replace("\\t", "\t"))
        elif text.split(maxsplit=1)[:1] == ["range"]:
            parts.append(_rendered(_found(tree, text.removeprefix("range").strip()), pieces, within=text))
        elif text:
            parts.append(_expression(tree, text))
    return "".join(parts)


def _expression(tree: Any, expression: str) -> str:
    if expression[0] in "\"'" and expression[-1] == expression[0] and len(expression) > 1:
        quoted = expression[1:-1].replace("\\'", "'") if expression[0] == "'" else expression[1:-1]
        try:
            return str(json.loads(f'"{quoted}"'))
        except ValueError:
            raise Usage(f"-o jsonpath: can't read {{{expression}}}: found no text in quotes") from None
    return " ".join(map(_text, _found(tree, expression)))


def _found(tree: Any, expression: str) -> list[Any]:
    try:
        return compiled(expression)(tree)
    except ValueError as error:
        raise Usage(f"-o jsonpath: can't read {{{expression}}}: {error}") from error


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def write_table(columns: Sequence[str], rows: Sequence[Sequence[Any]], *, sentences: bool = False) -> None:
    """A plain table like kubectl's; the widest columns give way on a narrow terminal.

    In a table whose last column has `sentences`, these are wrapped there, and the first column gives way beside them.
    """
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    table = RichTable(
        box=None, pad_edge=False, header_style="bold" if sys.stdout.isatty() else "", padding=(0, _BETWEEN, 0, 0)
    )
    wide = console()
    if not sys.stdout.isatty():
        wide.width = 4000
    cells = [[cell_of(one) for one in row] for row in rows]
    widths = [max(map(len, (name, *(row[at] for row in cells)))) for at, name in enumerate(columns)]
    left = wide.width - sum(width + _BETWEEN for width in widths[1:-1]) - _BETWEEN - min(widths[-1], _SENTENCE)
    for at, column in enumerate(columns):
        wraps = sentences and at == len(columns) - 1
        table.add_column(
            Text(in_one_line(column.upper())),
            overflow="fold" if wraps else "ellipsis",
            no_wrap=not wraps,
            min_width=widths[at] if sentences and 0 < at < len(columns) - 1 else None,
            max_width=max(left, len(column)) if sentences and at == 0 else None,
        )
    for row in cells:
        table.add_row(*(Text(one) for one in row))  # a plain string would be read as markup
    with wide.capture() as capture:
        wide.print(table)
    write_styled("".join(line.rstrip() + "\n" for line in capture.get().splitlines()))
    sys.stdout.flush()


_BETWEEN = 3
"""Blanks between columns."""
_SENTENCE = 30
"""Columns of a terminal that suffice for reading sentences."""


def cell_of(value: Any) -> str:
    """Text of a table cell: one line, without control characters."""
    return "<none>" if value in (None, "") else in_one_line(str(value))
