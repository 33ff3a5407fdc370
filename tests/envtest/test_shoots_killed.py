"""Processes of a shoot are killed at tasks of its move: the end is that of a move that nobody disturbs (T1)."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.gardener import ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.cli.local.environment.garden.migration_scenario import NODES
from espalier.shoots.control_plane.programs import API_SERVER, CONTROLLER_MANAGER
from espalier.shoots.etcd.names import AGENT_CONTAINER, ETCD_CONTAINER
from espalier.shoots.secrets.names import PERSISTED
from tests.support.gardens.real_shoots import CUT, RealShoot, real_shoot
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest, pytest.mark.soak]

SOURCE, DESTINATION = "east", "west"
GARDENLET, EXTENSIONS = "gardenlet", "extensions"
ETCD, AGENT = f"etcd-main {ETCD_CONTAINER}", f"etcd-main {AGENT_CONTAINER}"
AGAIN = 2.0
"""Seconds until a gardenlet, or extensions, run again."""
KILLS = [
    (SOURCE, GARDENLET, "Stop controllers"),
    (SOURCE, GARDENLET, "Stop kube-apiserver"),
    (SOURCE, GARDENLET, "Hand over etcd"),
    (SOURCE, EXTENSIONS, "Migrate extension resources"),
    (SOURCE, API_SERVER, "Stop controllers"),
    (SOURCE, CONTROLLER_MANAGER, "Stop controllers"),
    (SOURCE, ETCD, "Stop controllers"),
    (SOURCE, ETCD, "Hand over etcd"),
    (SOURCE, AGENT, "Stop kube-apiserver"),
    (SOURCE, AGENT, "Hand over etcd"),
    (DESTINATION, GARDENLET, "Copy backups"),
    (DESTINATION, GARDENLET, "Deploy etcd"),
    (DESTINATION, GARDENLET, "Deploy kube-apiserver"),
    (DESTINATION, AGENT, "Copy backups"),
    (DESTINATION, AGENT, "Deploy etcd"),
    (DESTINATION, ETCD, "Deploy etcd"),
    (DESTINATION, ETCD, "Deploy kube-apiserver"),
    (DESTINATION, API_SERVER, "Deploy kube-apiserver"),
    (DESTINATION, API_SERVER, "Deploy worker"),
    (DESTINATION, EXTENSIONS, "Deploy infrastructure"),
]
"""Seed, what is killed there, and the task at which the shoot's operation waits then."""


@pytest.mark.parametrize(("seed", "what", "task"), KILLS)
async def test_process_killed_in_a_move_changes_nothing(tmp_path: Path, seed: str, what: str, task: str) -> None:
    async with real_shoot(tmp_path, CUT) as shoot:
        since, began = datetime.now(UTC), time.monotonic()
        killing = asyncio.create_task(killed(shoot, seed, what, task))
        move = await shoot.scenario.move(DESTINATION, "")
        await killing
        assert await shoot.scenario.writer.changed() == [], (
            "each write is there as it was acknowledged, with its revision"
        )
        assert (move.nodes_kept, move.secrets_kept, move.left) == (NODES, len(PERSISTED), ())
        assert (move.creates, move.deletes) == (0, 0)
        annotations = (await shoot.scenario.shoot()).metadata.annotations
        epochs = ownership.parse(annotations[metadata_keys.OWNERSHIP]).epochs
        assert [(epoch.seed, epoch.started) for epoch in epochs] == [(SOURCE, True), (DESTINATION, True)]
        await eventually(lambda: answers(shoot, began))
        shoot.witnesses.check(SOURCE, DESTINATION, began)
        shoot.witnesses.check_cloud(shoot.garden, SOURCE, DESTINATION, since)


async def killed(shoot: RealShoot, seed: str, what: str, task: str) -> None:
    """Once the operation waits at a task, `kill -9` of a program of the seed, or as soon after as it runs."""
    await shoot.reaches(task)
    if what in (GARDENLET, EXTENSIONS):
        await shoot.garden.kill(f"{what} {seed}")
        await asyncio.sleep(AGAIN)
        await shoot.garden.restart(f"{what} {seed}")
        return
    pod, _, container = what.partition(" ")
    await eventually(lambda: shoot.kill(seed, pod, container or pod), every=0.02)


async def answers(shoot: RealShoot, since: float) -> bool:
    """True if the destination has answered all that witnesses ask."""
    return shoot.witnesses.count(DESTINATION, since) > 20
