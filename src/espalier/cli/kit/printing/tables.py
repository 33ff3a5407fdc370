"""Objects in the columns that the API server gives them, as kubectl shows them: once, or as they change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.trees import json_trees
from espalier.cli.kit.follow import pause
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import MOST_LINES, Layout, Table
from espalier.kube.client import Client
from espalier.kube.errors import Expired, Unreachable, error_of
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request

SENTENCES = frozenset({"Message", "Description"})
"""Columns of the server with sentences."""
ACCEPT = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@dataclass(frozen=True)
class Selection:
    """Selected objects: all of a namespace (None: of all namespaces), or those of a name or label selector."""

    resource: Resource
    namespace: str | None
    name: str | None = None
    labels: str = ""

    @property
    def query(self) -> dict[str, str]:
        """The selection as parameters of a list."""
        fields = {"fieldSelector": f"metadata.name={self.name}"} if self.name else {}
        return fields | ({"labelSelector": self.labels} if self.labels else {})


@dataclass
class Columns:
    """Columns of the server that are shown."""

    wide: bool
    namespaces: bool
    names: list[str] = field(default_factory=list)
    _shown: list[int] = field(default_factory=list)

    def learn(self, table: Tree) -> None:
        """Take the columns from a table that has them; in a watch, only the first does."""
        definitions = table.get("columnDefinitions") or []
        if definitions:
            self._shown = [index for index, column in enumerate(definitions) if self.wide or not column.get("priority")]
            names = [definitions[index]["name"] for index in self._shown]
            self.names = ["Namespace", *names] if self.namespaces else names

    def rows(self, table: Tree) -> list[list[Any]]:
        """The shown cells of each row."""
        rows = []
        for row in table.get("rows") or ():
            namespace = [row["object"]["metadata"]["namespace"]] if self.namespaces else []
            rows.append(namespace + [row["cells"][index] for index in self._shown])
        return rows

    def news(self, row: list[Any]) -> list[Any]:
        """Identity of a line: all of it except the age, which always changes."""
        return [cell for name, cell in zip(self.names, row, strict=True) if name != "Age"]


async def write(client: Client, selection: Selection, *, wide: bool = False) -> str:
    """Print the objects of a selection. Returns the resource version from which to watch for changes."""
    columns = Columns(wide, selection.namespace is None and selection.resource.namespaced)
    table, rows = await _read(client, selection, columns)
    if rows:
        output.write_table(table_of(columns.names), rows)
    else:
        _say_no_objects(selection)
    version: str = table["metadata"]["resourceVersion"]
    return version


async def watch(client: Client, selection: Selection, *, wide: bool = False) -> None:
    """Print the objects of a selection, and a line whenever one of them changes. Never ends by itself.

    A watch that breaks is restarted with a list, of which only new lines are printed.
    """
    columns = Columns(wide, selection.namespace is None and selection.resource.namespaced)
    printer = _Printer()
    last: dict[str, list[Any]] = {}

    def show(table: Tree) -> None:
        for row, table_row in zip(columns.rows(table), table.get("rows") or (), strict=True):
            uid = table_row["object"]["metadata"]["uid"]
            if last.get(uid) != columns.news(row):
                printer.add(row)
            last[uid] = columns.news(row)
        printer.write(columns.names)

    while True:
        table, _ = await _read(client, selection, columns)
        show(table)
        try:
            async for change in _changes(client, selection, table["metadata"]["resourceVersion"], ACCEPT):
                columns.learn(change.tree)
                show(change.tree)
        except (Expired, Unreachable):
            continue  # the list shows whether the API server answers at all


async def watch_objects(client: Client, selection: Selection) -> AsyncGenerator[Object, None]:
    """Each state of each object of a selection, beginning with the present ones. Never ends by itself."""
    seen: dict[str, str] = {}
    fields = selection.query.get("fieldSelector", "")
    while True:
        listed = await client.list(selection.resource, selection.namespace, labels=selection.labels, fields=fields)
        for object_ in listed.items:
            if seen.get(object_.metadata.uid) != object_.resource_version:
                seen[object_.metadata.uid] = object_.resource_version
                yield object_
        try:
            async for object_ in _changes(client, selection, listed.resource_version, "application/json"):
                seen[object_.metadata.uid] = object_.resource_version
                yield object_
        except (Expired, Unreachable):
            continue


async def _changes(client: Client, selection: Selection, version: str, accept: str) -> AsyncGenerator[Object, None]:
    """Events of a watch, over as many connections as needed, at most one in a second. Raises `Expired` or
    `Unreachable`."""
    fields = selection.query.get("fieldSelector", "")
    while True:
        began = asyncio.get_running_loop().time()
        try:
            async for event in client.watch(
                selection.resource,
                selection.namespace,
                resource_version=version,
                labels=selection.labels,
                fields=fields,
                accept=accept,
            ):
                version = event.object.resource_version or version
                if event.type != "BOOKMARK":
                    yield event.object
        except (Expired, Unreachable):
            await pause(began)
            raise
        await pause(began)


async def _read(client: Client, selection: Selection, columns: Columns) -> tuple[Tree, list[list[Any]]]:
    path = selection.resource.path(selection.namespace)
    response = await client.raw(Request("GET", path, selection.query, {"accept": ACCEPT}))
    if response.status != 200:
        raise error_of(response.status, response.body)
    table: Tree = json_trees.decode(response.body)
    columns.learn(table)
    return table, columns.rows(table)


def _say_no_objects(selection: Selection) -> None:
    where = f"in namespace {selection.namespace}" if selection.namespace else "in any namespace"
    named = f" named {selection.name}" if selection.name else ""
    output.say_wrapped(f"No {selection.resource.plural}{named} found {where}.", stderr=True)


def table_of(names: Sequence[str]) -> Table:
    """A table of the server: the columns that conditions' messages are printed in have sentences."""
    return Table(
        tuple(names), tuple(index for index, name in enumerate(names) if name in SENTENCES), most_lines=MOST_LINES
    )


class _Printer:
    """Lines of one table that arrive gradually: columns keep the width of the widest cell so far."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._waiting: list[Sequence[Any]] = []

    def add(self, row: Sequence[Any]) -> None:
        """Add a row to the next output."""
        self._waiting.append(row)

    def write(self, names: Sequence[str]) -> None:
        """Print the added rows; before the first ones, the header."""
        if not self._waiting:
            return
        is_first = self._layout is None
        if self._layout is None:
            self._layout = Layout(table_of(names), output.width())
        output.write_lines(self._layout, self._waiting, header=is_first)
        self._waiting = []
