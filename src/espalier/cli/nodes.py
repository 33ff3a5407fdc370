"""`espalier nodes list|shell|logs|crash`: the real nodes of this machine, whether or not a world runs."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
from cyclopts import App, Parameter

from espalier.cli import output
from espalier.cli.failures import Failure
from espalier.cli.home import Home

if TYPE_CHECKING:  # loaded by the commands that need them: most command lines are about something else
    from espalier.local.nspawn.container import Running
    from espalier.local.nspawn.state import NodeRecord, State

Name = Annotated[str, Parameter(help="The node's name, as `espalier nodes list` shows it.")]


def register(app: App) -> None:
    """Add the commands to the program."""
    group = App(name="nodes", help="Look at the real nodes of this machine, enter them, and have them break.")
    group.command(list_, name="list")
    for command in (shell, logs, crash):
        group.command(command)
    app.command(group)


def state_of(home: Home) -> State:
    """Where a world writes down its real nodes."""
    from espalier.local.nspawn.state import State  # noqa: PLC0415

    return State(home.nodes)


async def list_(
    *,
    output_format: Annotated[
        str, Parameter(name=["--output", "-o"], help="json, yaml or jsonpath=TEMPLATE.", show_default=False)
    ] = "",
) -> None:
    """List the real nodes of this world, and whether they run.

    Example: `espalier nodes list`
    """
    output.check_format(output_format)
    state = state_of(Home.locate())
    rows = [_facts(state, record) for record in state.nodes()]
    if output_format:
        output.write_facts({"nodes": rows}, output_format)
        return
    columns = ("Name", "Cluster", "Role", "Version", "Address", "State", "Pid", "Folder")
    output.write_table(columns, [tuple(str(row[column.lower()]) for column in columns) for row in rows])


async def shell(
    name: Name,
    *command: Annotated[str, Parameter(help="What to run instead of a shell; after --.", allow_leading_hyphen=True)],
) -> None:
    """Enter a node: a shell inside, or one command.

    Example: `espalier nodes shell garden-abcde -- systemctl status kubelet`
    """
    from espalier.local.nspawn import container  # noqa: PLC0415

    _, running = _running(name)
    _become(container.inside(running, *(command or ("bash", "-l"))))


async def logs(
    name: Name,
    *,
    unit: Annotated[str, Parameter(name=["--unit", "-u"], help="Only this unit, such as kubelet.")] = "",
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="", help="Go on with what comes.")] = False,
    bootstrap: Annotated[
        bool, Parameter(negative="", help="What the bootstrap data said; also of a dead node.")
    ] = False,
) -> None:
    """Show the journal of a node, or what its bootstrap data said.

    Example: `espalier nodes logs garden-abcde -u kubelet -f`
    """
    from espalier.local.nspawn import container  # noqa: PLC0415

    if bootstrap:
        record = _find(name)
        file = state_of(Home.locate()).folder(record.id).root / "var/log/cloud-init-output.log"
        if not file.exists():
            raise Failure(f"node {record.name} has not run its bootstrap data yet")
        sys.stdout.write(file.read_text(errors="replace"))
        return
    _, running = _running(name)
    options = [*(["--unit", unit] if unit else []), *(["--follow"] if follow else ["--no-pager"])]
    _become(container.inside(running, "journalctl", *options))


async def crash(name: Name) -> None:
    """Stop a node at once, as a machine that breaks. It stays off; a MachineHealthCheck may have it replaced.

    Example: `espalier nodes crash garden-abcde`
    """
    from espalier.local.nspawn import cgroups  # noqa: PLC0415

    record = _find(name)
    state_of(Home.locate()).write_node(msgspec.structs.replace(record, crashed=True))
    await cgroups.end_all(record.id)
    sys.stdout.write(f"node {record.name} is off\n")


def _facts(state: State, record: NodeRecord) -> dict[str, str | int]:
    from espalier.local.nspawn import container  # noqa: PLC0415

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
    found = [record for record in records if name in (record.name, record.id)]
    if len(found) == 1:
        return found[0]
    allowed = ", ".join(record.name for record in records) or "none; there are no real nodes"
    raise Failure(f"there is no node {name}; allowed: {allowed}")


def _running(name: str) -> tuple[NodeRecord, Running]:
    from espalier.local.nspawn import container  # noqa: PLC0415

    record = _find(name)
    running = container.find(state_of(Home.locate()).folder(record.id))
    if running is None:
        raise Failure(f"node {record.name} is off")
    return record, running


def _become(command: tuple[str, ...]) -> NoReturn:
    sys.stdout.flush()
    os.execvp(command[0], command)  # noqa: S606  the user's own shell
