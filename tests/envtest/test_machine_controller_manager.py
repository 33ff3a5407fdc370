"""Machines of a shoot that moves between seeds on kube-apiserver, managed by Gardener's machine controller manager."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.cli.local.environment.garden.migration_scenario import GARDEN_NAMESPACE, NAME, NODES
from espalier.kube.client import PatchType
from tests.support.gardens.machine_controllers import machine_shoot
from tests.support.gardens.real_shoots import SEEDS, RealShoot
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest]

PATIENCE = 300.0
ORPHANED = 6.0
"""Seconds in which the machine controller looks three times for virtual machines without a Machine."""


async def test_machines_stay_under_gardeners_controllers(tmp_path: Path) -> None:
    east, west = SEEDS
    async with machine_shoot(tmp_path) as shoot:
        before = machines(shoot)
        with_source = await shoot.scenario.move(west, "with its source")
        without = await shoot.scenario.move(east, "without its source", destroy_source=True, give_up_source=True)
        assert await shoot.scenario.returned(west) == 0, "it cleans up, and calls no infrastructure"
        await asyncio.sleep(ORPHANED)
        assert machines(shoot) == before
        for move in (with_source, without):
            assert (move.creates, move.deletes, move.nodes_kept) == (0, 0, NODES)


async def test_deleted_shoot_leaves_no_machine(tmp_path: Path) -> None:
    async with machine_shoot(tmp_path) as shoot:
        assert len(machines(shoot)) == NODES
        await is_deleted(shoot)
        assert machines(shoot) == []


def machines(shoot: RealShoot) -> list[str]:
    """The virtual machines that the cloud has."""
    return sorted(f"{item.name} {item.id}" for item in shoot.garden.cloud.inventory.all("VirtualMachine"))


async def is_deleted(shoot: RealShoot) -> None:
    """Delete the shoot, and wait until it is gone."""
    client = shoot.garden.client
    confirmed = {"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}}
    await client.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=confirmed, type=PatchType.MERGE)
    await client.delete(Shoot.resource, NAME, GARDEN_NAMESPACE)

    async def left() -> list[str]:
        shoots = await client.list(Shoot.resource, GARDEN_NAMESPACE)
        return [str(item.decode(Shoot).status.last_operation) for item in shoots.items]

    await eventually(left, lambda value: not value, within=PATIENCE, every=0.5)
