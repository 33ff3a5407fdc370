"""`espalier get clusters`: the table that the API server prints, or the objects; once, or as they change."""

from __future__ import annotations

import copy
import sys

import click

from espalier.api.eksa.cluster import Cluster
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import formats, output, tables
from espalier.cli.kit.printing.tables import Selection


@click.group(cls=Group)
def get() -> None:
    """Show objects."""


@get.command()
@click.argument("name", required=False, help="Only this one.")
@flags.connection
@flags.all_namespaces
@click.option("--selector", "-l", default="", metavar="LABELS", help="Label selector.")
@click.option("--watch", "-w", is_flag=True, help="Print a line for each change, until Ctrl-C.")
@flags.output(wide=True, names=True)
async def clusters(
    name: str | None,
    *,
    connect: flags.Connection,
    all_namespaces: bool,
    selector: str,
    watch: bool,
    output_format: str,
) -> None:
    """Show clusters.

    \b
    Example:
      espalier get clusters -A -w
    """
    if name and all_namespaces:
        raise Usage(f"found the name {name!r} and --all-namespaces; an object is in one namespace: use --namespace")
    async with connection.connect(connect) as connected:
        client = connected.client
        selection = Selection(Cluster.resource, None if all_namespaces else connected.namespace, name, selector)
        if name:
            cluster = await client.get(Cluster.resource, name, connected.namespace)  # fails if it does not exist
            if not watch and output_format not in ("", "wide"):
                output.write_objects([cluster.tree], output_format, single=True)
                return
        if watch and output_format in ("", "wide"):
            await tables.watch(client, selection, wide=output_format == "wide")
        elif watch:
            is_first = True
            async for state in tables.watch_objects(client, selection):
                if output_format == formats.YAML:
                    output.write_data("---\n")
                if output_format.startswith(formats.COLUMNS):
                    output.write_columns([state.tree], output_format, header=is_first)
                else:
                    output.write_objects([state.tree], output_format, single=True)
                is_first = False
                sys.stdout.flush()
        elif output_format in ("", "wide"):
            await tables.write(client, selection, wide=output_format == "wide")
        else:
            listed = await client.list(Cluster.resource, selection.namespace, labels=selector)
            output.write_objects([item.tree for item in listed.items], output_format, single=False)


cluster = copy.copy(clusters)
cluster.hidden = True
get.add_command(cluster, "cluster")
