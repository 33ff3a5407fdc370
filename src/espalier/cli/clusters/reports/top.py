"""`espalier top`: a fleet on one screen."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from functools import partial

import click

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.spans import span
from espalier.cli.clusters.reports import fleet
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.printing import formats, output
from espalier.cli.kit.printing.layout import Table
from espalier.clusterapi.contract import MachineCounts
from espalier.clusters.observe import adoptions
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import readable

FLEET = Table(("Cluster", "State", "Since", "Kubernetes", "Machines", "Why"), sentences=(5,), most_lines=1)
WIDE = Table(
    ("Cluster", "State", "Since", "Kubernetes", "Machines", "Release", "Reason", "Why"), sentences=(7,), most_lines=1
)
_AROUND = 6
"""Lines of a screen beside the rows: summary, header, prompt."""


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
        rows = fleet.rows(readable(listed.items, Cluster), await _machines(client))
    if output_format not in ("", formats.WIDE):
        output.write_facts({"clusters": [_facts(row) for row in rows]}, output_format, rows="clusters")
        return
    output.say(fleet.summary(rows) + "\n")
    shown = rows if show_all or output.width() is None else _on_screen(rows, shutil.get_terminal_size().lines)
    if shown:
        _write(shown, datetime.now(UTC), wide=output_format == formats.WIDE)
    if len(shown) < len(rows):
        output.say(f"--all shows {len(rows) - len(shown)} others, which need less attention")


def _write(rows: list[fleet.Row], now: datetime, *, wide: bool) -> None:
    cells = [_cells(row, now) for row in rows]
    if wide:
        output.write_table(
            WIDE, [(*cell[:5], row.release, row.reason, cell[5]) for row, cell in zip(rows, cells, strict=True)]
        )
    else:
        output.write_table(FLEET, cells)


def _on_screen(rows: list[fleet.Row], lines: int) -> list[fleet.Row]:
    """The rows that have room: those with a reason may take two lines."""
    room, shown = max(3, lines - _AROUND), []
    for row in rows:
        room -= 2 if row.sentence else 1
        if room < 0:
            break
        shown.append(row)
    return shown


async def _machines(client: Client) -> dict[Key, MachineCounts] | None:
    """Machines by cluster; None for who may not read them."""
    try:
        control_planes = await client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)
        deployments = await client.list(MachineDeployment.resource, SYSTEM_NAMESPACE)
    except (Forbidden, NotFound):
        return None
    adopted = await adoptions.read(client, partial(output.say_wrapped, stderr=True))
    return fleet.machines_of(control_planes.items, deployments.items, adopted)


def _cells(row: fleet.Row, now: datetime) -> tuple[str, str, str, str, str, str]:
    since = span((now - row.since).total_seconds()) if row.since else ""
    machines = machines_in_words(row.machines) if row.machines is not None else ""
    return str(row.key), str(row.attention), since, row.kubernetes, machines, row.sentence


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
