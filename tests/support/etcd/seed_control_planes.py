"""Control planes of a shoot in seeds of one process, on virtual time; their backups in memory."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from espalier.api.core import CONFIG_MAP, DEPLOYMENT, NAMESPACE, SECRET, SERVICE
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.cli.local.environment.seed_programs.agent import Agents, StoreConfig
from espalier.cli.local.environment.seed_programs.assembly import (
    Call,
    SeedPrograms,
    agent_calls,
    in_process,
    shoot_client,
)
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.store import Store
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import KubeError, NotFound
from espalier.runtime.virtual import Simulation, run
from espalier.shoots.control_plane.programs import API_SERVER, CONTROLLER_MANAGER, ControlPlane
from espalier.shoots.etcd import setup
from espalier.simulator.seeds import Seed
from tests.support.gardens.seed_managers import managed
from tests.support.gardens.seeds import EPOCH, SHOOT, namespace
from tests.support.waiting import eventually

T = TypeVar("T")
PATIENCE = 600.0


@dataclass
class Buckets:
    """Object stores, by URL."""

    clock: Callable[[], Simulation]
    stores: dict[str, MemoryStore] = field(default_factory=dict)

    def open(self, words: StoreConfig) -> Store:
        assert words.credentials, "the Secret is mounted"
        return self.stores.setdefault(words.url, MemoryStore(self.clock().clock, where=words.url))


class Plane:
    """The control plane of the shoot in one seed."""

    def __init__(self, seed: Seed, planes: Planes) -> None:
        self.seed = seed
        self.client = seed.client()
        self.call: Call = agent_calls(seed)
        self.shoot: Client = shoot_client(seed, SHOOT)
        self._planes = planes

    async def prepare(self) -> None:
        """The shoot's namespace with what a control plane mounts."""
        await self.client.create(NAMESPACE, namespace(SHOOT))
        deployment = self._planes.rendered(API_SERVER, 1)
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        secrets = [volume["secret"]["secretName"] for volume in volumes]
        for name in ("etcd-backup", "source-etcd-backup", CONTROLLER_MANAGER, *secrets):
            body: Tree = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": SHOOT}}
            await self.client.create(SECRET, {**body, "stringData": {"some": "thing"}})
        for service in ControlPlane().services(self._planes.kind, SHOOT):
            await self.client.create(SERVICE, service)

    async def start_etcd(self, epoch: int, *, copy: bool = False) -> None:
        """Make the Etcd of an epoch, and wait until it is ready."""
        await self.client.create(Etcd.resource, etcd(epoch, copy=copy))
        await self.until(self.etcd_ready)

    async def start_api_server(self) -> None:
        await self.deploy(API_SERVER)
        await self.until(self.answers)

    async def deploy(self, name: str) -> None:
        """Make a Deployment of the control plane."""
        await self.client.create(DEPLOYMENT, self._planes.rendered(name, 1))

    async def scale(self, name: str, replicas: int) -> None:
        """Scale a Deployment."""
        patch = {"spec": {"replicas": replicas}}
        await self.client.patch(DEPLOYMENT, name, SHOOT, patch=patch, type=PatchType.MERGE)

    async def has_ready(self, name: str, replicas: int) -> bool:
        """True if so many pods of a Deployment are ready."""
        status = (await self.client.get(DEPLOYMENT, name, SHOOT)).tree.get("status") or {}
        return bool(status.get("readyReplicas", 0) == replicas)

    async def etcd_ready(self) -> bool:
        stored = await self.client.get(Etcd.resource, "etcd-main", SHOOT)
        return bool((stored.tree.get("status") or {}).get("ready"))

    async def answers(self) -> bool:
        """True if the shoot's API server answers."""
        try:
            await self.shoot.list(NAMESPACE)
        except KubeError:
            return False
        return True

    async def note(self, name: str) -> None:
        """Write an object into the shoot."""
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
        await self.shoot.create(CONFIG_MAP, body)

    async def notes(self) -> list[str]:
        return sorted(item.name for item in (await self.shoot.list(CONFIG_MAP, "default")).items)

    async def delete_etcd(self) -> None:
        await self.client.delete(Etcd.resource, "etcd-main", SHOOT)
        await self.until(self._etcd_gone)

    async def _etcd_gone(self) -> bool:
        try:
            await self.client.get(Etcd.resource, "etcd-main", SHOOT)
        except NotFound:
            return True
        return False

    async def until(self, holds: Callable[[], Awaitable[object]], *, seconds: float = PATIENCE) -> None:
        await eventually(holds, within=seconds, every=0.5)


class Planes:
    """Seeds by name, each with the controller of Etcds beside it."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self.buckets = Buckets(lambda: simulation)
        self.kind = msgspec.convert(
            {
                "metadata": {"name": "garden"},
                "spec": {"provider": {"type": "simulated"}, "kubernetes": {"version": "1.35.4"}},
            },
            Shoot,
        )

    def rendered(self, name: str, replicas: int) -> Tree:
        return ControlPlane().deployment(name, self.kind, SHOOT, replicas)

    @asynccontextmanager
    async def seed(self, name: str) -> AsyncIterator[Plane]:
        """A seed with the shoot's namespace."""
        clock, rng = self._simulation.clock, self._simulation.random
        programs = SeedPrograms(in_process(Agents(self.buckets.open)))
        seed = Seed(name, programs, clock=clock, rng=rng, keys=random.Random(name))
        await seed.start()
        async with managed(seed, [setup.component()], clock=clock, rng=rng):
            plane = Plane(seed, self)
            await plane.prepare()
            yield plane
        await seed.destroy()


def etcd(epoch: int, *, copy: bool = False) -> Tree:
    """The Etcd of an epoch; the first founds the cluster, each later one takes over from that before."""
    marks = {metadata_keys.EPOCH: str(epoch)}
    marks |= {metadata_keys.SOURCE_EPOCH: str(epoch - 1)} if epoch > 1 else {metadata_keys.FOUNDING: "true"}
    backup = {"store": _store(epoch, "etcd-backup")}
    if copy:
        backup["sourceStore"] = _store(epoch - 1, "source-etcd-backup")
    return {
        "apiVersion": Etcd.resource.api_version,
        "kind": "Etcd",
        "metadata": {"name": "etcd-main", "namespace": SHOOT, "annotations": marks},
        "spec": {"replicas": 1, "selector": {}, "etcd": {}, "backup": backup},
    }


def _store(epoch: int, secret: str) -> Tree:
    prefix = f"{SHOOT}--uid/etcd-main/{epoch}"
    return {"provider": "memory", "container": f"seed-{epoch}", "prefix": prefix, "secretRef": {"name": secret}}


def on_seeds(story: Callable[..., Awaitable[T]], *names: str, seed: int = 1) -> T:
    """Tell a story on seeds of these names."""

    async def told(simulation: Simulation) -> T:
        planes = Planes(simulation)
        async with AsyncExitStack() as stack:
            return await story(*[await stack.enter_async_context(planes.seed(name)) for name in names])

    return run(told, epoch=EPOCH, seed=seed)
