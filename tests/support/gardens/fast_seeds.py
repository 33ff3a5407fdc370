"""Seeds without pods: an API server, Deployments that are available at once, and fakes of all else that acts there."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from espalier.api import core
from espalier.api.gardener import EXTENSION_KINDS
from espalier.api.gardener.etcd import Etcd
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.garden.gardens import Garden, GardenSeed
from espalier.cli.programs.garden_components import BUCKET_PROVIDERS
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import ADMIN, Endpoint
from espalier.runtime.clock import Clock
from espalier.runtime.component import Component
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.shoots.control_plane.programs import ControlPlane
from espalier.shoots.gardenlet import setup as gardenlet
from espalier.shoots.machine_controller import setup as machine_controller
from espalier.shoots.secrets.persisted import Data
from espalier.simulator.connections import Link, Reached, ReachingTransport
from espalier.simulator.pods.runtimes.life import Life
from tests.support.gardens.fast_etcds import Buckets, FastEtcds, Place, Witness
from tests.support.gardens.fast_extensions import FastExtension, Infrastructures, Troubles
from tests.support.gardens.fast_objects import Objects

Acts = Callable[[Objects], dict[Resource, Callable[[Key], Awaitable[Outcome]]]]
"""The reconcilers in a cluster, by the kind on which they act."""


class SkewedClock:
    """The clock of a machine, which is off."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock, self.seconds = clock, seconds

    def now(self) -> datetime:
        return self._clock.now() + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self._clock.monotonic()


class FastCluster:
    """The cluster that is a seed. Its objects live as long as this."""

    def __init__(self, name: str, garden: Garden, acts: Acts) -> None:
        self._name, self._garden, self._acts = name, garden, acts
        self._store = MemoryStore()
        self._random = random.Random(garden.random.getrandbits(64))
        self._tasks: list[asyncio.Task[None]] = []
        self._life: Life | None = None
        self.server = self._new_server()
        self.objects = Objects(self.client())

    @property
    def is_up(self) -> bool:
        return self._life is not None

    async def start(self) -> None:
        if self.is_up:
            return
        self.server = self._new_server()
        await self.server.start()
        self._life = Life(f"seed {self._name}")
        self.objects = Objects(self.client())
        controllers = [self.objects.controller(*act) for act in self._acts(self.objects).items()]
        running = [self.objects.caches.run(), *(controller.run() for controller in controllers)]
        self._tasks = [asyncio.create_task(item) for item in running]

    async def destroy(self) -> None:
        if self._life is None:
            return
        life, self._life = self._life, None
        life.end()
        self.objects.are_there = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.close()

    def client(self, *, link: Link | None = None, life: Life | None = None, agent: str = "seed") -> Client:
        def reach() -> Reached:
            if self._life is None:
                raise ConnectionError(f"seed {self._name} has no power")
            others = [link.life if link is not None else None, life]
            endpoint: Endpoint = self.server
            return Reached(endpoint, [self._life, *(other for other in others if other is not None)])

        return Client(ReachingTransport(reach, ADMIN), user_agent=agent, retry=Retry(attempts=1))

    def _new_server(self) -> Server:
        return Server(self._store, now=self._garden.clock.now, random=self._random)


@dataclass
class Shared:
    """The parts that all fast seeds of a world have in common."""

    delay: float = 1.0
    """Seconds that each thing takes."""
    with_cloud: bool = False
    """True for the extensions of type `local` and the machine controller manager, instead of fakes."""
    has_clients: bool = False
    """True if somebody writes to every etcd that serves, at any time."""
    clock_skew: float = 0.0
    """The most by which clocks of two seeds differ."""
    clock_ahead: Mapping[str, float] = field(default_factory=dict)
    """Seconds by which the clocks of seeds are ahead."""
    infrastructures: Infrastructures = field(default_factory=Infrastructures)
    buckets: Buckets = field(default_factory=Buckets)
    witness: Witness = field(default_factory=Witness)
    seeds: dict[str, FastSeed] = field(default_factory=dict)

    def agent_of(self, place: Place) -> FastEtcds | None:
        """See `Others`."""
        return next((seed.etcds for seed in self.seeds.values() if seed.etcds.has_agent(place)), None)


class FastSeed(GardenSeed):
    """A seed in which control planes take no pods."""

    cluster: FastCluster

    def __init__(self, garden: Garden, name: str, shared: Shared) -> None:
        super().__init__(garden, name)
        self._shared = shared
        if ahead := shared.clock_ahead.get(name):
            self.clock = SkewedClock(garden.clock, ahead)
        elif shared.clock_skew:
            self.clock = SkewedClock(garden.clock, shared.clock_skew * (garden.random.random() - 0.5))
        self.troubles = Troubles()
        self.etcds = FastEtcds(
            name,
            lambda: self.cluster.objects,
            buckets=shared.buckets,
            witness=shared.witness,
            others=shared,
            bucket=self.links.bucket,
            timing=self.config.timing,
            delay=shared.delay,
            has_clients=shared.has_clients,
        )
        self.cluster = FastCluster(name, garden, self._acts)

    @property
    def server(self) -> Server:
        return self.cluster.server

    def shoot(self, technical_id: str) -> Client:
        raise Unreachable(f"{technical_id}: control planes of fast seeds have no API server", sent=False)

    def gardenlet(self, to_garden: Client) -> Sequence[Component]:
        made = gardenlet.component(
            self.config,
            garden=to_garden,
            renderer=ControlPlane(),
            call=self._call_agent,
            bucket_providers=BUCKET_PROVIDERS,
            connect=self._garden.control_planes.connect(self.links.bucket),
            random_keys=False,
        )
        return [made]

    def extensions(self) -> Sequence[Component]:
        return [*super().extensions(), machine_controller.component(self.call_cloud, self.config.timing)]

    def run_extensions(self) -> None:
        if self._shared.with_cloud:
            super().run_extensions()

    async def power_off(self) -> None:
        await super().power_off()
        self._shared.witness.lost(self.name)

    async def _call_agent(self, namespace: str, path: str, body: bytes, _files: Data | None) -> bytes:
        if self.links.seed.is_cut:
            raise Unreachable("the network in the seed is cut")
        return await self.etcds.call(namespace, path, body)

    def _acts(self, objects: Objects) -> dict[Resource, Callable[[Key], Awaitable[Outcome]]]:
        acts = {core.DEPLOYMENT: self._kubelet(objects), Etcd.resource: self.etcds.reconcile}
        if self._shared.with_cloud:
            return acts
        shared, now = self._shared, self._garden.clock.now
        for kind in EXTENSION_KINDS:
            made = FastExtension(
                kind, self.name, objects, shared.infrastructures, self.troubles, now=now, delay=shared.delay
            )
            acts[kind.resource] = made.reconcile
        return acts

    def _kubelet(self, objects: Objects) -> Callable[[Key], Awaitable[Outcome]]:
        async def reconcile(key: Key) -> Outcome:
            live = objects.get(core.DEPLOYMENT, key)
            if live is None:
                return Done()
            replicas = live.tree["spec"].get("replicas", 1)
            status = {
                "observedGeneration": live.metadata.generation,
                "replicas": replicas,
                "availableReplicas": replicas,
            }
            present = live.tree.get("status") or {}
            if any(present.get(name, 0) != value for name, value in status.items()):
                await asyncio.sleep(self._shared.delay)
                await objects.status(core.DEPLOYMENT, live, status)
            return Done()

        return reconcile
