"""`espalier nodes list|shell|logs|crash`: the real nodes of this machine, whether or not a local environment runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import click
import msgspec

from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table

if TYPE_CHECKING:  # imported by the commands that need them, to keep other commands fast
    from espalier.realnodes.nspawn.container import Running
    from espalier.realnodes.nspawn.system.state import NodeRecord, State

NAME = click.argument("name", help="The node's name, as `espalier nodes list` shows it.")
LONGEST_LOG = 16 * 1024 * 1024
"""Bytes shown from the end of the output of bootstrap data."""

NODES = Table(("Name", "Cluster", "Role", "Version", "Address", "State", "Pid", "Folder"))


@click.group(cls=Group)
def nodes() -> None:
    """List, enter and crash the real nodes of this machine."""


def state_of(home: Home) -> State:
    """Folder with the records of real nodes."""
    from espalier.realnodes.nspawn.system.state import State  # noqa: PLC0415

    return State(home.nodes)


@nodes.command("list")
@flags.output(names=True)
async def list_(*, output_format: str) -> None:
    """List the real nodes of this local environment, and whether they run.

    \b
    Example:
      espalier nodes list
    """
    state = state_of(Home.locate())
    rows = [_facts(state, record) for record in state.nodes()]
    if output_format:
        output.write_facts({"nodes": rows}, output_format, rows="nodes", kind="node")
        return
    if not rows:
        output.say("No real nodes on this machine; `espalier up --nodes real` makes them for clusters.", stderr=True)
        return
    output.write_table(NODES, [tuple(str(row[column.lower()]) for column in NODES.columns) for row in rows])


@nodes.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@NAME
@click.argument("command", nargs=-1, type=click.UNPROCESSED, help="Command to run instead of a shell; after --.")
async def shell(name: str, *, command: Sequence[str]) -> None:
    """Open a shell in a node, or run one command.

    \b
    Example:
      espalier nodes shell garden-abcde -- systemctl status kubelet
    """
    from espalier.realnodes.nspawn import container  # noqa: PLC0415

    _, running = _running(name)
    _become(container.inside(running, *(command or ("bash", "-l"))))


@nodes.command()
@NAME
@click.option("--unit", "-u", default="", metavar="UNIT", help="Only this unit, such as kubelet.")
@click.option("--follow", "-f", is_flag=True, help="Follow the log.")
@click.option("--bootstrap", is_flag=True, help="Output of the bootstrap data, also of a node that is off.")
async def logs(name: str, *, unit: str, follow: bool, bootstrap: bool) -> None:
    """Show the journal of a node, or the output of its bootstrap data.

    \b
    Example:
      espalier nodes logs garden-abcde -u kubelet -f
    """
    from espalier.realnodes.nspawn import container, inside  # noqa: PLC0415
    from espalier.runtime import confined  # noqa: PLC0415

    if bootstrap:
        record = _find(name)
        root = state_of(Home.locate()).folder(record.id).root
        try:  # written by root in the node: links in its path are not followed
            log = confined.read(root, inside.LOG, start=-LONGEST_LOG, limit=LONGEST_LOG)
        except OSError as error:
            raise Failure(f"node {record.name} has not run its bootstrap data yet ({error.strerror})") from None
        output.write_data(log.decode(errors="replace"))
        return
    _, running = _running(name)
    options = [*(["--unit", unit] if unit else []), *(["--follow"] if follow else ["--no-pager"])]
    _become(container.inside(running, "journalctl", *options))


@nodes.command()
@NAME
async def crash(name: str) -> None:
    """Stop a node at once, like a machine that breaks. It stays off; a MachineHealthCheck may replace it.

    \b
    Example:
      espalier nodes crash garden-abcde
    """
    from espalier.realnodes.nspawn.system import cgroups  # noqa: PLC0415

    record = _find(name)
    state_of(Home.locate()).write_node(msgspec.structs.replace(record, crashed=True))
    await cgroups.end_all(record.id)
    output.say(f"node {record.name} is off")


def _facts(state: State, record: NodeRecord) -> dict[str, str | int]:
    from espalier.realnodes.nspawn import container  # noqa: PLC0415

    running = container.find(state.folder(record.id))
    return {
        "name": record.name,
        "cluster": record.cluster,
        "role": "control-plane" if record.control_plane else "worker",
        "version": record.version,
        "address": record.address,
        "state": "Crashed" if record.crashed else "Running" if running else "Off",
        "pid": running.init.pid if running else "",
        "folder": str(state.folder(record.id).path),
    }


def _find(name: str) -> NodeRecord:
    records = state_of(Home.locate()).nodes()
    matching = [record for record in records if name in (record.name, record.id)]
    if len(matching) == 1:
        return matching[0]
    allowed = ", ".join(record.name for record in records) or "none; there are no real nodes"
    raise Failure(f"there is no node {name}; allowed: {allowed}")


def _running(name: str) -> tuple[NodeRecord, Running]:
    from espalier.realnodes.nspawn import container  # noqa: PLC0415

    record = _find(name)
    running = container.find(state_of(Home.locate()).folder(record.id))
    if running is None:
        raise Failure(f"node {record.name} is off")
    return record, running


def _become(command: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606  the user's own shell
