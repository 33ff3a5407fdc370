"""`espalier garden`, `espalier gardenlet` and extensions are killed with -9 again and again while a shoot moves (T1).

The garden is a real kube-apiserver, and so is the shoot's control plane. Sources work, are destroyed, or have no
gardenlet while their etcd and kube-apiserver go on. Where seeds have a kube-apiserver of their own, that is killed, or
answers nobody for a while. ESPALIER_SOAK_MOVES says how many moves there are.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.gardener import ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.cli.local.environment.garden.migration_scenario import DELTA_PERIOD, NODES, TECHNICAL_ID
from espalier.kube.errors import KubeError
from espalier.shoots.control_plane.programs import API_SERVER
from espalier.shoots.etcd.names import AGENT_CONTAINER, ETCD_CONTAINER
from espalier.shoots.secrets.names import PERSISTED
from tests.support.gardens.garden_processes import ProcessGarden, ProcessSeed, process_garden
from tests.support.gardens.kubernetes_process_seeds import KubernetesProcessSeed
from tests.support.gardens.real_shoots import CUT, SEEDS, RealShoot
from tests.support.histories.write_histories import WriteHistory
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest, pytest.mark.soak]

MOVES = int(os.environ.get("ESPALIER_SOAK_MOVES", "3"))
KILLS = 5
"""In each move, of programs of espalier."""
WORKS, DESTROYED, WITHOUT_GARDENLET = "works", "is destroyed", "has no gardenlet"
SOURCES = (WORKS, DESTROYED, WITHOUT_GARDENLET, WORKS, WORKS)
CONTAINERS = (("etcd-main", ETCD_CONTAINER), ("etcd-main", AGENT_CONTAINER), (API_SERVER, API_SERVER))
SILENT_SECONDS = 12
"""The longest time for which a seed's kube-apiserver answers nobody. Leases of extensions end before."""
WINDOW = DELTA_PERIOD + CUT.validity
"""Seconds before its destruction whose writes a seed may not have stored."""


@dataclass
class Killer:
    """Kills programs at random moments of a move, and starts them again."""

    shoot: RealShoot
    rng: random.Random
    done: Counter[str] = field(default_factory=Counter)

    @property
    def garden(self) -> ProcessGarden:
        assert isinstance(self.shoot.garden, ProcessGarden)
        return self.shoot.garden

    async def kill(self, programs: list[str], kills: int) -> None:
        """Kill that many of the programs, often several at once, and each third time a container as well."""
        while kills > 0:
            await asyncio.sleep(self.rng.uniform(0.2, 4))
            chosen = self.rng.sample(programs, min(kills, self.rng.choice((1, 1, 1, 2, len(programs)))))
            for name in chosen:
                await self.garden.kill(name)
                self.done[name] += 1
            kills -= len(chosen)
            if self.rng.random() < 1 / 3:
                self._kill_container()
            await self._harm_api_server()
            await asyncio.sleep(self.rng.uniform(0, 1))
            for name in chosen:
                await self.garden.restart(name)

    async def _harm_api_server(self) -> None:
        """Kill the kube-apiserver of one of the seeds, or stop it for a while."""
        seed = self.shoot.seed(self.rng.choice(SEEDS))
        if not isinstance(seed, KubernetesProcessSeed):
            return
        if self.rng.random() < 2 / 3:
            if seed.kill_api_server():
                self.done[f"kube-apiserver of {seed.name}"] += 1
        elif await seed.silence_api_server(self.rng.uniform(1, SILENT_SECONDS)):
            self.done[f"silences of {seed.name}"] += 1

    def _kill_container(self) -> None:
        seed, (pod, container) = self.rng.choice(SEEDS), self.rng.choice(CONTAINERS)
        if self.shoot.seed(seed).cluster.is_up and self.shoot.kill(seed, pod, container):
            self.done[f"{container} in a seed"] += 1


@pytest.mark.parametrize("new_seed", [ProcessSeed, KubernetesProcessSeed])
@pytest.mark.parametrize("seed", [int(os.environ.get("ESPALIER_SOAK_SEED", "1"))])
async def test_moves_end_whole_however_often_killed(tmp_path: Path, seed: int, new_seed: type[ProcessSeed]) -> None:
    async with process_garden(tmp_path, CUT, SEEDS, new_seed=new_seed) as shoot:
        killer = Killer(shoot, random.Random(seed))
        history = WriteHistory(lambda name: shoot.garden.seeds[name].shoot(TECHNICAL_ID))
        owners, known_lost = [SEEDS[0]], set[str]()
        async with history.written(SEEDS):
            await eventually(lambda: history.accepted)
            for number in range(MOVES):
                source, destination = SEEDS[number % 2], SEEDS[(number + 1) % 2]
                what = SOURCES[number % len(SOURCES)]
                began = time.monotonic()
                try:
                    lost = await moved(shoot, killer, history, source, destination, what, known_lost)
                except BaseException:
                    print(f"move {number} from {source}, whose seed {what}; kills so far: {dict(killer.done)}")
                    print(shoot.logs())
                    raise
                owners.append(destination)
                assert what == DESTROYED or not lost, "what was accepted is there"
                known_lost |= lost
                history.check(owners)
                seconds = time.monotonic() - began
                print(f"move {number}: {source} {what}, {seconds:.0f} s, {len(history.accepted)} accepted,", end=" ")
                print(f"{history.refused} refused, {len(known_lost)} lost, kills {dict(killer.done)}", flush=True)
        assert sum(count for name, count in killer.done.items() if name in killer.garden.processes) >= KILLS * MOVES
        harmed = sum(count for name, count in killer.done.items() if name.startswith(("kube-apiserver of", "silences")))
        assert harmed >= (MOVES if new_seed is KubernetesProcessSeed else 0)


async def moved(
    shoot: RealShoot, killer: Killer, history: WriteHistory, source: str, destination: str, what: str, known: set[str]
) -> set[str]:
    """Move, with kills; what must hold then holds. The names of accepted writes that it lost, besides the known."""
    garden, scenario, programs = killer.garden, shoot.scenario, [*killer.garden.processes]
    left = f"gardenlet {source}"
    if what != WORKS:
        programs.remove(left)
    if what == DESTROYED:
        programs.remove(f"extensions {source}")
    killing: list[asyncio.Task[None]] = []
    asked = time.monotonic()

    async def trouble() -> None:
        if what == WITHOUT_GARDENLET:
            await garden.kill(left)
            killer.done[left] += 1
        killing.append(asyncio.create_task(killer.kill(programs, KILLS - (what == WITHOUT_GARDENLET))))

    move = await scenario.move(
        destination,
        what,
        destroy_source=what == DESTROYED,
        give_up_source=what == WITHOUT_GARDENLET,
        leave_source=what != WORKS,
        trouble=trouble,
    )
    await killing[0]
    garden.check()
    if what == DESTROYED:
        assert await scenario.returned(source) == 0, "it calls no infrastructure when it cleans up"
    elif what == WITHOUT_GARDENLET:
        await garden.restart(left)
    await eventually(lambda: scenario.left(source), lambda remains: not remains, within=120)
    assert (move.creates, move.deletes) == (0, 0)
    assert (move.nodes_kept, move.secrets_kept) == (NODES, len(PERSISTED))
    annotations = (await scenario.shoot()).metadata.annotations
    current = ownership.parse(annotations[metadata_keys.OWNERSHIP]).current
    assert current is not None
    assert (current.seed, current.started) == (destination, True)
    accepting = [name for name in SEEDS if await accepts(shoot, name)]
    assert accepting == [destination]
    await eventually(lambda: history.owners()[-1] == destination)
    missing = [item for item in await history.missing(destination) if item.name not in known]
    assert what != DESTROYED or all(item.ended > asked - WINDOW for item in missing if item.seed == source)
    return {item.name for item in missing}


async def accepts(shoot: RealShoot, seed: str) -> bool:
    """True if the shoot's API server in a seed accepts a write."""
    body = {"metadata": {"generateName": "probe-", "namespace": "default"}}
    try:
        async with asyncio.timeout(5):
            await shoot.garden.seeds[seed].shoot(TECHNICAL_ID).create(CONFIG_MAP, body)
    except (KubeError, TimeoutError):
        return False
    return True
