"""Somebody scales the programs of a shoot's control plane in its seed: they run as the gardenlet wants them to.

Their controllers watch them, so that neither a reconcile is requested nor a period has to end.
"""

from __future__ import annotations

import asyncio

import pytest

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.shoot import CONTROL_PLANE_HEALTHY
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden

ID = names.technical_id("dev", "apple")
KINDS = (core.DEPLOYMENT, Etcd.resource)
"""The StatefulSet of an Etcd is repaired by the controller of Etcds, which has a test of that."""


async def replicas(world: World) -> dict[tuple[str, str], int]:
    """The replicas in the namespace of the shoot, by kind and name."""
    return {
        (resource.kind, item.name): item.tree["spec"]["replicas"]
        for resource in KINDS
        for item in (await world.seeds["a"].client.list(resource, ID)).items
    }


async def scale(world: World, count: int) -> None:
    for resource in KINDS:
        for item in (await world.seeds["a"].client.list(resource, ID)).items:
            patch = {"spec": {"replicas": count}}
            await world.seeds["a"].client.patch(resource, item.name, ID, patch=patch, type=PatchType.MERGE)


@pytest.mark.parametrize("is_hibernated", [False, True])
def test_scaled_control_plane_is_scaled_back(is_hibernated: bool) -> None:
    """Hibernation is wanted: what somebody starts then is stopped again."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            if is_hibernated:
                await world.patch({"spec": {"hibernation": {"enabled": True}}})
                await world.until(lambda shoot: shoot.status.hibernated)
            await asyncio.sleep(60)
            before = await replicas(world)
            assert len(before) > len(KINDS)
            assert set(before.values()) == {0 if is_hibernated else 1}
            await scale(world, 1 if is_hibernated else 0)
            await asyncio.sleep(60)
            assert await replicas(world) == before
            conditions = {item.type: item.status for item in (await world.shoot()).status.conditions}
            assert conditions[CONTROL_PLANE_HEALTHY] == "True"

    virtual.run(main, epoch=EPOCH, seed=1)
