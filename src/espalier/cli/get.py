"""`espalier get clusters`: the table that the API server prints, or the objects; once, or as they change."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from espalier.api.eksa.cluster import Cluster
from espalier.cli import connection, flags, output, tables
from espalier.cli.failures import Usage
from espalier.cli.tables import Selection


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
    watch: Annotated[
        bool, Parameter(name=["--watch", "-w"], negative="", help="Go on with a line for each change, until Ctrl-C.")
    ] = False,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="wide, name, json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """Show clusters.

    Example: `espalier get clusters -A -w`
    """
    output.check_format(output_format)
    if name and all_namespaces:
        raise Usage(f"found the name {name!r} and --all-namespaces; one object is of one namespace: use --namespace")
    async with connection.connect(connect) as connected:
        client = connected.client
        selection = Selection(Cluster.resource, None if all_namespaces else connected.namespace, name, selector)
        if name:
            found = await client.get(Cluster.resource, name, connected.namespace)  # it is there, or says that it is not
            if not watch and output_format not in ("", "wide"):
                output.write_objects([found.tree], output_format, single=True)
                return
        if watch and output_format in ("", "wide"):
            await tables.watch(client, selection, wide=output_format == "wide")
        elif watch:
            async for state in tables.watch_objects(client, selection):
                if output_format == "yaml":
                    sys.stdout.write("---\n")
                output.write_objects([state.tree], output_format, single=True)
                sys.stdout.flush()
        elif output_format in ("", "wide"):
            await tables.write(client, selection, wide=output_format == "wide")
        else:
            listed = await client.list(Cluster.resource, selection.namespace, labels=selector)
            output.write_objects([item.tree for item in listed.items], output_format, single=False)
