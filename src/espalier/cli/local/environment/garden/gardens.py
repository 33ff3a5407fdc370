"""A garden and its seeds in one process: API servers, gardenlets, extensions, a simulated cloud, networks between them.

Everything is given by constructor, so that it runs on the real clock and on virtual time. Nothing listens on a port,
unless control planes of shoots are processes (`seed_processes/`).
"""

from __future__ import annotations

import asyncio
import random
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from espalier.api import core
from espalier.api.cloud import AnyItem, CloudError, CloudRequest, Credentials, Refusal
from espalier.api.conditions import timestamp
from espalier.api.gardener import GARDEN_KINDS, SEED_KINDS, images, names
from espalier.api.gardener.garden.controller_installation import ControllerInstallation
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.access.webhooks import CallFailed, WebhookCall
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local.environment.garden import garden_objects
from espalier.cli.local.environment.garden.control_planes import ControlPlanes, InProcessControlPlanes
from espalier.cli.local.environment.garden.garden_objects import PROVIDER
from espalier.cli.local.environment.management import install_definitions
from espalier.cli.local.environment.seed_programs.assembly import SeedPrograms, agent_calls, shoot_client
from espalier.cli.local.environment.seed_programs.machine_controller_manager import MachineControllers
from espalier.cli.programs import garden_components
from espalier.cli.shoots.shoot_apis import ConnectedShootAPIs
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Unreachable
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import ADMIN, Endpoint, Transport, User
from espalier.runtime.clock import Clock
from espalier.runtime.component import Component, assemble
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.roles import USER
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.local_provider import setup as local_provider
from espalier.simulator import seeds as simulated
from espalier.simulator.cloud.kubelets import Kubelets
from espalier.simulator.cloud.service import Cloud
from espalier.simulator.cloud.user_data import Bootstrap
from espalier.simulator.connections import Link, Reached, ReachingTransport
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.workload_clusters.workloads import Workloads

IN_PROCESS = "https://garden.internal"
"""Address of the garden's webhooks: answered in this process, never sent."""
ACCOUNT = Credentials("demo", "demo")
RESOURCES = {
    resource.kind: resource for resource in (core.NAMESPACE, core.SECRET, *(kind.resource for kind in GARDEN_KINDS))
}
"""Resources of what a garden is made of, by kind."""

Wrap = Callable[[str, Transport], Transport]
"""Wraps the transports of a program (`garden`, `gardenlet a`, `extensions a`), to inject faults."""


def unchanged(_program: str, transport: Transport) -> Transport:
    """Inject no faults."""
    return transport


@dataclass(frozen=True)
class Settings:
    """Times, and what is simulated."""

    garden: GardenConfig = field(default_factory=GardenConfig)
    gardenlet: GardenletConfig = field(default_factory=lambda: GardenletConfig("", dns_type=PROVIDER))
    """The machine type of all seeds, apart from its name."""
    backups: BackupSettings = field(default_factory=lambda: BackupSettings(Schedule(), Retention()))
    """When agents take snapshots."""
    boot_seconds: float = 30.0
    first_address: str = "10.250.0.0"
    """The address before the first one of virtual machines."""
    random_keys: bool = True
    """False makes keys from the random generator, so that runs are reproducible: for simulation only."""


@dataclass(frozen=True)
class Links:
    """The networks of a seed, each of which can be cut."""

    garden: Link
    """From the gardenlet to the garden."""
    seed: Link
    """From the gardenlet to the seed's own API server, and to agents of etcds."""
    extensions: Link
    """From the extensions and machine controller managers to the seed's own API server."""
    bucket: Link
    """From the agents of etcds, the extensions and the gardenlet to the buckets."""
    cloud: Link
    """From the extensions and machine controller managers to the cloud."""
    shoot: Link
    """From nodes and users to the API servers of shoots."""

    @classmethod
    def of(cls, seed: str, control_planes: ControlPlanes) -> Links:
        """The networks of a new seed."""
        named = {what: f"the network from seed {seed} to {what}" for what in cls.__dataclass_fields__}
        links = {what: Link(name) for what, name in named.items()}
        return cls(**{**links, "bucket": control_planes.link_to_buckets(named["bucket"])})

    def restore(self) -> None:
        """Restore all of them."""
        for link in (self.garden, self.seed, self.extensions, self.bucket, self.cloud, self.shoot):
            link.restore()


@dataclass
class Program:
    """A running program: its manager, and its task."""

    manager: Manager
    task: asyncio.Task[Any]

    async def kill(self) -> None:
        """`kill -9`."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Machines(Protocol):
    """The behaviour of a cloud's virtual machines."""

    joins_by_token: bool
    """True if a machine needs a token in its user data to become a node."""

    async def run(self) -> None:
        """Run them until cancelled."""


class SeedCluster(Protocol):
    """The cluster that is a seed."""

    @property
    def is_up(self) -> bool:
        """True while its API server runs."""

    async def start(self) -> None:
        """Power it on; idempotent."""

    async def destroy(self) -> None:
        """Power it off immediately; idempotent."""

    def client(self, *, link: Link | None = None, life: Life | None = None, agent: str = "espalier") -> Client:
        """A client of its API server: through a network, and for the lifetime of a container."""


class GardenSeed(ABC):
    """A seed, its networks, its gardenlet and its extensions."""

    cluster: SeedCluster

    def __init__(self, garden: Garden, name: str) -> None:
        self.name = name
        self.clock = garden.clock
        """The clock of its programs: clocks of machines differ."""
        self.links = Links.of(name, garden.control_planes)
        self.config = _named(garden.settings.gardenlet, name)
        self._garden = garden

    @property
    def client(self) -> Client:
        """A client of the seed's API server, for observers."""
        return self.cluster.client(agent="user")

    @abstractmethod
    def shoot(self, technical_id: str) -> Client:
        """A client of a shoot's API server in this seed, as its nodes and users reach it."""

    @abstractmethod
    def gardenlet(self, to_garden: Client) -> Sequence[Component]:
        """The components of its gardenlet."""

    def extensions(self) -> Sequence[Component]:
        """Its extension controllers."""
        tokens = _generator(self._garden.random)
        stores = self._garden.control_planes.stores(self.links.bucket)
        return [
            local_provider.component(self.call_cloud, stores, self.config.timing, lambda: f"{tokens.getrandbits(64):x}")
        ]

    async def power_on(self) -> None:
        """Start all of it; idempotent."""
        if self.cluster.is_up:
            return
        await self.cluster.start()
        await self.install()
        self.run_gardenlet()
        self.run_extensions()

    async def install(self) -> None:
        """Install what a gardenlet needs: its programs may do anything here, so kinds are enough."""
        await install_definitions(SEED_KINDS, self.client)

    async def power_off(self) -> None:
        """Destroy it without any cleanup. Objects and volumes exist again after the next `power_on`."""
        for name in (f"gardenlet {self.name}", f"extensions {self.name}"):
            await self._garden.kill(name)
        await self.cluster.destroy()

    def run_gardenlet(self) -> None:
        """Start its gardenlet."""
        program = f"gardenlet {self.name}"
        user = User(USER.format(seed=self.name), (SEEDS, "system:authenticated"))
        to_garden = self._garden.connect(program, user, self.links.garden)
        to_seed = self.own_client(program, self.links.seed)
        self._garden.run(program, to_seed, self.gardenlet(to_garden), clock=self.clock)

    def run_extensions(self) -> None:
        """Start its extension controllers."""
        program = f"extensions {self.name}"
        to_seed = self.own_client(program, self.links.extensions)
        self._garden.run(program, to_seed, self.extensions(), clock=self.clock)

    def own_client(self, program: str, link: Link, life: Life | None = None) -> Client:
        """A client of the seed's API server for a program of the seed, through a network."""
        client = self.cluster.client(link=link, life=life)
        wrapped = self._garden.wrap(program, client.transport)
        return Client(wrapped, field_manager="espalier", user_agent=_agent(program), retry=Retry(attempts=1))

    async def call_cloud(self, request: CloudRequest) -> list[AnyItem]:
        """Call the cloud as this seed."""
        if self.links.cloud.is_cut:
            raise CloudError(Refusal.UNAVAILABLE, f"{self.links.cloud.name} is cut")
        return await self._garden.cloud.called_by(f"seed {self.name}")(request)


class SimulatedSeed(GardenSeed):
    """A seed whose pods run as coroutines, with the programs of their images."""

    cluster: simulated.Seed

    def __init__(self, garden: Garden, name: str) -> None:
        super().__init__(garden, name)
        own = garden.control_planes.programs(self.links.bucket, self.config.timing, garden.settings.backups)
        keys = None if garden.settings.random_keys else random.Random(name)  # noqa: S311 - repeatable on purpose
        machines = {images.program(images.MACHINE_CONTROLLER_MANAGER): self.machine_controller_manager}
        self.cluster = simulated.Seed(
            name,
            SeedPrograms({**own, **machines}),
            clock=garden.clock,
            rng=garden.random,
            keys=keys,
            workloads=self.workloads(),
        )

    def workloads(self) -> Workloads | None:
        """The API server of the seed; None for one of this process, in memory."""
        return None

    async def machine_controller_manager(self, container: Container) -> int:
        """Run the machine controller manager of a shoot."""
        joins_by_token = self._garden.machines.joins_by_token
        machines = MachineControllers(self._machine_client, self.call_cloud, self.config.timing, joins_by_token)
        return await machines.run(container)

    def shoot(self, technical_id: str) -> Client:
        """See `GardenSeed`."""
        return shoot_client(self.cluster, technical_id, link=self.links.shoot)

    def gardenlet(self, to_garden: Client) -> Sequence[Component]:
        """The gardenlet, with the controller of Etcds."""
        return garden_components.of_gardenlet(
            self.config,
            to_garden=to_garden,
            call=agent_calls(self.cluster, link=self.links.seed),
            read_backup=self._garden.control_planes.read_backup(self.links.bucket),
            connect=self._garden.control_planes.connect(self.links.bucket),
            shoots=ConnectedShootAPIs(self._shoot_of_gardenlet),
            random_keys=self._garden.settings.random_keys,
        )

    def _machine_client(self, life: Life) -> Client:
        return self.own_client(f"machine-controller-manager {self.name}", self.links.extensions, life)

    async def _shoot_of_gardenlet(self, technical_id: str) -> Client:
        return shoot_client(self.cluster, technical_id, link=self.links.seed)


class Garden:
    """The garden's API server and controllers, its seeds, and the cloud in which all machines are."""

    def __init__(
        self,
        clock: Clock,
        rng: random.Random,
        settings: Settings | None = None,
        *,
        wrap: Wrap = unchanged,
        new_seed: Callable[[Garden, str], GardenSeed] = SimulatedSeed,
        control_planes: ControlPlanes | None = None,
        new_machines: Callable[[Garden], Machines] | None = None,
    ) -> None:
        """With `new_machines`, virtual machines are something other than simulated kubelets."""
        self._new_seed = new_seed
        self.clock, self.random, self.wrap = clock, rng, wrap
        self.settings = settings or Settings()
        self.control_planes = control_planes or InProcessControlPlanes(clock)
        self.cloud = Cloud(
            clock,
            {ACCOUNT.account: ACCOUNT.token},
            boot_seconds=self.settings.boot_seconds,
            first_address=self.settings.first_address,
        )
        self.machines = (new_machines or _simulated_kubelets)(self)
        self.webhooks: Webhooks | None = None
        self.server = Server(MemoryStore(), now=clock.now, random=_generator(rng), call_webhook=self._review)
        self.seeds: dict[str, GardenSeed] = {}
        self.programs: dict[str, Program] = {}
        self._power = Life("the garden")
        self._tasks: list[asyncio.Task[None]] = []
        self.client = self.connect("user", ADMIN)

    @classmethod
    @asynccontextmanager
    async def run_with(
        cls,
        clock: Clock,
        rng: random.Random,
        seeds: Iterable[str],
        settings: Settings | None = None,
        *,
        projects: Sequence[str] = ("dev",),
        wrap: Wrap = unchanged,
        new_seed: Callable[[Garden, str], GardenSeed] = SimulatedSeed,
        control_planes: ControlPlanes | None = None,
        new_machines: Callable[[Garden], Machines] | None = None,
    ) -> AsyncIterator[Garden]:
        """A garden with these seeds and projects, all running; nothing keeps running afterwards."""
        garden = cls(
            clock,
            rng,
            settings,
            wrap=wrap,
            new_seed=new_seed,
            control_planes=control_planes,
            new_machines=new_machines,
        )
        async with AsyncExitStack() as stack:
            stack.push_async_callback(garden.stop)
            await garden.start(projects)
            for name in seeds:
                await garden.add_seed(name)
            yield garden

    async def start(self, projects: Sequence[str] = ()) -> None:
        """Start API server, controllers and the cloud's machines."""
        await self.server.start()
        await install_definitions(GARDEN_KINDS, self.client)
        for namespace in (names.GARDEN_NAMESPACE, names.SEED_LEASES, names.STATE_NAMESPACE):
            await self.make(garden_objects.namespace(namespace))
        await self.make_offer(projects)
        await self.client.apply(
            core.VALIDATING_WEBHOOK_CONFIGURATION,
            garden_components.webhook_configuration(IN_PROCESS),
            field_manager="espalier",
        )
        self.run_garden()
        self._tasks.append(asyncio.create_task(self.machines.run(), name="machines"))

    async def make_offer(self, projects: Sequence[str]) -> None:
        """Create what the cloud offers, and projects that have an account in it."""
        await self.make(garden_objects.cloud_profile(), garden_objects.registration())
        account = {"account": ACCOUNT.account, "token": ACCOUNT.token}
        for project in projects:
            home = names.project_namespace(project)
            await self.make(*garden_objects.project(project), *garden_objects.cloud_account(home, account))

    async def stop(self) -> None:
        """Stop everything."""
        for name in list(self.programs):
            await self.kill(name)
        for seed in self.seeds.values():
            await seed.cluster.destroy()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.server.close()

    async def add_seed(self, name: str) -> GardenSeed:
        """Register a seed with a bucket of its own, and start it."""
        await self.make(*garden_objects.seed(name, self.settings.gardenlet.domain))
        await self.install_extensions(name)
        made = self.seeds.get(name)
        if made is None:
            made = self.seeds[name] = self._new_seed(self, name)
        await made.power_on()
        return made

    async def install_extensions(self, seed: str) -> None:
        """Say in the garden that the seed has the extensions."""
        installation = garden_objects.installation(seed)
        await self.make(installation)
        await self.report_installed(installation["metadata"]["name"])

    async def report_installed(self, installation: str) -> None:
        """Say in a ControllerInstallation that its extensions run."""
        await self.client.patch(
            ControllerInstallation.resource,
            installation,
            patch=garden_objects.installed(timestamp(self.clock.now())),
            type=PatchType.MERGE,
            subresource="status",
        )

    def run_garden(self) -> None:
        """Start the garden's controllers and webhooks."""
        self.webhooks = Webhooks(port=None)
        made = garden_components.of_garden(self.settings.garden)
        self.run("garden", self.connect("garden", ADMIN), made, webhooks=self.webhooks)

    def run(
        self,
        name: str,
        client: Client,
        components: Sequence[Component],
        *,
        webhooks: Webhooks | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Start a program of these components."""
        manager = Manager(
            client, clock=clock or self.clock, rng=_generator(self.random), component=name, fill_within=None
        )
        assemble(manager, components, webhooks=webhooks)
        self.programs[name] = Program(manager, asyncio.create_task(manager.run(), name=name))

    async def kill(self, name: str) -> None:
        """`kill -9` of a program; does nothing if it is not running."""
        program = self.programs.pop(name, None)
        if program is not None:
            await program.kill()
        if name == "garden":
            self.webhooks = None

    async def restart(self, name: str) -> None:
        """Kill a program if it is running, and start it again."""
        await self.kill(name)
        kind, _, seed = name.partition(" ")
        match kind:
            case "garden":
                self.run_garden()
            case "gardenlet":
                self.seeds[seed].run_gardenlet()
            case "extensions":
                self.seeds[seed].run_extensions()
            case _:
                raise KeyError(f"there is no program {name}")

    def connect(self, program: str, user: User, link: Link | None = None) -> Client:
        """A client of the garden's API server for a program, through a network."""

        def reach() -> Reached:
            endpoint: Endpoint = self.server
            return Reached(endpoint, [self._power, *([link.life] if link is not None else [])])

        transport = self.wrap(program, ReachingTransport(reach, user))
        return Client(transport, field_manager="espalier", user_agent=_agent(program), retry=Retry(attempts=1))

    def shoot(self, technical_id: str) -> Client:
        """A client of a shoot's API server by its DNS name, resolved again for each request. Raises `Unreachable` if
        there is none."""
        return self.at(self.address_of(technical_id))

    def address_of(self, technical_id: str) -> str:
        """The present address of a shoot's API server in DNS. Raises `Unreachable` if there is none."""
        host = f"api.{technical_id}.{self.settings.gardenlet.domain}"
        record = self.cloud.inventory.resolve(host)
        if record is None:
            raise Unreachable(f"DNS has no address for {host}", sent=False)
        return record.values[0]

    def at(self, address: str) -> Client:
        """A client of the API server at an address from DNS. Raises `Unreachable`."""
        seed, technical_id = self.place_of(address)
        return seed.shoot(technical_id)

    def place_of(self, address: str) -> tuple[GardenSeed, str]:
        """The seed and the shoot of an address from DNS. Raises `Unreachable`."""
        technical_id, seed, *_ = f"{address}.".split(".")
        garden_seed = self.seeds.get(seed)
        if garden_seed is None:
            raise Unreachable(f"{address} is not the address of a seed", sent=False)
        return garden_seed, technical_id

    async def _review(self, call: WebhookCall) -> bytes:
        """The garden's controllers serve its webhooks while they run."""
        if self.webhooks is None:
            raise CallFailed("connection refused: the garden's controllers do not run")
        return self.webhooks.review(urlsplit(call.url).path, call.body)

    async def make(self, *objects: Tree) -> None:
        """Create objects that are not there yet, in this order."""
        for body in objects:
            await self._make(RESOURCES[body["kind"]], body)

    async def _make(self, resource: Resource, body: Tree) -> None:
        with suppress(AlreadyExists):
            await self.client.create(resource, body)


def _simulated_kubelets(garden: Garden) -> Kubelets:
    def connect(address: str, _bootstrap: Bootstrap) -> Client:
        return garden.at(address)

    return Kubelets(garden.cloud, connect, garden.clock, _generator(garden.random))


def _agent(program: str) -> str:
    return program.partition(" ")[0]


def _generator(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(64))  # noqa: S311 - guards nothing


def _named(config: GardenletConfig, seed: str) -> GardenletConfig:
    given: Mapping[str, Any] = {name: getattr(config, name) for name in config.__dataclass_fields__}
    return GardenletConfig(**{**given, "seed": seed})
