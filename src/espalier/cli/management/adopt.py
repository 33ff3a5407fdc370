"""`espalier adopt`: take clusters of EKS Anywhere over, and give them back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from espalier.api.eksa.vocabulary.group import CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text import paths
from espalier.api.text.listing import counted, first
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Group
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.connecting.connection import Connected
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Table
from espalier.cli.kit.printing.progress import Progress
from espalier.management.adoption import plan as plans
from espalier.management.adoption import site as sites
from espalier.management.adoption.apply import Adopter
from espalier.management.adoption.plan import ClusterPlan, Outcome, SitePlan, State
from espalier.management.adoption.undo import Undoing
from espalier.management.steps import Refused

CLUSTERS = Table(("Cluster", "State", "Provider", "Kubernetes", "Release", "Why"), sentences=(5,))
FIELDS = Table(("Object", "Fields"), sentences=(1,), lists=(0,))
_MOST_FIELDS = 5
_MEANINGS = {
    Outcome.STAYS: "nothing is written until a change asks for other machines",
    Outcome.NEXT: "written with the next change of the cluster; no machine is replaced for it",
}


@click.group(cls=Group)
def adopt() -> None:
    """Take over clusters that EKS Anywhere made, and give them back."""


@adopt.command("plan")
@click.argument("name", required=False, help="Name of a cluster. Default: all of all namespaces.")
@click.option("--all", "of_all", is_flag=True, help="All clusters of all namespaces, the same as without NAME.")
@flags.connection
@flags.output()
async def adopt_plan(*, name: str | None, of_all: bool, connect: flags.Connection, output_format: str) -> None:
    """Show what a take-over would do and what stands against it. It only reads.

    Of a named cluster, also each field that differs from what is rendered here: fields that machines are made of are
    kept, with the names of templates; others are written with the next change. Nothing is written to objects of
    Cluster API by `espalier adopt apply`.

    \b
    Examples:
      espalier adopt plan
      espalier adopt plan garden
      espalier adopt plan --all -o json
    """
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415  with all of rendering: not for help

    _check(name, of_all)
    async with connection.connect(connect) as near:
        with _explained():
            planned = plans.plan(await sites.read(near.client, PROVIDERS), _keys(near, name))
    if output_format:
        output.write_facts(_facts(planned), output_format, rows="clusters")
        return
    _show(planned, named=name is not None)


@adopt.command("apply")
@click.argument("name", required=False, help="Name of a cluster. Default: all, with --all.")
@click.option("--all", "of_all", is_flag=True, help="All clusters of all namespaces.")
@click.option(
    "--stop-controller",
    is_flag=True,
    help="Scale EKS Anywhere's controller to 0, and delete the configurations of its webhooks. `adopt undo` restores "
    "both.",
)
@flags.connection
async def adopt_apply(*, name: str | None, of_all: bool, stop_controller: bool, connect: flags.Connection) -> None:
    """Take clusters over. No object of Cluster API is written, and no machine is replaced.

    It decides for all clusters before it writes anything. Whatever ends the command, the same command goes on.
    docs/adopt.md has the steps, and what is written.

    \b
    Examples:
      espalier adopt apply garden --stop-controller
      espalier adopt apply --all
    """
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    _check(name, of_all, required=True)
    async with connection.connect(connect) as near:
        with Progress() as progress, _explained():
            adopter = Adopter(near.client, PROVIDERS, progress.say, stops=stop_controller)
            await adopter.apply(_keys(near, name))


@adopt.command("undo")
@click.argument("name", required=False, help="Name of a cluster. Default: all, with --all.")
@click.option("--all", "of_all", is_flag=True, help="All clusters that were taken over.")
@flags.connection
async def adopt_undo(*, name: str | None, of_all: bool, connect: flags.Connection) -> None:
    """Give clusters back to EKS Anywhere, until the first change of theirs that was made here.

    Exactly what `espalier adopt apply` wrote is put back. With the last cluster, what was done once for all: releases,
    webhooks, and the controller's replicas. Stop the manager first.

    \b
    Examples:
      espalier adopt undo garden
      espalier adopt undo --all
    """
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    _check(name, of_all, required=True)
    async with connection.connect(connect) as near:
        with Progress() as progress, _explained():
            await Undoing(near.client, PROVIDERS, progress.say).undo(_keys(near, name))


def _check(name: str | None, of_all: bool, *, required: bool = False) -> None:
    if name is not None and of_all:
        raise Usage(f"NAME: found {name} and --all; give only the name, or only --all")
    if required and name is None and not of_all:
        raise Usage("NAME: found nothing; give the name of a cluster, or --all")


def _keys(near: Connected, name: str | None) -> list[Key] | None:
    return [Key(near.namespace, name)] if name is not None else None


@contextmanager
def _explained() -> Iterator[None]:
    try:
        yield
    except Refused as refused:
        raise Failure("\n".join(refused.problems)) from None
    except ValueError as error:
        raise Failure(str(error)) from None


def _show(planned: SitePlan, *, named: bool) -> None:
    rows = [_cells(cluster) for cluster in planned.clusters]
    if rows:
        output.write_table(CLUSTERS, rows)
    elif not planned.blocks:
        output.say("there are no clusters")
    for cluster in planned.clusters if named else ():
        _show_fields(cluster)
    lines = [f"  {step}" for step in planned.steps]
    if lines:
        output.say_wrapped("\n".join(["", "once, before the clusters:", *lines]))
    notes = [f"  {cluster.key}: {note}" for cluster in planned.clusters for note in cluster.notes]
    if notes:
        output.say_wrapped("\n".join(["", "notes:", *notes]))
    if planned.blocks:
        output.say_wrapped("\n".join(["", "it is refused now:", *(f"  {block.message}" for block in planned.blocks)]))


def _cells(cluster: ClusterPlan) -> tuple[str, ...]:
    about = (str(cluster.key), str(cluster.state), cluster.provider, cluster.kubernetes, cluster.release)
    return (*about, _why(cluster))


def _why(cluster: ClusterPlan) -> str:
    if cluster.blocks:
        return first([block.message for block in cluster.blocks], 3, separator="; ")
    count = sum(len(row.fields) for row in cluster.rows_of(Outcome.STAYS))
    later = sum(len(row.fields) for row in cluster.rows_of(Outcome.NEXT))
    return {
        State.READY: f"fields: {count} as they are, {later} with the next change; nothing is written now",
        State.ADOPTED: "taken over; not changed since",
        State.OURS: "of this manager",
        State.BLOCKED: "",
    }[cluster.state]


def _show_fields(cluster: ClusterPlan) -> None:
    labels = [paths.render(("metadata", "labels", label)) for label in (CLUSTER_NAME_LABEL, CLUSTER_NAMESPACE_LABEL)]
    labelled = 0
    for outcome, meaning in _MEANINGS.items():
        rows = [(row.object, [name for name in row.fields if name not in labels]) for row in cluster.rows_of(outcome)]
        labelled += sum(not fields for _, fields in rows)
        if shown := [(name, first(fields, _MOST_FIELDS)) for name, fields in rows if fields]:
            output.say_wrapped(f"\n{outcome}: {meaning}")
            output.write_table(FIELDS, shown)
    if labelled:
        output.say_wrapped(f"{Outcome.NEXT}, too: {counted(labelled, 'other object')} get labels that name the Cluster")
    managers = ", ".join(sorted({name for of in cluster.managers for name in of.fields}))
    if managers:
        output.say_wrapped(f"\nfield managers: {managers}; only fields of eks-a-controller (Apply) are written")


def _facts(planned: SitePlan) -> Tree:
    return {
        "steps": list(planned.steps),
        "blocks": [{"reason": block.reason, "message": block.message} for block in planned.blocks],
        "clusters": [_cluster_facts(cluster) for cluster in planned.clusters],
    }


def _cluster_facts(cluster: ClusterPlan) -> Tree:
    return {
        "namespace": cluster.key.namespace,
        "name": cluster.key.name,
        "state": str(cluster.state),
        "provider": cluster.provider,
        "kubernetesVersion": cluster.kubernetes,
        "eksaVersion": cluster.release,
        "blocks": [{"reason": block.reason, "message": block.message} for block in cluster.blocks],
        "notes": list(cluster.notes),
        "fields": [
            {"object": row.object, "outcome": str(row.outcome), "fields": list(row.fields)} for row in cluster.rows
        ],
        "managers": [{"object": of.object, "fields": dict(of.fields)} for of in cluster.managers],
    }
