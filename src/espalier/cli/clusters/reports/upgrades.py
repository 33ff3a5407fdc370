"""`espalier upgrades list|describe|retry`: machines that are upgraded in place."""

from __future__ import annotations

from collections.abc import Iterator

import click

from espalier.api import conditions
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import RETRY_ANNOTATION
from espalier.api.meta import Condition
from espalier.api.text.listing import first
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import MOST_LINES, Table
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.runtime.controllers.owners import is_owned_by
from espalier.upgrades.node.containers import ONLY_CERTIFICATES, STEPS

KINDS: tuple[type[ControlPlaneUpgrade] | type[MachineDeploymentUpgrade] | type[NodeUpgrade], ...] = (
    ControlPlaneUpgrade,
    MachineDeploymentUpgrade,
    NodeUpgrade,
)

_STEPS = frozenset(step.condition for step in (*STEPS, *ONLY_CERTIFICATES))

UPGRADES = Table(("Kind", "Name", "Version", "Progress", "State", "Message"), sentences=(5,), most_lines=MOST_LINES)
FACTS = Table(("Upgrade", ""), sentences=(1,), as_written=(1,))
STEPS_TABLE = Table(("Step", "Done", "Reason", "Message"), sentences=(3,))
NODES = Table(("Node Upgrade", "Progress", "State", "Message"), sentences=(3,))

Upgrade = ControlPlaneUpgrade | MachineDeploymentUpgrade | NodeUpgrade


@click.group(cls=Group)
def upgrades() -> None:
    """Show in-place upgrades, and retry failed ones."""


@upgrades.command("list")
@flags.connection
@flags.output(names=True)
async def list_(*, connect: flags.Connection, output_format: str) -> None:
    """List upgrades in place: of control planes, of worker node groups, and of each node.

    \b
    Example:
      espalier upgrades list
    """
    async with connection.connect(connect) as connected:
        upgrades_ = await _all(connected.client)
    if output_format:
        output.write_objects([upgrade.tree for upgrade, _ in upgrades_], output_format, single=False)
    elif not upgrades_:
        output.say("No in-place upgrades found.", stderr=True)
    else:
        rows = [
            (typed.kind, upgrade.name, typed.spec.kubernetes_version, *_state(typed)) for upgrade, typed in upgrades_
        ]
        output.write_table(UPGRADES, rows)


@upgrades.command()
@click.argument("name", help="Name of an upgrade of any kind.")
@flags.connection
async def describe(name: str, *, connect: flags.Connection) -> None:
    """Describe an upgrade: its steps one by one, or the nodes that belong to it.

    \b
    Example:
      espalier upgrades describe garden-cp-upgrade
    """
    async with connection.connect(connect) as connected:
        everything = await _all(connected.client)
    named = [(upgrade, typed) for upgrade, typed in everything if upgrade.name == name]
    if not named:
        raise Failure(_unknown(name, [upgrade.name for upgrade, _ in everything]))
    for upgrade, typed in named:
        output.write_table(FACTS.named(typed.kind, upgrade.name), list(_facts(typed)))
        output.say()
        if isinstance(typed, NodeUpgrade):
            steps = [part for part in typed.status.conditions if part.type != "Ready"]
            output.write_table(STEPS_TABLE, [_row(part) for part in steps])
        else:
            nodes = [node for node in everything if is_owned_by(node[0], upgrade)]
            rows = [(node.name, *_state(of_node)) for node, of_node in nodes]
            output.write_table(NODES, rows)


@upgrades.command()
@click.argument("name", help="Name of a NodeUpgrade, or of the upgrade that it belongs to.")
@flags.connection
async def retry(name: str, *, connect: flags.Connection) -> None:
    """Retry a failed node, from its first step that is not done. Fix the cause of the failure first.

    \b
    Example:
      espalier upgrades retry garden-7gkzp-node-upgrader
    """
    async with connection.connect(connect) as connected:
        everything = await _all(connected.client)
        named = [upgrade for upgrade, _ in everything if upgrade.name == name]
        nodes = [(upgrade, typed) for upgrade, typed in everything if isinstance(typed, NodeUpgrade)]
        chosen = [
            (upgrade, typed)
            for upgrade, typed in nodes
            if (upgrade.name == name or any(is_owned_by(upgrade, group) for group in named)) and not typed.is_completed
        ]
        if not named:
            raise Failure(_unknown(name, [upgrade.name for upgrade, _ in everything]))
        if not chosen:
            raise Failure(f"{name}: it has no nodes left to upgrade")
        for upgrade, _ in chosen:
            asked = {"metadata": {"uid": upgrade.metadata.uid, "annotations": {RETRY_ANNOTATION: "true"}}}
            await connected.client.patch(
                NodeUpgrade.resource, upgrade.name, upgrade.namespace, patch=asked, type=PatchType.MERGE
            )
            output.say(f"NodeUpgrade {upgrade.name} is being retried")


async def _all(client: Client) -> list[tuple[Object, Upgrade]]:
    upgrades_: list[tuple[Object, Upgrade]] = []
    for kind in KINDS:
        listed = await client.list(kind.resource, SYSTEM_NAMESPACE)
        upgrades_ += [(item, item.decode(kind)) for item in sorted(listed.items, key=lambda item: item.name)]
    return upgrades_


def _state(typed: Upgrade) -> tuple[str, str, str]:
    ready = conditions.get(typed.status.conditions, "Ready")
    if isinstance(typed, NodeUpgrade):
        steps = [part for part in typed.status.conditions if part.type in _STEPS]
        progress = f"{sum(part.status == 'True' for part in steps)}/{len(steps) or '?'} steps"
    else:
        status = typed.status
        progress = f"{status.upgraded}/{status.upgraded + status.require_upgrade} nodes"
    return progress, ready.reason if ready else "Pending", ready.message if ready else ""


def _facts(typed: Upgrade) -> Iterator[tuple[str, str]]:
    progress, state, message = _state(typed)
    yield "version", typed.spec.kubernetes_version
    if isinstance(typed, NodeUpgrade):
        yield "machine", typed.spec.machine.name
        yield "type", typed.spec.node_type
    elif isinstance(typed, ControlPlaneUpgrade):
        yield "control plane", typed.spec.control_plane.name
    else:
        yield "worker node group", typed.spec.machine_deployment.name
    yield "progress", progress
    yield "state", state
    yield "message", message


def _row(part: Condition) -> tuple[str, str, str, str]:
    return part.type, "yes" if part.status == "True" else "no", part.reason, part.message


def _unknown(name: str, known: list[str]) -> str:
    there = first(known, 20) or "none"
    return f"there is no upgrade named {name!r} in namespace {SYSTEM_NAMESPACE}; existing: {there}"
