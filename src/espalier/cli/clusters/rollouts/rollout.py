"""`espalier rollout`: machines of a control plane or of worker node groups are replaced without a change of a spec."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import click
import msgspec

from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.cli.clusters.rollouts import rollouts
from espalier.cli.clusters.rollouts.rollouts import Target, Undo
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.printing import questions
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.client import Client
from espalier.kube.objects import Object

Result = TypeVar("Result")


class Choice(msgspec.Struct, frozen=True):
    """A cluster, and the rollouts of it that a command is about."""

    name: str
    groups: tuple[str, ...]
    control_plane: bool

    async def read(self, connected: Connected) -> tuple[Object, list[Target]]:
        """The Cluster, and the owners of the chosen machines, the control plane first. Raises `Failure`."""
        client = connected.client
        owner = await rollouts.cluster(client, Key(connected.namespace, self.name))
        return owner, await rollouts.targets(client, owner, self.groups, control_plane=self.control_plane)


def _choice(command: Callable[..., Result]) -> Callable[..., Result]:
    """Arguments that are given to the command as `choice`, a `Choice`. Without any rollout they are refused."""

    @click.argument("name", help="Name of the cluster.")
    @click.argument("groups", nargs=-1, metavar="[GROUP]...", help="Worker node groups, by their names.")
    @click.option("--control-plane", is_flag=True, help="The control plane.")
    @functools.wraps(command)
    def choosing(name: str, groups: tuple[str, ...], *, control_plane: bool, **others: Any) -> Result:
        if not groups and not control_plane:
            raise Usage("GROUP: found neither a worker node group nor --control-plane; give at least one of them")
        return command(choice=Choice(name, groups, control_plane), **others)

    return choosing


@click.group(cls=Group)
def rollout() -> None:
    """Replace the machines of a control plane or of worker node groups, or pause that."""


@rollout.command()
@_choice
@flags.connection
@click.option("--replace-machines", is_flag=True, help="Also machines that are upgraded in place: needs room for more.")
@click.option("--timeout", default="1h", metavar="TIME", show_default=True, help="Time to wait, like 90s, 5m, 1h30m.")
@click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until all machines are new and ready.")
async def restart(
    *, choice: Choice, connect: flags.Connection, replace_machines: bool, timeout: str, wait: bool
) -> None:
    """Replace all present machines by new ones of the same kind, as a rolling update does.

    It sets spec.rollout.after of Cluster API's object to now. The control plane goes first, then each group.

    \b
    Examples:
      espalier rollout restart garden md-0
      espalier rollout restart garden --control-plane --timeout 2h
    """
    seconds = flags.seconds(timeout)
    async with connection.connect(connect) as connected:
        client = connected.client
        _, chosen = await choice.read(connected)
        await rollouts.check_restart(client, chosen, replaces_in_place=replace_machines)
        with Progress() as progress:
            for target in chosen if wait else ():
                after = await rollouts.restart(client, [target])
                number = await rollouts.until_replaced(client, target, after, timeout=seconds, progress=progress)
                progress.say(f"{target.title}: {counted(number, 'machine')} replaced")
            if not wait:
                await rollouts.restart(client, chosen)
                for target in chosen:
                    progress.say(f"{target.title}: its machines are being replaced")


@rollout.command()
@_choice
@flags.connection
async def pause(*, choice: Choice, connect: flags.Connection) -> None:
    """Pause Cluster API for a control plane or worker node groups: nothing is replaced, scaled or remediated.

    \b
    Example:
      espalier rollout pause garden md-0
    """
    await _each(rollouts.pause, choice, connect, "is paused", "was paused already")


@rollout.command()
@_choice
@flags.connection
async def resume(*, choice: Choice, connect: flags.Connection) -> None:
    """Resume what was paused.

    \b
    Example:
      espalier rollout resume garden md-0
    """
    await _each(rollouts.resume, choice, connect, "goes on", "was not paused")


@rollout.command()
@_choice
@flags.connection
@click.option("--replace-machines", is_flag=True, help="Also if machines that are new already are replaced again.")
async def undo(*, choice: Choice, connect: flags.Connection, replace_machines: bool) -> None:
    """Take back a restart that is under way: machines that were not replaced yet stay.

    New machines of a control plane stay, too. Those of a worker node group are replaced again, by machines like the
    ones that stay: Cluster API keeps one kind. To keep both as they are, pause the rollout instead.
    A change of the cluster's spec is taken back in its manifest, not here.

    \b
    Example:
      espalier rollout undo garden md-0
    """
    async with connection.connect(connect) as connected:
        owner, chosen = await choice.read(connected)
        undone = [await rollouts.undo_of(connected.client, owner, target) for target in chosen]
        if not replace_machines:
            if not _is_wanted(undone, choice.name):
                return
            # The rollout went on while somebody thought about it.
            undone = [await rollouts.undo_of(connected.client, owner, target) for target in chosen]
        with Progress() as progress:
            for each in undone:
                await rollouts.undo(connected.client, each.target)
                stay = f"{counted(each.stay, 'machine')} not replaced yet {'stays' if each.stay == 1 else 'stay'}"
                again = f", {_again(each)}" if each.again else ""
                progress.say(f"{each.target.title}: the restart is taken back, {stay}{again}")


def _again(undone: Undo) -> str:
    return f"{counted(undone.again, 'new machine')} {'is' if undone.again == 1 else 'are'} replaced again"


def _is_wanted(undone: Sequence[Undo], name: str) -> bool:
    """True if machines may be replaced again, and if none would be. Raises `Usage` without a terminal to ask on."""
    effects = [f"{each.target.title}: {_again(each)}" for each in undone if each.again]
    if not effects:
        return True
    what = f"{'; '.join(effects)} if the restart is taken back"
    groups = " ".join(dict.fromkeys(each.target.group for each in undone if each.again))
    if not questions.are_possible():
        raise Usage(
            f"{what}: give --replace-machines to have that, or keep all machines as they are with "
            f"`espalier rollout pause {name} {groups}`"
        )
    return questions.confirmed(f"{what}. Take it back?")


async def _each(
    act: Callable[[Client, Target], Awaitable[bool]], choice: Choice, connect: flags.Connection, done: str, before: str
) -> None:
    async with connection.connect(connect) as connected:
        _, chosen = await choice.read(connected)
        with Progress() as progress:
            for target in chosen:
                has_changed = await act(connected.client, target)
                progress.say(f"the rollout of {target.title} {done if has_changed else before}")
