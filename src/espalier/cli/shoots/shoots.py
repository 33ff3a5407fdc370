"""`espalier shoots list|describe|flow|migrate|plan`: shoots of a garden, and the moves of their control planes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from espalier.api.core import CORE_EVENT
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output, tables
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.tables import Selection
from espalier.cli.shoots import shoot_text
from espalier.cli.shoots.shoot_moves import check_seed, move, until_moved
from espalier.cli.shoots.shoot_plan import Plan, observe
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.shoots.flow.drawing import draw
from espalier.shoots.flow.status import read
from espalier.shoots.gardener_api.transport import GardenTransport
from espalier.shoots.gardenlet.reconciling.flows import flow_of

to_seed = click.option("--to", "destination", required=True, metavar="SEED", help="Destination seed.")
timeout_ = click.option(
    "--timeout", default="1h", metavar="TIME", show_default=True, help="Time to wait, like 90s, 5m, 1h30m."
)


def waiting_time(timeout: str) -> float:
    """The seconds of `--timeout`. Raises `Usage` for 0: the operation would be reported as timed out at once."""
    seconds = flags.seconds(timeout)
    if seconds <= 0:
        raise Usage(f"--timeout: found {timeout}, allowed: more than 0s, like 5m")
    return seconds


@click.group(cls=Group)
def shoots() -> None:
    """Show shoots of a garden, and move their control planes between seeds.

    \b
    Examples:
      espalier shoots list -A
      espalier shoots plan apple -n garden-dev --to west
      espalier shoots migrate apple -n garden-dev --to west
    """


@shoots.command("list")
@flags.connection
@click.option("--all-namespaces", "-A", is_flag=True, help="The shoots of all projects.")
@click.option("--seed", default="", metavar="NAME", help="Only shoots that are on this seed, or move to it.")
@flags.output(wide=True, names=True)
async def list_(*, connect: flags.Connection, all_namespaces: bool, seed: str, output_format: str) -> None:
    """List shoots with their seed, and the progress of their operation. A shoot that moves has both seeds: `a -> b`.

    `a (silent)` is a seed whose gardenlet has stopped renewing its Lease.

    \b
    Example:
      espalier shoots list -A --seed west
    """
    async with connection.connect(connect, GardenTransport) as connected, _in_garden():
        namespace = None if all_namespaces else connected.namespace
        if not seed and output_format == "wide":
            await tables.write(connected.client, Selection(Shoot.resource, namespace), wide=True)
            return
        listed = [
            (object_, object_.decode(Shoot))
            for object_ in (await connected.client.list(Shoot.resource, namespace)).items
        ]
        chosen = [
            (object_, typed) for object_, typed in listed if seed in ("", typed.spec.seed_name, typed.status.seed_name)
        ]
        if seed and not chosen:
            await check_seed(connected.client, seed)
    if output_format not in ("", "wide"):
        output.write_objects([object_.tree for object_, _ in chosen], output_format, single=False)
    elif chosen:
        output.write_table(shoot_text.SHOOTS, [shoot_text.row(typed) for _, typed in chosen])
    else:
        where = f"in namespace {namespace}" if namespace else "in any namespace"
        output.say(f"No shoots{f' of seed {seed}' if seed else ''} found {where}.", stderr=True)


@shoots.command()
@click.argument("name", help="Name of the shoot.")
@flags.connection
@flags.output(names=True)
async def describe(name: str, *, connect: flags.Connection, output_format: str) -> None:
    """Describe a shoot: its seeds, ownership epochs, what it waits for and what is wrong.

    \b
    Example:
      espalier shoots describe apple -n garden-dev
    """
    async with connection.connect(connect, GardenTransport) as connected:
        object_ = await find(connected.client, Key(connected.namespace, name))
    if output_format:
        output.write_objects([object_.tree], output_format, single=True)
        return
    shoot = object_.decode(Shoot)
    output.write_table(shoot_text.FACTS.named("Shoot", name), list(shoot_text.facts(shoot)))
    if epochs := shoot_text.epochs(shoot):
        output.say()
        output.write_table(shoot_text.EPOCHS, epochs)
    if errors := shoot_text.errors(shoot):
        output.say()
        output.write_table(shoot_text.ERRORS, errors)
    if conditions := shoot_text.conditions(shoot):
        output.say()
        output.write_table(shoot_text.CONDITIONS, conditions)


@shoots.command()
@click.argument("name", help="Name of the shoot.")
@flags.connection
@flags.output()
async def events(name: str, *, connect: flags.Connection, output_format: str) -> None:
    """Show what was recorded in the garden about a shoot, its ShootState and its BackupEntries, oldest first.

    They tell which operations began, failed and ended, moves between seeds, and when its seed fell silent. An API
    server keeps Events for an hour, unless it is told otherwise; `espalier shoots flow` has the tasks.

    \b
    Example:
      espalier shoots events apple -n garden-dev
    """
    async with connection.connect(connect, GardenTransport) as connected:
        shoot = await find(connected.client, Key(connected.namespace, name))
        recorded = (await connected.client.list(CORE_EVENT, connected.namespace)).items
    chosen = shoot_text.events_of(shoot, [event.tree for event in recorded])
    if output_format:
        output.write_objects(chosen, output_format, single=False)
    elif chosen:
        now = SystemClock().now()
        output.write_table(shoot_text.EVENTS, [shoot_text.event_row(event, now) for event in chosen])
    else:
        output.say_wrapped(
            f"No events of shoot {name} found in namespace {connected.namespace}: an API server keeps them for an "
            f"hour, unless it is told otherwise. `espalier shoots describe {name} -n "
            f"{connected.namespace}` shows the last operation.",
            stderr=True,
        )


@shoots.command()
@click.argument("name", help="Name of the shoot.")
@flags.connection
async def flow(name: str, *, connect: flags.Connection) -> None:
    """Draw the tasks of a shoot's last operation, and their states.

    \b
    Marks: [x] done, [-] skipped, [~] waiting, [!] failing, [ ] not started.
    \b
    Example:
      espalier shoots flow apple -n garden-dev
    """
    async with connection.connect(connect, GardenTransport) as connected:
        shoot = (await find(connected.client, Key(connected.namespace, name))).decode(Shoot)
    last = shoot.status.last_operation
    if last is None:
        raise Failure(f"shoot {name} has no operation yet: no gardenlet has started on it")
    failed = {error.task_id: error.description for error in shoot.status.last_errors if error.task_id}
    drawn = flow_of(last.type)
    description = "" if last.finished else last.description
    output.say(f"{last.type} {last.state} on seed {shoot.status.seed_name or shoot.spec.seed_name}")
    output.say_wrapped(draw(drawn, read(drawn, description, failed), last.type))


@shoots.command()
@click.argument("name", help="Name of the shoot.")
@to_seed
@flags.connection
@click.option(
    "--give-up-source",
    is_flag=True,
    help="Proceed without the source seed, even if it is alive. Writes since its last delta snapshot are lost.",
)
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until the shoot runs on the seed.")
@timeout_
async def migrate(
    name: str, *, destination: str, connect: flags.Connection, give_up_source: bool, wait: bool, timeout: str
) -> None:
    """Move the control plane of a shoot to another seed; its nodes keep running.

    \b
    Example:
      espalier shoots migrate apple -n garden-dev --to west
    """
    seconds = waiting_time(timeout) if wait else 0.0
    async with connection.connect(connect, GardenTransport) as connected:
        key = Key(connected.namespace, name)
        with Progress() as progress:
            await find(connected.client, key)
            await check_seed(connected.client, destination)
            await move(connected.client, key, destination, give_up_source=give_up_source)
            if not wait:
                progress.say(
                    f"shoot {key} moves to seed {destination}; "
                    f"`espalier shoots flow {key.name} -n {key.namespace}` shows the progress"
                )
                return
            await until_moved(connected.client, key, destination, timeout=seconds, progress=progress)
            progress.say(f"shoot {key} runs on seed {destination}")


@shoots.command()
@click.argument("name", help="Name of the shoot.")
@to_seed
@flags.connection
@flags.output()
async def plan(name: str, *, destination: str, connect: flags.Connection, output_format: str) -> int:
    """Show what a move would do, and whether it would be refused. Changes nothing.

    \b
    Example:
      espalier shoots plan apple -n garden-dev --to west
    """
    async with connection.connect(connect, GardenTransport) as connected:
        key = Key(connected.namespace, name)
        shoot = (await find(connected.client, key)).decode(Shoot)
        if destination == shoot.spec.seed_name:
            raise Failure(f"--to: found {destination}, where shoot {key} already is, or moves to; name another seed")
        await check_seed(connected.client, destination)
        plan_ = Plan.of(await observe(connected.client, key, destination))
    if output_format:
        output.write_facts(plan_.facts(), output_format)
    else:
        shoot_text.write_plan(plan_)
    if plan_.refusals:
        raise Failure("; ".join(plan_.refusals))
    return 0


@asynccontextmanager
async def _in_garden() -> AsyncIterator[None]:
    """Raises `Failure` where Shoots are requested from an API server that does not serve them."""
    try:
        yield
    except NotFound as error:
        if not error.is_of_kind:
            raise
        raise Failure("this API server does not serve Shoots: use the kubeconfig of a garden") from error


async def find(client: Client, key: Key) -> Object:
    """A Shoot by its name. Raises `Failure` with the existing ones."""
    async with _in_garden():
        try:
            return await client.get(Shoot.resource, key.name, key.namespace)
        except NotFound as error:
            if error.is_of_kind:
                raise
            existing = [shoot.name for shoot in (await client.list(Shoot.resource, key.namespace)).items]
            listed = first(existing, 20) or "none"
            raise Failure(f"there is no shoot {key.name!r} in namespace {key.namespace}; existing: {listed}") from error
