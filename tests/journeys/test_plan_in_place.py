"""What a plan says of changes that can't be made in place is what happens."""

from __future__ import annotations

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from tests.journeys.in_place import IN_PLACE, identities, journey
from tests.journeys.managed import GARDEN, NAMESPACE, ManagedLaptop
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded

FALLBACK = {**IN_PLACE, "fallback": "RollingUpdate"}


def labelled(strategy: Tree) -> list[Tree]:
    """Workers with a label, which kubelets get when they join."""
    return [{"name": "md-0", "count": 2, "labels": {"z": "w"}, "upgradeRolloutStrategy": strategy}]


async def manifest(world: ManagedLaptop, workers: list[Tree]) -> list[Tree]:
    found = (await world.client.get(Cluster.resource, GARDEN.name, NAMESPACE)).tree
    metadata = {"name": GARDEN.name, "namespace": NAMESPACE}
    spec = {**found["spec"], "workerNodeGroupConfigurations": workers}
    return [{"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": metadata, "spec": spec}]


def test_what_will_be_refused_is_planned_as_refused() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        preview = await world.preview(GARDEN, await manifest(world, labelled(IN_PLACE)))
        assert preview.stops.startswith("InPlaceUpgradeRefused: bootstrap.joinConfiguration.")
        assert "set upgradeRolloutStrategy.fallback to RollingUpdate" in preview.stops
        assert [(group.going, group.upgraded) for group in preview.groups] == [((), ())]
        await world.change(workerNodeGroupConfigurations=labelled(IN_PLACE))
        await world.until(
            lambda one: any(condition.reason == "InPlaceUpgradeRefused" for condition in one.status.conditions)
        )
        assert await identities(world) == before

    journey(story)


def test_what_falls_back_is_planned_as_replaced() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        preview = await world.preview(GARDEN, await manifest(world, labelled(FALLBACK)))
        (group,) = preview.groups
        assert (preview.stops, group.upgraded, len(group.replaced), group.coming) == ("", (), 2, 2)
        old = (await world.machine_names("garden"))["garden-md-0"]
        assert {one.name for one in group.replaced} == old
        await world.change(workerNodeGroupConfigurations=labelled(FALLBACK))
        await world.until_ready()
        await world.until_machines_rest("garden")
        new = (await world.machine_names("garden"))["garden-md-0"]
        assert len(new) == 2
        assert not new & old

    journey(story)
