"""Every table of every command on terminals of every width: sentences give way, and nothing else does."""

from __future__ import annotations

import importlib
import io
import pkgutil
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from espalier import cli
from espalier.api.resource import Resource
from espalier.cli import pages
from espalier.cli.kit.printing import output, tables
from espalier.cli.kit.printing.layout import NONE, Layout, Table, wrapped
from espalier.providers.kinds import CLUSTER_API_KINDS

WIDTHS = (60, 80, 120, 160, 200, None)
LENGTHS = (20, 90, 400, 2000)
NAME = "a-name-of-63-characters-" + "x" * 38 + "z"
PATH = "/home/gardener/.espalier/clusters/" + NAME
VERSIONS = "1.31, 1.32, 1.33, 1.34, 1.35, 1.36"
SENTENCES = {
    "Message",
    "Description",
    "Event",
    "Stays Because",
    "Reason",
    "Step",
    "For",
    "Started",
    "Renewed",
    "Why",
    "Fields",
    "",
}
"""Titles of columns that may give way (without a title: values in descriptions of one object)."""


def declared() -> Iterator[tuple[str, Table]]:
    """All tables of commands."""
    for module_info in pkgutil.walk_packages(cli.__path__, "espalier.cli."):
        if module_info.name.endswith("__main__"):
            continue
        module = importlib.import_module(module_info.name)
        for name, value in vars(module).items():
            if isinstance(value, Table):
                yield f"{module_info.name.rpartition('.')[2]}.{name}", value


def served() -> Iterator[tuple[str, Table]]:
    """The tables that the API server prints of kinds, as `get` shows them."""
    kinds = {kind.resource: kind for kind in (*pages.KINDS, *CLUSTER_API_KINDS, *pages.GARDENER_KINDS["garden"])}
    for resource, kind in kinds.items():
        names = ["Namespace", "Name", *(column.name for column in kind.declaration.columns)]
        yield str_of(resource), tables.table_of(names)


def str_of(resource: Resource) -> str:
    return f"{resource.plural}.{resource.group}"


TABLES = {**dict(declared()), **dict(served())}


def sentence_of(length: int) -> str:
    words = [
        "waiting",
        "for",
        "VSphereMachineConfig",
        "vineyard",
        "to",
        "be",
        "checked",
        "against",
        "https://vcenter.example.com/sdk",
    ]
    text = ""
    while len(text) < length:
        text += f"{words[len(text) % len(words)]} "
    return text[: length - 1] + "."


def rows_of(table: Table, length: int) -> list[list[str]]:
    def cell(at: int, row: int) -> str:
        if at in table.sentences:
            return sentence_of(length) if row else "ok"
        if at in table.lists:
            return f"│  ├─ 3 Machines {NAME}, {NAME[:-1]}y" if at == 0 else VERSIONS
        words = {"Version": "v1.35.2-eks-1-35-9", "Folder": PATH, "Log": PATH, "Ready": "False", "Age": "12d"}
        return words.get(table.columns[at], NAME if table.columns[at].endswith("Name") else f"{row + 1}of3")

    return [[cell(at, row) for at in range(len(table.columns))] for row in range(3)]


def test_all_tables_are_found() -> None:
    assert {"upgrades.UPGRADES", "seeds.SEEDS", "describe.OBJECTS", "clusters.anywhere.eks.amazonaws.com"} <= set(
        TABLES
    )
    assert len(TABLES) > 40


@pytest.mark.parametrize("name", TABLES)
def test_only_sentences_are_in_columns_that_give_way(name: str) -> None:
    table = TABLES[name]
    giving_way = {table.columns[at] for at in table.sentences}
    assert giving_way <= SENTENCES
    assert {"Message", "Event"} & set(table.columns) <= giving_way


@pytest.mark.parametrize("name", TABLES)
def test_a_table_keeps_what_matters_at_every_width(name: str) -> None:
    table = TABLES[name]
    for width in WIDTHS:
        for length in LENGTHS:
            rows = rows_of(table, length)
            lines = Layout(table, width).lines(rows)
            text = "\n".join(lines)
            words_beside = [value for row in rows for at, value in enumerate(row) if at not in table.sentences]
            words = [word for value in words_beside for word in value.split(" ")]
            assert [word for word in words if word not in text] == []
            assert [title for title in table.columns if not all(word in text for word in title.upper().split())] == []
            if width is None:
                assert len(lines) == 1 + len(rows)
                assert all(value in text for row in rows for value in row)
            elif _needed(table, rows) <= width:
                assert max(map(len, lines)) <= width
            if table.most_lines is None:
                assert "…" not in text


STATE = "waits for 3 of 5 machines, which are replaced by new ones xx"


def long_rows_of(table: Table) -> list[list[str]]:
    """Rows in which every cell that is no list or sentence is a name, and the last ones a long state."""

    def cell(at: int, row: int) -> str:
        if at in table.sentences or at in table.lists:
            return rows_of(table, 400)[row][at]
        return NAME if at < 2 else STATE if row == 1 else f"{row}m"

    return [[cell(at, row) for at in range(len(table.columns))] for row in range(3)]


@pytest.mark.parametrize("width", [width for width in WIDTHS if width])
@pytest.mark.parametrize("name", TABLES)
def test_no_line_is_wider_than_the_terminal(name: str, width: int) -> None:
    table = TABLES[name]
    for rows in (long_rows_of(table), rows_of(table, 90)):
        lines = Layout(table, width).lines(rows)
        longest = _longest_cell(table, rows)
        assert [line for line in lines if len(line) > max(width, longest + len("│     │  "))] == []
        text = "\n".join(lines)
        shown = [row[at] for row in rows for at in range(len(row)) if at not in (*table.sentences, *table.lists)]
        assert [value for value in shown if value not in text] == []
        titles = [word for title in table.columns for word in title.upper().split()]
        assert [word for word in titles if word not in text] == []


@pytest.mark.parametrize("name", TABLES)
def test_each_row_has_as_many_lines(name: str) -> None:
    table = replace(TABLES[name], sentences=(), lists=())
    rows = long_rows_of(table)
    lines = Layout(table, 80).lines(rows)
    assert len(lines) % (1 + len(rows)) == 0
    each = len(lines) // (1 + len(rows))
    for at in range(each):
        (indent,) = {len(line) - len(line.lstrip()) for line in lines[at::each]}
        assert indent == (4 if at else 0)


def _longest_cell(table: Table, rows: list[list[str]]) -> int:
    """The length of what is never broken."""
    texts = [
        text
        for row in [[*table.columns], *rows]
        for at, cell in enumerate(row)
        if at not in table.sentences
        for text in (cell.split(" ") if at in table.lists else [cell])
    ]
    return max(map(len, texts))


def test_columns_without_room_stand_below_each_row() -> None:
    table = Table(("Name", "Version", "State", "Since"))
    rows = [("a", "v1.35", "deployed", "5m"), ("b", "v1.36", STATE, "12d")]
    lines = Layout(table, 76).lines(rows)
    assert lines == [
        "NAME   VERSION",
        "    STATE".ljust(67) + "SINCE",
        "a      v1.35",
        "    deployed".ljust(67) + "5m",
        "b      v1.36",
        f"    {STATE}   12d",
    ]
    assert len(Layout(table, 76).lines(rows[:1])) == 2


def test_columns_below_a_branch_keep_the_tree() -> None:
    table = Table(("Object", "Version", "State"), lists=(0,))
    rows = [("Cluster a", "v1.35", STATE), ("├─ Machine b", "v1.35", "ready"), ("└─ Machine c", "v1.35", "ready")]
    assert Layout(table, 80).lines(rows) == [
        "OBJECT         VERSION",
        "     STATE",
        "Cluster a      v1.35",
        f"     {STATE}",
        "├─ Machine b   v1.35",
        "│    ready",
        "└─ Machine c   v1.35",
        "     ready",
    ]


def _needed(table: Table, rows: list[list[str]]) -> int:
    """The width that cells need which stay as they are; sentences then stand below them."""
    columns = [at for at in range(len(table.columns)) if at not in table.sentences[:1]]

    def least(text: str, at: int) -> int:
        if at in table.lists:
            return max(len(word) for word in text.split(" ")) + len("│  │  ")
        return min(len(text), 30) if at in table.sentences else len(text)

    widths = [max(least(text, at) for text in (table.columns[at], *(row[at] for row in rows))) for at in columns]
    return sum(widths) + 3 * (len(columns) - 1)


LIST = Table(("Name", "Ready", "Message", "Age"), sentences=(2,), most_lines=3)


def test_sentence_is_wrapped_in_its_column_if_readable() -> None:
    lines = Layout(LIST, 80).lines([("garden", "False", sentence_of(100), "5m"), ("b", "True", "", "5m")])
    assert lines[1].startswith("garden   False   waiting")
    assert lines[1].endswith("   5m")
    assert len(lines) == 4
    assert lines[3].split() == ["b", "True", NONE, "5m"]
    column = lines[0].index("MESSAGE")
    assert " ".join(line[column : column + 56].strip() for line in lines[1:3]).startswith(sentence_of(100)[:60])


def test_a_sentence_without_room_stands_below_its_row() -> None:
    lines = Layout(LIST, 80).lines([(NAME, "False", sentence_of(150), "5m"), ("b", "True", "", "5m")])
    assert lines[0].split() == ["NAME", "READY", "AGE"]
    assert lines[1] == "    MESSAGE"
    assert lines[2].split() == [NAME, "False", "5m"]
    assert " ".join(line.strip() for line in lines[3:6]) == sentence_of(150)
    assert lines[6].split() == ["b", "True", "5m"]
    assert len(lines) == 7


def test_a_name_in_a_sentence_is_broken_in_no_column() -> None:
    table, name = Table(("reason", "event"), sentences=(1,)), "eksa-system/garden-md-0-worker-unhealthy"
    row = ("MissingDependentObjects", f"created MachineHealthCheck {name}")
    for width in range(len(name) + 4, 100):
        assert any(line.endswith(name) for line in Layout(table, width).lines([row])), width


def test_a_long_sentence_of_a_list_is_cut_at_its_end() -> None:
    lines = Layout(LIST, 120).lines([("garden", "False", sentence_of(2000), "5m")])
    assert len(lines) == 4
    assert [line.endswith("…") for line in lines] == [False, False, False, True]


def test_a_branch_of_a_tree_continues_below_itself() -> None:
    lines = wrapped("│  ├─ 3 Machines garden-a, garden-b", 20, "│  │    ", breaks=False)
    assert lines == ["│  ├─ 3 Machines", "│  │    garden-a,", "│  │    garden-b"]


def test_a_name_in_a_title_can_be_copied() -> None:
    (title,) = Layout(TABLES["upgrades.FACTS"].named("NodeUpgrade", NAME), 80).lines([])
    assert title.split() == ["NODEUPGRADE", NAME]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_a_terminal_says_how_wide_tables_are(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "dumb")
    out = Terminal()
    monkeypatch.setattr(sys, "stdout", out)
    output.write_table(LIST, [("garden", "False", sentence_of(120), "5m")])
    lines = out.getvalue().splitlines()
    assert columns - 20 < max(map(len, lines)) <= columns
    assert "garden   False" in out.getvalue()


def test_empty_cells_are_the_same_everywhere() -> None:
    rows = [("a", value) for value in (None, "", "-", "<none>", "<unset>", "<unknown>")]
    lines = Layout(Table(("Name", "State")), None).lines(rows)
    assert {line.split()[1] for line in lines[1:5]} == {"-"}
    assert [line.split()[1] for line in lines[5:]] == ["<unset>", "<unknown>"]


def test_titles_come_again_with_another_layout() -> None:
    layout = Layout(Table(("Name", "State", "Age")), 60)
    assert len(layout.lines([("a", "ready", "5m")])) == 2
    assert layout.lines([("b", "ready", "5m")], header=False) == ["b      ready   5m"]
    assert layout.lines([(NAME, "ready", "5m")], header=False) == ["NAME", "    STATE   AGE", NAME, "    ready   5m"]
    assert layout.header_lines == 2
    assert layout.lines([("b", "ready", "5m")], header=False) == ["b", "    ready   5m"]
    assert layout.header_lines == 0


def test_a_text_of_a_megabyte_is_cut() -> None:
    """As in the dashboard: an Event's message, a condition's and any cell of the API server; names of a list stay."""
    lines = Layout(Table(("Object", "Message"), sentences=(1,), lists=(0,)), 80).lines(
        [["a " * 3000, "word " * 200_000]]
    )
    assert len(lines) < 200
    assert "(1000000 characters)" in " ".join("".join(lines).split())
    (_, row) = Layout(Table(("Object", "Message"), sentences=(1,), lists=(0,)), None).lines([["a " * 3000, "x"]])
    assert row.count("a ") == 3000
