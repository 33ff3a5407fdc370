"""The objects of a garden with a shoot, as the demonstrations and our programs make them."""

from __future__ import annotations

from datetime import UTC, datetime

from espalier.api import core
from espalier.api.gardener import GARDEN_KINDS, names
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import MigrationScenario, quick_settings
from espalier.runtime import virtual

EPOCH = datetime(2026, 11, 29, tzinfo=UTC)
FIRST = (
    "Project",
    "CloudProfile",
    "ControllerRegistration",
    "CredentialsBinding",
    "Seed",
    "BackupBucket",
    "Shoot",
)
ORDER = {kind: place for place, kind in enumerate(FIRST)}
"""Kinds that objects of others name, in the order in which they can be created."""
SERVER_FIELDS = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "selfLink", "uid")


def objects_of_a_garden() -> list[Tree]:
    """All objects of `espalier demo garden`, with a shoot in seed `east`, without what the server and statuses say.

    In an order in which they can be created.
    """

    async def main(simulation: virtual.Simulation) -> list[Tree]:
        settings = quick_settings(random_keys=False)
        async with (
            Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden,
            MigrationScenario(garden).begun("east"),
        ):
            spaces = await garden.client.list(core.NAMESPACE)
            results = [item.tree for item in spaces.items if item.name.startswith(names.GARDEN_NAMESPACE)]
            for namespace in [item["metadata"]["name"] for item in results]:
                results += [secret.tree for secret in (await garden.client.list(core.SECRET, namespace)).items]
            for kind in sorted(GARDEN_KINDS, key=lambda kind: ORDER.get(kind.resource.kind, len(ORDER))):
                results += [item.tree for item in (await garden.client.list(kind.resource)).items]
            return [as_written(tree) for tree in results]

    return virtual.run(main, epoch=EPOCH, seed=1)


def as_written(tree: Tree) -> Tree:
    """An object as a user or a program writes it."""
    metadata = {name: value for name, value in tree["metadata"].items() if name not in SERVER_FIELDS}
    metadata.pop("ownerReferences", None)  # they have UIDs of another API server
    if tree["kind"] == Shoot.resource.kind:
        metadata.pop("finalizers", None)  # a gardenlet adds it
    return {**{name: value for name, value in tree.items() if name != "status"}, "metadata": metadata}
