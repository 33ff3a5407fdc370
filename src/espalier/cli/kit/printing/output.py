"""Output of objects: tables that fit a terminal, or `-o name|wide|json|yaml|jsonpath=...`."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from espalier.api.text.printable import json_text, printable
from espalier.api.trees import yaml_text
from espalier.api.trees.json_path import compiled
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import formats
from espalier.cli.kit.printing.layout import NONE_OF_KUBECTL, Layout, Table, wrapped

if TYPE_CHECKING:
    from rich.console import Console

Tree = dict[str, Any]

DEFAULT_WIDTH = 80
"""Columns of a terminal that does not say how many it has."""


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


def say_wrapped(text: str, *, stderr: bool = False) -> None:
    """The same, with lines that are wrapped between words on a terminal. A command in backticks stays in one line, if
    it has room in one, for it is copied.
    """
    columns = width(sys.stderr if stderr else sys.stdout)
    say("\n".join(within(line, columns) for line in text.split("\n")), stderr=stderr)


_COMMAND = re.compile("`[^`]*`")
_BLANK = "\N{NO-BREAK SPACE}"


def within(line: str, columns: int | None) -> str:
    """A line as lines of at most so many columns (None: any number), broken between words as `say_wrapped` does."""
    if columns is None:
        return line
    text = printable(line)
    begins = len(text) - len(text.lstrip(" "))
    glued = _COMMAND.sub(lambda command: command[0].replace(" ", _BLANK), text[begins:])
    return "\n".join(
        " " * begins + wrapped_line for wrapped_line in wrapped(glued, columns - begins, "  ", breaks=False)
    ).replace(_BLANK, " ")


def write_data(text: str) -> None:
    """Print output for programs unchanged; on a terminal, escaped like a sentence."""
    sys.stdout.write(printable(text) if sys.stdout.isatty() else text)


def write_styled(text: str) -> None:
    """Print styled text that is already escaped for a terminal."""
    sys.stdout.write(text)


def error(text: str) -> None:
    """Print on standard error why a command ends."""
    say_wrapped(text if text.startswith("Error") else f"error: {text}", stderr=True)


def write_objects(objects: Sequence[Tree], output: str, *, single: bool) -> None:
    """Print trees in the requested format. A single object that was named is not wrapped in a List."""
    for item in objects:
        if isinstance(item.get("metadata"), dict):
            item["metadata"].pop("managedFields", None)
    document: Tree = (
        objects[0]
        if single and len(objects) == 1
        else {"apiVersion": "v1", "kind": "List", "metadata": {}, "items": list(objects)}
    )
    if output.startswith(formats.COLUMNS):
        write_columns(objects, output)
        return
    if output == "json":
        text = _json(document)
    elif output == "yaml":
        text = to_yaml(document)
    elif output == "name":
        text = "".join(name_of(item) + "\n" for item in objects)
    else:
        text = json_path(document, output.removeprefix("jsonpath="))
    write_data(text)


def write_facts(facts: Tree, output: str, *, rows: str = "", kind: str = "") -> None:
    """Print data that is not an object. `rows`: the field with the lines of its table, which have a `name` if there is
    a `kind` for it."""
    if output == "json":
        write_data(_json(facts))
    elif output == "yaml":
        write_data(to_yaml(facts))
    elif output.startswith(formats.COLUMNS):
        write_columns(facts[rows] if rows else [facts], output)
    elif output == "name":
        write_data("".join(f"{kind}/{row['name']}\n" for row in facts[rows]))
    else:
        template = output.removeprefix("jsonpath=")
        text = json_path(facts, template)
        # Facts without rows may lack a field; in a list, it is a mistake such as .items of kubectl.
        if rows and not text and (field := _FIRST_FIELD.match(template)) and field[1] not in facts:
            raise Usage(f"-o jsonpath: found .{field[1]}, allowed are the fields {', '.join(map('.{}'.format, facts))}")
        write_data(text)


def write_columns(trees: Sequence[Any], output: str, *, header: bool = True) -> None:
    """Print `custom-columns=...` of trees."""
    titles, cells = formats.columns_of(output)
    write_lines(
        Layout(Table(titles, as_written=tuple(range(len(titles))), nothing=NONE_OF_KUBECTL), None),
        [cells(tree) for tree in trees],
        header=header,
    )


def _json(tree: Tree) -> str:
    return json_text(json.dumps(tree, indent=4, ensure_ascii=False)) + "\n"


def to_yaml(tree: Any) -> str:
    """YAML in block style, with keys in their order and without anchors."""
    return yaml_text.dump(tree, allow_unicode=True, width=120)


def name_of(tree: Tree) -> str:
    """`cluster.anywhere.eks.amazonaws.com/garden`, as `kubectl -o name` prints it."""
    group, slash, _ = str(tree.get("apiVersion", "")).partition("/")
    kind = str(tree.get("kind", "")).lower()
    return f"{kind}.{group}/{tree['metadata']['name']}" if slash else f"{kind}/{tree['metadata']['name']}"


_ACTION = re.compile(r"""\{((?:[^{}"']|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')*)\}""")
"""An expression in braces; braces within quotes do not count."""


_FIRST_FIELD = re.compile(r"\s*\{\s*(?:range\s+)?\$?\.([A-Za-z_]\w*)")
"""The field of the whole tree that a template asks for first."""


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
    text = _rendered([tree], rest)
    if next(rest, None) is not None:
        raise Usage("-o jsonpath: can't read {end}: found no {range} before it")
    return text


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
    return "".join(_rendered_item(tree, iter(body)) for tree in trees)


def _rendered_item(tree: Any, pieces: Iterator[tuple[str, str]]) -> str:
    parts = []
    for kind, text in pieces:
        if kind == "text":
            parts.append(text.replace("\\n", "\n").replace("\\t", "\t"))
        elif text.split(maxsplit=1)[:1] == ["range"]:
            parts.append(_rendered(_values(tree, text.removeprefix("range").strip()), pieces, within=text))
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
    return " ".join(map(formats.text_of, _values(tree, expression)))


def _values(tree: Any, expression: str) -> list[Any]:
    try:
        return compiled(expression)(tree)
    except ValueError as error:
        raise Usage(f"-o jsonpath: can't read {{{expression}}}: {error}") from error


def write_table(table: Table, rows: Sequence[Sequence[Any]]) -> None:
    """A plain table like kubectl's: whole in a pipe, and fitted to a terminal (`cli/kit/printing/layout.py`)."""
    write_lines(Layout(table, width()), rows)


def write_lines(layout: Layout, rows: Sequence[Sequence[Any]], *, header: bool = True) -> None:
    """Further rows of a table."""
    lines = layout.lines(rows, header=header)
    if sys.stdout.isatty():
        lines[: layout.header_lines] = map(_bold, lines[: layout.header_lines])
    write_styled("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def width(stream: TextIO | None = None) -> int | None:
    """The columns of the terminal; None for a pipe or a file, whose lines may be of any length."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns):
        return int(columns)
    try:
        return os.get_terminal_size(stream.fileno()).columns or DEFAULT_WIDTH
    except (OSError, ValueError):
        return DEFAULT_WIDTH


def _bold(text: str) -> str:
    from rich.text import Text  # noqa: PLC0415

    out = console()
    with out.capture() as capture:
        out.print(Text(text, style="bold"), soft_wrap=True, end="")
    return capture.get()
