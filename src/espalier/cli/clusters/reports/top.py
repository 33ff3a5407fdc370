"""`espalier top`: a fleet on one screen."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import click
import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.printable import in_one_line
from espalier.api.text.spans import span
from espalier.cli.clusters.reports import fleet
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.printing import formats, output
from espalier.cli.kit.printing.layout import Layout, Table
from espalier.clusterapi.contract import MachineCounts
from espalier.clusters.observe import adoptions
from espalier.clusters.observe.scope import read
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object

FLEET = Table(("Cluster", "State", "Since", "Kubernetes", "Machines", "Why"), sentences=(5,), most_lines=1, hangs=True)
WIDE = Table(
    ("Cluster", "State", "Since", "Kubernetes", "Machines", "Release", "Reason", "Why"),
    sentences=(7,),
    most_lines=1,
    hangs=True,
)
_AROUND = 4
"""Lines of a screen beside the table: summary, empty line, what `--all` shows, prompt."""


Cells = Sequence[str]
"""A row of a table."""


@click.command(cls=Command)
@flags.connection
@click.option("--all", "show_all", is_flag=True, help="All clusters, also those that have no room on the screen.")
@flags.output(wide=True)
async def top(*, connect: flags.Connection, show_all: bool, output_format: str) -> None:
    """Show all clusters on one screen, those that need attention most first.

    States: failing (somebody must act), waiting (on its way), unknown (not reported yet), warned (ready, but
    certificates, drift or the spec need attention), held (paused or being moved), ready. Machines are ready/wanted, and
    those that are not up to date. Without --namespace, of all namespaces.

    \b
    Examples:
      espalier top
      espalier top -o wide
      espalier top -o json
    """
    async with connection.connect(connect) as connected:
        client = connected.client
        listed = await client.list(Cluster.resource, connect.namespace)
        rows = fleet.rows(_readable(listed.items), await _machines(client))
    if output_format not in ("", formats.WIDE):
        output.write_facts({"clusters": [_facts(row) for row in rows]}, output_format, rows="clusters")
        return
    output.say(fleet.summary(rows) + "\n")
    table, cells = table_of(rows, datetime.now(UTC), wide=output_format == formats.WIDE)
    width = output.width()
    if not show_all and width is not None:
        cells = on_screen(table, cells, width, shutil.get_terminal_size().lines)
    if cells:
        output.write_table(table, cells)
    if len(cells) < len(rows):
        output.say(f"--all shows {len(rows) - len(cells)} others, which need less attention")


def table_of(rows: Sequence[fleet.Row], now: datetime, *, wide: bool) -> tuple[Table, Sequence[Cells]]:
    """The table of a fleet, and its rows."""
    cells = [_cells(row, now) for row in rows]
    return (WIDE, cells) if wide else (FLEET, [(*cell[:5], cell[-1]) for cell in cells])


def on_screen(table: Table, cells: Sequence[Cells], width: int, lines: int) -> Sequence[Cells]:
    """The first rows, as many as have room on a screen; at least one."""
    for count in range(min(len(cells), lines), 1, -1):
        if len(Layout(table, width).lines(cells[:count])) <= lines - _AROUND:
            return cells[:count]
    return cells[:1]


def _readable(objects: Iterable[Object]) -> Iterator[Cluster]:
    """The Clusters, also those that EKS Anywhere reconciled last. Says which can't be read."""
    for object_ in objects:
        try:
            yield read(object_)
        except msgspec.ValidationError as error:
            text = f"cluster {object_.key} is left out, as its spec can't be read: {error}"
            output.say_wrapped(f"Note: {in_one_line(text)}", stderr=True)


async def _machines(client: Client) -> dict[Key, MachineCounts] | None:
    """Machines by cluster; None where they can't be read, which is told unless Cluster API is missing."""
    try:
        control_planes = await client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)
        deployments = await client.list(MachineDeployment.resource, SYSTEM_NAMESPACE)
    except NotFound:
        return None
    except Forbidden as error:
        output.say_wrapped(f"Note: machines are not shown: {error}", stderr=True)
        return None
    adopted = await adoptions.read(client, partial(output.say_wrapped, stderr=True))
    return fleet.machines_of(control_planes.items, deployments.items, adopted)


def _cells(row: fleet.Row, now: datetime) -> Cells:
    since = span((now - row.since).total_seconds()) if row.since else ""
    machines = machines_in_words(row.machines) if row.machines is not None else ""
    state = (str(row.attention), since, row.kubernetes, machines)
    return (str(row.key), *state, row.release, row.reason, row.sentence)


def machines_in_words(machines: MachineCounts) -> str:
    """`2/3 (1 old)`: ready of wanted, and those that are not up to date."""
    text = f"{machines.ready}/{machines.wanted}"
    return f"{text} ({machines.outdated} old)" if machines.outdated else text


def _facts(row: fleet.Row) -> Tree:
    machines = row.machines
    return {
        "namespace": row.key.namespace,
        "name": row.key.name,
        "state": str(row.attention),
        "since": row.since.isoformat() if row.since else "",
        "kubernetesVersion": row.kubernetes,
        "eksaVersion": row.release,
        "machines": None
        if machines is None
        else {"wanted": machines.wanted, "ready": machines.ready, "outdated": machines.outdated},
        "reason": row.reason,
        "message": row.message,
    }
