"""A shoot with a real control plane leaves a source that is cut off from something, or is gone (T1).

Whatever is cut: never two seeds serve, or act on the infrastructure. The destination owns the shoot within the sum of
the waits. What was acknowledged is lost only where the source could not reach its bucket, within its window.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden.gardens import SimulatedSeed
from espalier.cli.local.environment.garden.migration_scenario import DELTA_PERIOD, GARDEN_NAMESPACE, NAME, NODES, Move
from espalier.kube.client import PatchType
from espalier.shoots.secrets.names import PERSISTED
from tests.support.gardens.real_shoots import CUT, RealShoot, real_shoot
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest, pytest.mark.soak]

SOURCE, DESTINATION = "east", "west"
POWER = "power"
COPY, STARTS = 5.0, 10.0
"""Seconds of a small copy, with its pod and its process, and of all that is no wait, on a machine with nothing else."""
CUTS = [
    ("garden",),
    ("seed",),
    ("extensions",),
    ("cloud",),
    ("bucket",),
    (POWER,),
    ("garden", "bucket"),
    ("garden", "seed"),
    ("seed", "extensions"),
    ("seed", "bucket"),
    ("extensions", "bucket"),
]
"""Networks of the source: from its gardenlet to the garden and to its own API server, from its extensions to that and
to the infrastructure, from its etcd to its bucket. Pairs of those that something else could make up for."""


ON_THE_WAY = [
    ("Stop controllers", ("garden",)),
    ("Stop controllers", ("bucket",)),
    ("Stop kube-apiserver", ("seed",)),
    ("Stop kube-apiserver", ("garden", "bucket")),
    ("Stop kube-apiserver", (POWER,)),
    ("Copy backups", ("bucket",)),
    ("Copy backups", (POWER,)),
    ("Deploy etcd", ("garden", "seed")),
    ("Deploy kube-apiserver", (POWER,)),
    ("Deploy kube-controller-manager", ("extensions", "bucket")),
]
"""The task at which the move is when something is cut. What takes no time is cut at every task on virtual time."""


@pytest.mark.parametrize(
    ("task", "cuts"),
    [("", item) for item in CUTS] + ON_THE_WAY,
    ids=lambda item: "+".join(item) if isinstance(item, tuple) else item or "before",
)
async def test_a_shoot_leaves_a_source_that_is_cut_off(tmp_path: Path, task: str, cuts: tuple[str, ...]) -> None:
    async with real_shoot(tmp_path, CUT) as shoot:
        await asyncio.sleep(DELTA_PERIOD)
        move = await left_behind(shoot, task, cuts)

        writer, window = shoot.scenario.writer, DELTA_PERIOD + CUT.validity
        if {"bucket", POWER} & {*cuts}:
            assert move.lost <= window / writer.period + 1
        else:
            assert await writer.changed() == [], "each write is there as it was acknowledged, with its revision"
        assert (move.nodes_kept, move.secrets_kept) == (NODES, len(PERSISTED))
        assert (move.creates, move.deletes) == (0, 0)

        shoot.seed(SOURCE).links.restore()
        assert await shoot.scenario.returned(SOURCE) == 0, "it cleans up, and calls no infrastructure"


async def left_behind(shoot: RealShoot, task: str, cuts: tuple[str, ...]) -> Move:
    """The shoot is moved from a source that is cut off just before, or at a task, and that nobody waits for then."""
    began, since = time.monotonic(), datetime.now(UTC)
    owned = asyncio.create_task(shoot.owned(DESTINATION))
    if task:
        cutting = asyncio.create_task(cut_at(shoot, task, cuts))
        move = await shoot.scenario.move(DESTINATION, "", leave_source=True)
        await cutting
    else:
        move = await shoot.scenario.move(
            DESTINATION, "", give_up_source=True, leave_source=True, trouble=lambda: cut(shoot.seed(SOURCE), cuts)
        )
    waits, taken = CUT.progress_timeout + CUT.lease_wait, await owned - began
    assert taken <= waits + (COPY + STARTS) * shoot.pace, f"{taken:.1f} s on a machine of pace {shoot.pace:.1f}"
    print(f"{taken:.1f} s until it was owned, of which waits are up to {waits:g}; pace {shoot.pace:.1f}")
    await eventually(lambda: answers(shoot, began))
    shoot.witnesses.check(SOURCE, DESTINATION, began)
    shoot.witnesses.check_cloud(shoot.garden, SOURCE, DESTINATION, since)
    return move


async def answers(shoot: RealShoot, since: float) -> bool:
    """True if the destination has answered all that witnesses ask."""
    return shoot.witnesses.count(DESTINATION, since) > 20


async def cut_at(shoot: RealShoot, task: str, cuts: tuple[str, ...]) -> None:
    """Cut them once the operation is at a task, and give up the source."""
    await shoot.reaches(task)
    await cut(shoot.seed(SOURCE), cuts)
    given_up: Tree = {"metadata": {"annotations": {metadata_keys.FORCE_RESTORE: "true"}}}
    await shoot.garden.client.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=given_up, type=PatchType.MERGE)


async def cut(seed: SimulatedSeed, cuts: tuple[str, ...]) -> None:
    """Cut these networks of a seed, or its power."""
    for what in cuts:
        if what == POWER:
            await seed.power_off()
        else:
            getattr(seed.links, what).cut()
