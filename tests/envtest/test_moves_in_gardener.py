"""A shoot is created, moved and deleted in a garden whose API server and controllers are Gardener's own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.migration_scenario import GARDEN_NAMESPACE, NAME, NODES
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, NotFound
from espalier.shoots.secrets.names import PERSISTED
from tests.support.environments.gardener import SERVER
from tests.support.gardens.garden_processes import ProcessGarden, process_garden
from tests.support.gardens.real_shoots import CUT, SEEDS, RealShoot
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest]

AWAY = 8.0
"""Seconds: longer than a gardenlet waits for an answer of its Lease, shorter than after which a seed is given up."""
CONFIRMED = {"metadata": {"annotations": {"confirmation.gardener.cloud/deletion": "true"}}}


async def test_a_shoot_lives_in_a_garden_of_gardener(tmp_path: Path) -> None:
    east, west = SEEDS
    async with process_garden(tmp_path, CUT, SEEDS, is_gardener=True) as shoot:
        for command in (
            ("shoots", "plan", NAME, "--to", west),
            ("shoots", "describe", NAME),
            ("shoots", "events", NAME),
        ):
            await espalier(shoot, *command)
        assert "client-certificate-data" in await espalier(shoot, "kubeconfig", "--shoot", NAME)
        await is_refused_by_ours(shoot)
        with_source = await shoot.scenario.move(west, "with its source")
        without = await shoot.scenario.move(east, "without its source", destroy_source=True, give_up_source=True)
        assert await shoot.scenario.returned(west) == 0
        interrupted: list[asyncio.Task[None]] = []

        async def trouble() -> None:
            interrupted.append(asyncio.create_task(go_away(shoot)))

        meanwhile = await shoot.scenario.move(west, "while Gardener goes away", trouble=trouble)
        await interrupted[0]
        assert isinstance(shoot.garden, ProcessGarden)
        shoot.garden.check()
        for move in (with_source, without, meanwhile):
            assert (move.creates, move.deletes) == (0, 0)
            assert (move.nodes_kept, move.secrets_kept) == (NODES, len(PERSISTED))
        assert (with_source.lost, meanwhile.lost) == (0, 0)
        await delete(shoot)


async def espalier(shoot: RealShoot, *command: str) -> str:
    """The output of a command of an owner."""
    assert isinstance(shoot.garden, ProcessGarden)
    access = ("--kubeconfig", str(shoot.garden.control_plane.kubeconfig), "-n", GARDEN_NAMESPACE)
    words = (sys.executable, "-m", "espalier.cli", *command, *access)
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0, command
    return output.decode()


async def is_refused_by_ours(shoot: RealShoot) -> None:
    """Our admission judges what Gardener accepts: a seed whose networks overlap with the shoot's."""
    client = shoot.garden.client
    north = garden_objects.seed("north", shoot.garden.settings.gardenlet.domain)
    north[-1]["spec"]["networks"] = {"pods": garden_objects.PODS, "services": garden_objects.SERVICES}
    await shoot.garden.make(*north)
    patch = {"spec": {"seedName": "north"}}
    with pytest.raises(Forbidden, match="the networks of the seed and the shoot overlap"):
        await client.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def go_away(shoot: RealShoot) -> None:
    """Have gardener-apiserver answer nothing for a while once the move is under way, and then end."""
    assert isinstance(shoot.garden, ProcessGarden)

    def is_leaving(live: Shoot) -> bool:
        last = live.status.last_operation
        return last is not None and last.type == "Migrate"

    await eventually(shoot.scenario.shoot, is_leaving)
    (pid,) = [report.pid for report in shoot.garden.control_plane.supervisor.reports if report.name == SERVER]
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    await asyncio.sleep(AWAY)
    os.kill(pid, signal.SIGKILL)  # the supervisor starts it again


async def delete(shoot: RealShoot) -> None:
    """Delete the shoot as Gardener asks for it, and wait until it is gone."""
    client = shoot.garden.client
    await client.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=CONFIRMED, type=PatchType.MERGE)
    await client.delete(Shoot.resource, NAME, GARDEN_NAMESPACE)

    async def problem_text() -> str:
        try:
            live = (await client.get(Shoot.resource, NAME, GARDEN_NAMESPACE)).decode(Shoot)
        except NotFound:
            return ""
        return str(live.status.last_operation)

    await eventually(problem_text, lambda text: not text, within=120, every=0.5)
