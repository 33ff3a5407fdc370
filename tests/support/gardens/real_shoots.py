"""A garden whose shoots have control planes of real programs, and witnesses who tell if two seeds serve one."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from pathlib import Path

import msgspec
import pytest
import yaml

from espalier.api.core import CONFIG_MAP, NAMESPACE, POD, SECRET, STATEFUL_SET, Secret
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import ownership
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.resource import Key
from espalier.assets.component import Component
from espalier.cli.local.environment.garden.gardens import Garden, GardenSeed, SimulatedSeed
from espalier.cli.local.environment.garden.migration_scenario import (
    NODES,
    TECHNICAL_ID,
    WEB,
    MigrationScenario,
    quick_settings,
)
from espalier.cli.local.environment.real_machines.machines import RealMachines
from espalier.cli.local.environment.seed_processes.assembly import RealControlPlanes
from espalier.cli.local.environment.seed_processes.kubernetes import ApiServer
from espalier.cli.local.environment.seed_programs.assembly import API_SERVER, API_SERVER_PORT
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.transports.wire import Request
from espalier.runtime.clock import SystemClock
from espalier.shoots.secrets.names import ADMIN_KUBECONFIG
from tests.support.environments.control_plane import find_assets, why_no_assets
from tests.support.etcd.real_etcd import built
from tests.support.servers.kubectl import Kubectl
from tests.support.tasks import running
from tests.support.waiting import eventually

SEEDS = ("east", "west")
PATIENCE = 300.0
CREATION = 15.0
"""Seconds that the creation of a shoot takes on two idle cores."""
QUICK = Timing(
    poll_period=0.5,
    store_timeout=0.5,
    validity=2,
    serving_grace=1,  # the source of these moves is stopped, or killed
    snapshot_timeout=5,
    progress_period=0.5,
    progress_timeout=4,
    copy_timeout=20,
    lease_validity=3,
    lease_renewal=1,
    longest_reconcile=1,
    clock_skew=0.2,
    lease_wait=4.5,
)
"""As short as a busy machine allows."""
CUT = msgspec.structs.replace(QUICK, serving_grace=10, progress_timeout=14, copy_timeout=30)
"""Where the source's API server goes on, and answers from its cache."""


@dataclass
class Witnesses:
    """The answers to two writers and two readers at each seed, on one clock, and who reads what is cached."""

    served: list[tuple[float, float, str, str]] = field(default_factory=list)
    """When it was asked and answered, the seed, and what."""

    @asynccontextmanager
    async def looking(self, garden: Garden) -> AsyncIterator[None]:
        """They ask within the block. They know seeds, not the shoot's name in DNS."""
        kinds = ("a write", "a read", "a cached read")
        asking = [self._ask(garden, seed, what, number) for seed in SEEDS for what in kinds for number in (1, 2)]
        async with running(*asking):
            yield

    def check(self, source: str, destination: str, since: float) -> None:
        """Both served since then, and the source nothing any more once the destination had answered."""
        moved = [item for item in self.served if item[0] >= since]
        first = min(ended for _, ended, seed, _ in moved if seed == destination)
        late = [item for item in moved if item[2] == source and item[1] > first]
        assert not late, f"seed {source} still answered after {destination} had at {first}: {late}"

    def check_cloud(self, garden: Garden, source: str, destination: str, since: datetime) -> None:
        """The cloud heard nothing of the source any more, once it had heard of the destination."""
        first = min((item.at for item in garden.cloud.log.of(since, f"seed {destination}")), default=None)
        assert first is not None, f"seed {destination} never called the cloud"
        late = [str(item) for item in garden.cloud.log.of(first, f"seed {source}")]
        assert not late, f"seed {source} still called the cloud after {destination} had at {first}: {late}"

    def count(self, seed: str, since: float = 0) -> int:
        """Answers of a seed."""
        return sum(item[2] == seed and item[0] >= since for item in self.served)

    async def _ask(self, garden: Garden, seed: str, what: str, number: int) -> None:
        for turn in count():
            await asyncio.sleep(0.2)
            began = time.monotonic()
            with suppress(KubeError, TimeoutError):
                client = garden.seeds[seed].shoot(TECHNICAL_ID)
                async with asyncio.timeout(5):
                    match what:
                        case "a write":
                            name = f"witness-{seed}-{number}-{turn}"
                            await client.create(CONFIG_MAP, {"metadata": {"name": name, "namespace": "default"}})
                        case "a read":
                            await client.get(NAMESPACE, "default")
                        case _:
                            cached = Request("GET", "/api/v1/namespaces", {"resourceVersion": "0"})
                            if (await client.transport.request(cached)).status != 200:
                                continue
                self.served.append((began, time.monotonic(), seed, what))


@dataclass
class RealShoot:
    """A shoot with a real control plane, its story, and who looks at it."""

    garden: Garden
    planes: RealControlPlanes
    scenario: MigrationScenario
    kubectl_program: Path
    folder: Path
    witnesses: Witnesses = field(default_factory=Witnesses)
    pace: float = 1.0
    """How many times longer its creation took than on a machine with nothing else to do; no less than 1."""

    async def kubectl(self, seed: str, *, token: str = "") -> Kubectl:
        """kubectl with the shoot's own kubeconfig, or with a token.

        It is led to the port that the API server has on this machine.
        """
        secret = await self.seed(seed).client.get(SECRET, ADMIN_KUBECONFIG, TECHNICAL_ID)
        tree = yaml.safe_load(secret.decode(Secret).data["kubeconfig"])
        endpoint = self.seed(seed).cluster.connect(Key(TECHNICAL_ID, API_SERVER), API_SERVER_PORT, ApiServer)
        for cluster in tree["clusters"]:
            host = cluster["cluster"]["server"].removeprefix("https://").partition(":")[0]
            cluster["cluster"] |= {"server": f"https://127.0.0.1:{endpoint.port}", "tls-server-name": host}
        if token:
            tree["users"][0]["user"] = {"token": token}
        file = self.folder / f"{seed}{'-by-token' * bool(token)}.kubeconfig"
        file.write_text(yaml.safe_dump(tree))
        return Kubectl(self.kubectl_program, file, self.folder)

    def seed(self, name: str) -> SimulatedSeed:
        """One of its seeds."""
        result = self.garden.seeds[name]
        assert isinstance(result, SimulatedSeed)
        return result

    async def reaches(self, task: str) -> None:
        """Wait until the operation of the shoot is at a task, and waits there."""

        def is_there(shoot: Shoot) -> bool:
            last = shoot.status.last_operation
            return last is not None and not last.finished and task in last.description

        await eventually(self.scenario.shoot, is_there, within=PATIENCE, every=0.02)

    async def owned(self, seed: str) -> float:
        """Wait until a seed has taken the shoot over, in the garden's own words; the moment at which it had."""

        def is_started(shoot: Shoot) -> bool:
            current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).current
            return current is not None and current.seed == seed and current.started

        await eventually(self.scenario.shoot, is_started, within=10 * PATIENCE)
        return time.monotonic()

    def kill(self, seed: str, pod: str, container: str) -> bool:
        """`kill -9` of a container, by the beginning of its pod's name; False if it does not run."""
        cluster = self.seed(seed).cluster
        for object_ in cluster.workload.cache(POD).list():
            if object_.namespace == TECHNICAL_ID and object_.name.startswith(pod):
                with suppress(KeyError):
                    cluster.kill(object_.key, container)
                    return True
        return False

    def client(self) -> Client:
        """A client by the shoot's name in DNS."""
        return self.garden.shoot(TECHNICAL_ID)

    def logs(self) -> str:
        """The pods in the seeds, and the ends of what their containers said."""
        return "\n".join([*self._pods(), *self._containers()])

    def _pods(self) -> Iterator[str]:
        for seed in SEEDS:
            cluster = self.seed(seed).cluster
            for resource in (POD, STATEFUL_SET) if cluster.is_up else ():
                for item in cluster.workload.cache(resource).list():
                    state = item.tree.get("status", {})
                    yield f"{seed}: {item.kind} {item.name}, deleted {item.metadata.deletion_timestamp}: {state}"

    def _containers(self) -> Iterator[str]:
        yield from (
            f"--- {seed}: {container}\n" + "\n".join(line[:900] for line in lines[-8:])
            for seed in SEEDS
            for (_, container), lines in self.seed(seed).cluster.logs.items()
        )


@asynccontextmanager
async def real_shoot(
    folder: Path,
    timing: Timing = QUICK,
    *,
    etcd: Component | None = None,
    machines: RealMachines | None = None,
    new_seed: Callable[[Garden, str], GardenSeed] = SimulatedSeed,
    nodes: int = NODES,
) -> AsyncIterator[RealShoot]:
    """A shoot that runs on the first of the seeds, with another etcd than the newest if one is named.

    With `machines` its nodes are real, and the pods on them write every second. Skips the test where real programs are
    not built.
    """
    result = find_assets()
    other = built(etcd) if etcd is not None else None
    if etcd is not None and other is None:
        pytest.skip(f"etcd {etcd.version} was not built: run make real-assets")
    if result is None:
        pytest.skip(f"there is no real control plane: {why_no_assets()}")
    settings = quick_settings(timing=timing, nodes_timeout=2 if machines is None else 20)
    if machines is not None:
        settings = machines.settings(settings)
    async with (
        RealControlPlanes.with_programs(result, etcd=other and other / "etcd") as planes,
        Garden.run_with(
            SystemClock(),
            random.SystemRandom(),
            SEEDS,
            settings,
            new_seed=new_seed,
            control_planes=planes,
            new_machines=machines.of if machines is not None else None,
        ) as garden,
    ):
        told: dict[str, float] = {}  # when each was told first

        def tell(text: str) -> None:
            told.setdefault(text, time.monotonic())

        containers = machines.containers if machines is not None else WEB
        scenario = MigrationScenario(garden, tell, version=planes.version, nodes=nodes, containers=containers)
        shoot = RealShoot(garden, planes, scenario, result / "kubectl", folder)
        began = time.monotonic()
        try:
            async with shoot.scenario.begun(SEEDS[0]), shoot.witnesses.looking(garden):
                shoot.pace = max(1.0, (time.monotonic() - began) / CREATION)
                yield shoot
        except BaseException:
            print(shoot.logs(), *(f"{at:.1f} {text}" for text, at in told.items()), sep="\n")
            raise
