"""`espalier move`: take clusters to another management cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.cli.clusters.move_judge import ClusterJudge
from espalier.cli.kit import connection, flags, output
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.progress import Progress
from espalier.kube.client import Client
from espalier.moving.mover import Mover, Refused
from espalier.moving.sides import Side


@click.command(cls=Command)
@click.option(
    "--to-kubeconfig",
    type=flags.FILE,
    required=True,
    metavar="FILE",
    help="Kubeconfig of the target.",
)
@click.option("--to-context", metavar="NAME", help="Context within it.")
@click.option(
    "--cluster",
    "names",
    multiple=True,
    metavar="NAME",
    help="Cluster to move. Repeatable. Default: all.",
)
@click.option("--back", is_flag=True, help="Take back a move that has not handed over yet.")
@click.option("--dry-run", is_flag=True, help="Check everything, print the objects that would be moved, write nothing.")
@flags.connection
async def move(
    *,
    to_kubeconfig: Path,
    to_context: str | None,
    names: Sequence[str],
    back: bool,
    dry_run: bool,
    connect: flags.Connection,
) -> None:
    """Move clusters to another management cluster. Their machines and what runs there are not touched.

    Whatever ends the command, the same command goes on with the move; with --back it is taken back, until the source
    has handed a cluster over. docs/moving.md says what is moved.

    \b
    Examples:
      espalier move --to-kubeconfig new.kubeconfig --cluster garden --dry-run
      espalier move --to-kubeconfig new.kubeconfig --cluster garden
    """
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415  with all of rendering: not for help

    if back and dry_run:
        raise Usage("--dry-run shows a move: omit it, or --back")
    there = flags.Connection(to_kubeconfig, to_context)
    async with connection.connect(connect) as source, connection.connect(there) as target:
        with Progress() as progress:
            mover = Mover(
                await _side(source.client, "the source"),
                await _side(target.client, f"the target ({to_kubeconfig})"),
                ClusterJudge(PROVIDERS),
                progress.say,
            )
            keys = [Key(source.namespace, name) for name in dict.fromkeys(names)]
            keys = keys or await _managed(source.client, source.namespace)
            try:
                if back:
                    await mover.take_back(keys)
                elif dry_run:
                    moved = await mover.check(keys)
                else:
                    await mover.move(keys)
            except Refused as refused:
                raise Failure("\n".join(refused.problems)) from None
        if dry_run:
            for key, objects in moved.items():
                output.say(
                    "\n".join([f"cluster {key}: {len(objects)} objects would be moved", *map("  {}".format, objects)])
                )


async def _side(client: Client, what: str) -> Side:
    side = await Side.of(client)
    if side is None:
        raise Failure(
            f"{what} is no management cluster: it has no namespace eksa-system; apply `espalier manifests` there"
        )
    return side


async def _managed(client: Client, namespace: str) -> list[Key]:
    """The Clusters of a namespace that do not manage themselves. Raises `Failure` if there are none."""
    clusters = (await client.list(Cluster.resource, namespace)).items
    keys = [
        cluster.key
        for cluster in clusters
        if ((cluster.tree.get("spec") or {}).get("managementCluster") or {}).get("name") not in (None, "", cluster.name)
    ]
    if not keys:
        raise Failure(f"namespace {namespace} has no clusters that could be moved; give another one with --namespace")
    return keys
