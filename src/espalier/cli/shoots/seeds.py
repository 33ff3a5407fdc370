"""`espalier seeds list|evacuate`: seeds of a garden, and moving all shoots away from one."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import MappingProxyType

import click

from espalier.api import conditions as condition_list
from espalier.api.core import LEASE
from espalier.api.gardener import names
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import GARDENLET_READY, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.resource import Key
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import MOST_LINES, Table
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.shoots.shoot_moves import move, no_seed
from espalier.cli.shoots.shoots import timeout_, waiting_time
from espalier.kube.client import Client
from espalier.kube.errors import ApiError, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.shoots.admission import seed_objects
from espalier.shoots.garden.evacuation import Evacuation, next_moves
from espalier.shoots.gardener_api.transport import GardenTransport

POLL_INTERVAL = 2.0
"""Seconds between two checks of all shoots while a seed is evacuated."""

SEEDS = Table(
    ("Name", "Ready", "Shoots", "Coming", "Leaving", "Renewed", "Backup", "Message"),
    sentences=(7,),
    most_lines=MOST_LINES,
)
BLOCKED = Table(("Shoot", "Stays Because"), sentences=(1,))
MOVES = Table(("Shoot", "Destination", "Reason"), sentences=(2,))


@click.group(cls=Group)
def seeds() -> None:
    """Show seeds of a garden, and move all shoots away from one."""


@seeds.command("list")
@flags.connection
@flags.output(names=True)
async def list_(*, connect: flags.Connection, output_format: str) -> None:
    """List seeds: whether they are ready, and how many shoots they have, gain and lose.

    \b
    Example:
      espalier seeds list
    """
    async with connection.connect(connect, GardenTransport) as connected:
        client = connected.client
        listed = await _seeds(client)
        if output_format:
            output.write_objects([seed.tree for seed in listed], output_format, single=False)
            return
        shoots = [shoot.decode(Shoot) for shoot in (await client.list(Shoot.resource)).items]
        renewed = await _renewed(client)
    if not listed:
        output.say("No seeds found.", stderr=True)
        return
    output.write_table(
        SEEDS,
        [
            (*_row(seed.decode(Seed), shoots), renewed.get(seed.name, "never"), *_rest(seed.decode(Seed)))
            for seed in listed
        ],
    )


@seeds.command()
@click.argument("name", help="Name of the seed to evacuate.")
@flags.connection
@click.option(
    "--to", "destination", default=None, metavar="SEED", help="Destination of all. Default: as for new shoots."
)
@click.option(
    "--at-once",
    type=flags.Number(1, 1000),
    default=5,
    metavar="NUMBER",
    show_default=True,
    help="Maximum of concurrent migrations in the garden.",
)
@click.option("--dry-run", is_flag=True, help="Only print which shoots would move where, and which would stay.")
@timeout_
async def evacuate(
    name: str, *, connect: flags.Connection, destination: str | None, at_once: int, dry_run: bool, timeout: str
) -> None:
    """Move all shoots away from a seed, a few at a time.

    At the end, it lists the shoots that can't be moved, with reasons. After an interruption, run it again.

    \b
    Example:
      espalier seeds evacuate west --at-once 10
    """
    seconds = waiting_time(timeout)
    async with connection.connect(connect, GardenTransport) as connected:
        existing = {seed.name for seed in await _seeds(connected.client)}
        without_seed = {name} & (await _seeds_of_shoots(connected.client))  # somebody deleted its Seed
        for seed in filter(None, (name, destination)):
            if seed not in existing | without_seed:
                raise no_seed(seed, existing)
        if destination == name:
            raise Failure(f"--to: found {name}, which is the seed to evacuate; name another one")
        if dry_run:
            _write(await _next(connected.client, name, 10_000, destination))
            return
        with Progress() as progress:
            blocked = await _evacuate(connected.client, name, int(at_once), destination, seconds, progress)
            if blocked:
                output.write_table(BLOCKED, sorted(blocked.items()))
                raise Failure(f"seed {name} keeps {len(blocked)} of its shoots")
            progress.say(f"seed {name} has no shoots left")
            if left := await _left(connected.client, name):
                progress.say(left, sign="[yellow]![/]")


async def _evacuate(
    client: Client, name: str, limit: int, destination: str | None, timeout: float, progress: Progress
) -> dict[str, str]:
    """Move shoots until no more can be moved; returns what stays, and why."""
    refused: dict[str, str] = {}
    waiting = ""
    try:
        async with asyncio.timeout(timeout):
            while True:
                evacuation = await _next(client, name, limit, destination, refused)
                for planned in evacuation.moves:
                    key = Key(planned.namespace, planned.shoot)
                    try:
                        await move(client, key, planned.destination)
                        progress.say(f"shoot {key} moves to seed {planned.destination}", sign="[cyan]>[/]")
                    except ApiError as error:
                        refused[str(key)] = str(error)
                if not evacuation.running and evacuation.remaining <= len(evacuation.blocked):
                    return dict(evacuation.blocked)
                waiting = f"shoots still to move: {evacuation.remaining}; migrations under way: {evacuation.running}"
                progress.wait(waiting)
                await asyncio.sleep(POLL_INTERVAL)
    except TimeoutError:
        raise Overdue(
            f"seed {name} still has shoots after {timeout:g} s: {waiting}. Migrations already started continue; "
            f"run `espalier seeds evacuate {name}` again for the rest"
        ) from None


async def _next(
    client: Client, name: str, limit: int, destination: str | None, refused: Mapping[str, str] = MappingProxyType({})
) -> Evacuation:
    seeds, shoots, profiles = await asyncio.gather(
        client.list(Seed.resource), client.list(Shoot.resource), _profiles(client)
    )
    typed = [seed.decode(Seed) for seed in seeds.items]
    typed_shoots = [shoot.decode(Shoot) for shoot in shoots.items]
    return next_moves(name, typed_shoots, typed, limit, destination, profiles=profiles, refused=refused)


async def _profiles(client: Client) -> dict[str, CloudProfile]:
    """CloudProfiles by name; none if they may not be read: admission then refuses what does not fit."""
    try:
        return {
            profile.name: profile.decode(CloudProfile) for profile in (await client.list(CloudProfile.resource)).items
        }
    except (Forbidden, NotFound):
        return {}


async def _left(client: Client, name: str) -> str:
    """The reason why the Seed can't be deleted yet; empty if there is none."""
    try:
        seed = (await client.get(Seed.resource, name)).decode(Seed)
    except NotFound:
        return ""
    shoots = [shoot.decode(Shoot) for shoot in (await client.list(Shoot.resource)).items]
    return seed_objects.remains(seed, shoots)


def _write(evacuation: Evacuation) -> None:
    rows = [(f"{planned.namespace}/{planned.shoot}", planned.destination, "") for planned in evacuation.moves]
    rows += [(name, "<stays>", why) for name, why in sorted(evacuation.blocked.items())]
    if rows:
        output.write_table(MOVES, rows)
    else:
        output.say("No shoots found.", stderr=True)


async def _seeds(client: Client) -> list[Object]:
    try:
        return (await client.list(Seed.resource)).items
    except NotFound:
        raise Failure("this API server does not serve Seeds: use the kubeconfig of a garden") from None


async def _seeds_of_shoots(client: Client) -> set[str]:
    shoots = (shoot.decode(Shoot) for shoot in (await client.list(Shoot.resource)).items)
    return {name for shoot in shoots for name in (shoot.spec.seed_name, shoot.status.seed_name) if name}


async def _renewed(client: Client) -> dict[str, str]:
    try:
        leases = (await client.list(LEASE, names.SEED_LEASES)).items
    except (Forbidden, NotFound):
        return {}
    now = SystemClock().now()
    moments = {
        lease.name: condition_list.parse_timestamp(str((lease.tree.get("spec") or {}).get("renewTime", "")))
        for lease in leases
    }
    return {
        name: f"{max(0.0, (now - renewed_at).total_seconds()):.0f}s"
        for name, renewed_at in moments.items()
        if renewed_at is not None
    }


def _row(seed: Seed, shoots: list[Shoot]) -> tuple[str, str, int, int, int]:
    name = seed.metadata.name
    ready = condition_list.get(seed.status.conditions, GARDENLET_READY)
    running = sum(shoot.status.seed_name == name for shoot in shoots)
    arriving = sum(shoot.spec.seed_name == name != shoot.status.seed_name for shoot in shoots)
    leaving = sum(shoot.status.seed_name == name != shoot.spec.seed_name for shoot in shoots)
    return name, ready.status if ready is not None else "Unknown", running, arriving, leaving


def _rest(seed: Seed) -> tuple[str, str]:
    ready = condition_list.get(seed.status.conditions, GARDENLET_READY)
    backup = seed.spec.backup.provider if seed.spec.backup is not None else ""
    return backup, ready.message if ready is not None else "its gardenlet has not reported yet"
