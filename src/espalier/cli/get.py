"""`espalier get clusters`: the table that the API server prints, or the objects."""

from __future__ import annotations

from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli import connection, flags, output
from espalier.kube.client import Client
from espalier.kube.errors import error_of
from espalier.kube.wire import Request

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def register(app: App) -> None:
    """Add the command to the program."""
    group = App(name="get", help="Show objects.")
    group.command(clusters, name=["clusters", "cluster"])
    app.command(group)


async def clusters(
    name: Annotated[str | None, Parameter(help="Only this one.")] = None,
    *,
    connect: flags.Connection = flags.Connection(),  # noqa: B008  frozen
    all_namespaces: Annotated[
        bool, Parameter(name=["--all-namespaces", "-A"], negative="", help="Of all namespaces.")
    ] = False,
    selector: Annotated[str, Parameter(name=["--selector", "-l"], help="Label selector.")] = "",
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="wide, name, json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """Show clusters.

    Example: `espalier get clusters -A -o wide`
    """
    output.check_format(output_format)
    async with connection.connect(connect) as connected:
        namespace = None if all_namespaces else connected.namespace
        if output_format in ("", "wide"):
            await write_table(
                connected.client, Cluster.resource, namespace, name, selector, wide=output_format == "wide"
            )
        elif name:
            found = await connected.client.get(Cluster.resource, name, connected.namespace)
            output.write_objects([found.tree], output_format, single=True)
        else:
            listed = await connected.client.list(Cluster.resource, namespace, labels=selector)
            output.write_objects([item.tree for item in listed.items], output_format, single=False)


async def write_table(
    client: Client,
    resource: Resource,
    namespace: str | None,
    name: str | None = None,
    selector: str = "",
    *,
    wide: bool = False,
) -> None:
    """Print objects in the columns that the API server gives them, as kubectl does."""
    query = {"labelSelector": selector} if selector else {}
    response = await client.raw(Request("GET", resource.path(namespace, name), query, {"accept": _TABLE}))
    if response.status != 200:
        raise error_of(response.status, response.body)
    table: Tree = msgspec.json.decode(response.body)
    shown = [index for index, column in enumerate(table["columnDefinitions"]) if wide or not column.get("priority")]
    columns = [table["columnDefinitions"][index]["name"] for index in shown]
    rows = [[row["cells"][index] for index in shown] for row in table["rows"]]
    if namespace is None and resource.namespaced:
        columns.insert(0, "Namespace")
        for cells, row in zip(rows, table["rows"], strict=True):
            cells.insert(0, row["object"]["metadata"]["namespace"])
    if not rows:
        where = f"in namespace {namespace}" if namespace else "in any namespace"
        output.console(stderr=True).print(f"No {resource.plural} found {where}.")
        return
    output.write_table(columns, rows)
