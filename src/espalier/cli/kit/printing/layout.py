"""Lines of a table. On a narrow terminal sentences give way first, then lists; every other cell stays whole. Pure.

A name, a version, a state or a count that is cut can't be told from another one, nor be copied. A sentence is wrapped
in its column while it can be read there, and below its row otherwise. A message is what a person looks for when
something is wrong, so it is not cut to a line as `docker ps` does; rich has no text below a row, and shortens all
columns alike. Pipes and files get every row in one line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from espalier.api.text.printable import in_one_line, quoted

NONE = "-"
"""An empty cell."""
NONE_OF_KUBECTL = "<none>"
BETWEEN = 3
"""Blanks between columns."""
MOST_LINES = 3
"""Lines of a sentence in a list of objects: its whole text is in the description of the object, and in pipes."""
_READABLE = 60
"""Columns of a terminal in which a sentence of any length is read with ease."""
LONGEST = 4000
"""Characters of a text of others that is printed, as in the dashboard: an Event's message may have a megabyte."""
_SHORT = 6
"""Lines that a sentence may take in less than that."""
_LEAST = 30
"""Columns in which short sentences can be read."""
_BELOW = "    "
"""Indentation of what stands below its row."""
_BRANCHES = re.compile("[│├└─ ]*")


@dataclass(frozen=True)
class Table:
    """The columns of a table."""

    columns: tuple[str, ...]
    sentences: tuple[int, ...] = ()
    """Positions of columns of sentences."""
    lists: tuple[int, ...] = ()
    """Positions of columns of lists, which are wrapped between words, or of branches of a tree."""
    most_lines: int | None = None
    """A sentence of more lines is cut at its end."""
    as_written: tuple[int, ...] = ()
    """Positions of titles that are names or a user's own: they are not printed in capitals."""
    nothing: str = NONE
    """Text of an empty cell."""
    hangs: bool = False
    """A first cell that has no room beside the others of its row has a line of its own above them."""

    def named(self, *columns: str) -> Table:
        """The same with other titles."""
        return replace(self, columns=columns)

    def without(self, *titles: str) -> Table:
        """The same without its last columns, which have these titles. Rows may have cells for them."""
        columns = self.columns[: len(self.columns) - len(titles)]
        if self.columns[len(columns) :] != titles:
            raise ValueError(f"the last columns are {self.columns}, not {titles}")
        stay = tuple(index for index in self.sentences if index < len(columns))
        return replace(
            self, columns=columns, sentences=stay, lists=tuple(index for index in self.lists if index < len(columns))
        )


@dataclass(frozen=True)
class _Plan:
    widths: list[int]
    lines: list[list[int]]
    """The positions of the columns in each line of a row; all but the first line are indented."""
    below: int | None
    """The column whose sentences stand below the row."""


class Layout:
    """Lines of a table for a width (None: of any length). Rows may come gradually: columns then only get wider.

    `header_lines` is the number of lines that the header took in the last call.
    """

    def __init__(self, table: Table, width: int | None) -> None:
        self._table, self._width = table, width
        self._natural = [0] * len(table.columns)
        self._longest_word = [0] * len(table.columns)
        self._indent = len(_BELOW)
        self.header_lines = 0
        self._places: tuple[list[list[int]], int | None] | None = None

    def lines(self, rows: Sequence[Sequence[Any]], *, header: bool = True) -> list[str]:
        """The lines of these rows, after a header. It comes again, unasked, once wider rows move columns elsewhere."""
        table = self._table
        titles = [
            in_one_line(title if index in table.as_written else title.upper())
            for index, title in enumerate(table.columns)
        ]
        cells = [
            [
                cell_of(value, table.nothing, None if index in table.lists else LONGEST)
                for index, value in enumerate(row[: len(titles)])
            ]
            for row in rows
        ]
        for row in [titles, *cells]:
            for index, cell in enumerate(row):
                self._natural[index] = max(self._natural[index], cell_len(cell))
                if index in table.lists:
                    indent = cell_len(_continued(cell))
                    self._longest_word[index] = max(
                        self._longest_word[index], *(indent + cell_len(word) for word in cell.split(" "))
                    )
        if 0 in table.lists:
            self._indent = max(self._indent, *(cell_len(_continued(row[0])) for row in cells), 0)
        plan = self._plan(cells)
        before, self._places = self._places, (plan.lines, plan.below)
        header = header or before not in (None, self._places)
        head = list(self._row(titles, plan, is_title=True)) if header else []
        self.header_lines = len(head)
        return [*head, *(line for row in cells for line in self._row(row, plan))]

    def _plan(self, cells: Sequence[Sequence[str]]) -> _Plan:
        widths, below = self._widths(cells)
        beside = [at for at in range(len(widths)) if at != below]
        total = self._width
        if self._table.hangs and total is not None:
            room = widths[0] - max(0, _excess(widths, total))
            widths[0] = room if room >= cell_len(self._table.columns[0]) else widths[0]
        if total is None or _excess(widths, total) <= 0:
            return _Plan(widths, [beside], below)
        room = max(total - self._indent, _LEAST)
        for at in beside:
            if at in self._table.lists:
                widths[at] = max(min(self._natural[at], room), self._longest_word[at])
            elif at in self._table.sentences:
                widths[at] = min(self._natural[at], room)
        lines: list[list[int]] = [[]]
        for at in beside:
            available = total if len(lines) == 1 else room
            if lines[-1] and _excess([widths[other] for other in (*lines[-1], at)], available) > 0:
                lines.append([])
            lines[-1].append(at)
        return _Plan(widths, lines, below)

    def _widths(self, cells: Sequence[Sequence[str]]) -> tuple[list[int], int | None]:
        """The width of each column, and the column whose sentences stand below their rows."""
        table, total = self._table, self._width
        widths = [*self._natural]
        if total is None:
            return widths, None
        for index in table.sentences:
            beside = max(min(widths[index], _LEAST), widths[index] - _excess(widths, total))
            if beside < widths[index] and beside < _READABLE:
                fits = all(_is_short(row[index], beside) for row in cells)
                if not fits:
                    break
            widths[index] = beside
        self._narrow_lists(widths, total)
        if _excess(widths, total) <= 0 or not table.sentences:
            return widths, None
        below = table.sentences[0]
        widths = [*self._natural]
        widths[below] = -BETWEEN
        for index in table.sentences[1:]:
            widths[index] = max(min(widths[index], _LEAST), widths[index] - _excess(widths, total))
        self._narrow_lists(widths, total)
        return widths, below

    def _narrow_lists(self, widths: list[int], total: int) -> None:
        for index in self._table.lists:
            widths[index] = max(
                min(widths[index], self._longest_word[index]), widths[index] - max(0, _excess(widths, total))
            )

    def _row(self, row: Sequence[str], plan: _Plan, *, is_title: bool = False) -> Iterator[str]:
        indent = ""
        if self._table.hangs and cell_len(row[0]) > plan.widths[0]:
            yield row[0]
            row = ["", *row[1:]]
        for positions in plan.lines:
            columns = [self._cell(row[at], at, plan.widths[at]) for at in positions]
            sizes = [plan.widths[at] for at in positions]
            for line in range(max(map(len, columns), default=0)):
                parts = [column[line] if line < len(column) else "" for column in columns]
                yield indent + _joined(parts, sizes)
            indent = _continued(row[0]) if 0 in self._table.lists else ""
            indent += " " * (self._indent - cell_len(indent))
        below = plan.below
        if below is not None and (is_title or row[below] != self._table.nothing):
            room = max((self._width or 0) - len(_BELOW), _LEAST)
            yield from (_BELOW + line for line in self._sentence(row[below], room))

    def _cell(self, cell: str, at: int, width: int) -> list[str]:
        if width >= cell_len(cell):
            return [cell]
        if at in self._table.lists:
            return wrapped(cell, width, _continued(cell), breaks=False)
        return self._sentence(cell, width)

    def _sentence(self, text: str, width: int) -> list[str]:
        lines = wrapped(text, width)
        most = self._table.most_lines
        if most is None or len(lines) <= most:
            return lines
        last = lines[most - 1]
        while cell_len(last) >= width:
            last = last[:-1]
        return [*lines[: most - 1], f"{last}…"]


def _is_short(sentence: str, width: int) -> bool:
    """True if a sentence can be read in a narrow column: in few lines, with whole names."""
    return len(wrapped(sentence, width)) <= _SHORT and max(map(cell_len, sentence.split(" "))) <= width


def _excess(widths: Sequence[int], total: int) -> int:
    return sum(widths) + BETWEEN * (len(widths) - 1) - total


def _joined(parts: Sequence[str], widths: Sequence[int]) -> str:
    padded = (part + " " * (width - cell_len(part)) for part, width in zip(parts, widths, strict=True))
    return (" " * BETWEEN).join(padded).rstrip()


def _continued(cell: str) -> str:
    """The beginning of further lines of a branch of a tree; empty for anything else."""
    branches = _BRANCHES.match(cell)
    branch = branches[0] if branches is not None else ""
    return branch.translate({ord("├"): "│", ord("└"): " ", ord("─"): " "}) + "  " if branch else ""


def wrapped(text: str, width: int, indent: str = "", *, breaks: bool = True) -> list[str]:
    """Lines of a text, broken between words; words that are too long are broken, too, if it `breaks`."""
    lines: list[str] = []
    for word in text.split(" "):
        if lines and cell_len(joined := f"{lines[-1]} {word}") <= width:
            lines[-1] = joined
        else:
            lines.append(indent + word if lines else word)
        while breaks and cell_len(lines[-1]) > width:
            end = len(lines[-1])
            while end > 1 and cell_len(lines[-1][:end]) > width:
                end -= 1
            lines[-1:] = [lines[-1][:end], indent + lines[-1][end:]]
    return lines


def cell_of(value: Any, nothing: str = NONE, most: int | None = LONGEST) -> str:
    """Text of a table cell: one line of at most so many characters (None: any number), without control characters.

    API servers print `<none>` for `nothing`.
    """
    if value in (None, "", NONE_OF_KUBECTL):
        return nothing
    return in_one_line(str(value)) if most is None else quoted(str(value), most)


def cell_len(text: str) -> int:
    """The columns of a terminal that a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len as length  # noqa: PLC0415  most text is ASCII, and needs no tables

    return length(text)
