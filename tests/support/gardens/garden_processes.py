"""A garden on a real kube-apiserver, whose programs are processes to be killed. Seeds and the cloud are simulated.

Control planes of shoots are real programs. Extensions are processes as well, which call the cloud in this one.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import ModuleType
from urllib.parse import urlsplit

import msgspec
import pytest

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import names
from espalier.api.gardener.garden.controller_installation import ControllerInstallation
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.http import HttpShell
from espalier.cli.install import garden_manifests
from espalier.cli.local.demo_garden import ReachedEndpoint
from espalier.cli.local.environment.garden.garden_objects import PROVIDER
from espalier.cli.local.environment.garden.gardens import Garden, GardenSeed, SimulatedSeed
from espalier.cli.local.environment.garden.migration_scenario import TECHNICAL_ID, MigrationScenario, quick_settings
from espalier.cli.local.environment.seed_processes.assembly import RealControlPlanes
from espalier.cli.local.environment.seed_processes.buckets import FolderLink
from espalier.cli.local.environment.seed_processes.kubernetes import ApiServer
from espalier.cli.local.environment.seed_processes.network import Forwarder, Target, TcpEndpoint
from espalier.cli.local.environment.seed_programs.assembly import API_SERVER, API_SERVER_PORT
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import AlreadyExists, KubeError
from espalier.kube.transports.wire import User
from espalier.runtime.clock import SystemClock
from espalier.shoots.admission.users import GARDEN_ACCOUNT, SEEDS
from espalier.shoots.garden.roles import USER
from espalier.shoots.gardener_api.transport import GardenTransport
from espalier.simulator.connections import Link, Reached, ReachingTransport
from espalier.simulator.pods.runtimes.pod_network import endpoint_of
from tests.support.child_process import ChildProcess
from tests.support.environments.control_plane import ControlPlane, find_assets, real_control_plane, why_no_assets
from tests.support.environments.gardener import real_garden, start_controllers, why_no_gardener
from tests.support.gardens import extension_program, garden_program, manifests
from tests.support.gardens.real_shoots import RealShoot
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually

ROOT = Path(__file__).parents[3]
HOST = "127.0.0.1"
SILENT = ("--no-leader-elect", "--health-address", "0", "--metrics-address", "0", "--log-level", "warning")
"""A program that is started again acts at once: there is no other instance that may still live."""
GRACE, GIVE_UP = 6, 15


class ProcessGarden(Garden):
    """See the module. Programs `garden`, `gardenlet SEED` and `extensions SEED` are processes."""

    def __init__(
        self,
        control_plane: ControlPlane,
        planes: RealControlPlanes,
        folder: Path,
        timing: Timing,
        *,
        is_gardener: bool = False,
        new_seed: Callable[[Garden, str], GardenSeed] | None = None,
    ) -> None:
        """`is_gardener`: its API server has Gardener's kinds already. `new_seed` makes other seeds than
        `ProcessSeed`."""
        self.is_gardener = is_gardener
        self._api = ApiServer(control_plane.authority, SystemClock())
        self._api.port = urlsplit(control_plane.url).port or 0
        self.control_plane = control_plane
        self._webhooks_at = f"{HOST}:{free_port()}"
        self.folder = folder
        self.processes: dict[str, ChildProcess] = {}
        settings = quick_settings(timing=timing, nodes_timeout=2)
        made = new_seed or ProcessSeed
        super().__init__(SystemClock(), random.SystemRandom(), settings, new_seed=made, control_planes=planes)
        self.timing = folder / "timing.json"
        self.timing.write_bytes(msgspec.json.encode(timing))

    def connect(self, program: str, user: User, link: Link | None = None) -> Client:
        """See `Garden`."""
        lives = [link.life] if link is not None else []
        transport = GardenTransport(ReachingTransport(lambda: Reached(self._api, lives), user))
        return Client(transport, user_agent=program)

    async def start(self, projects: Sequence[str] = ()) -> None:
        """See `Garden`."""
        url = f"https://{self._webhooks_at}"
        await manifests.apply(self.client, garden_manifests.of_garden(url, beside_gardener=self.is_gardener))
        self.run_garden()
        await self.make_offer(projects)
        self._tasks.append(asyncio.create_task(self.machines.run(), name="machines"))

    async def install_extensions(self, seed: str) -> None:
        """See `Garden`. Gardener's controllers make the ControllerInstallation."""
        if not self.is_gardener:
            await super().install_extensions(seed)
            return

        async def installations() -> list[str]:
            listed = (await self.client.list(ControllerInstallation.resource)).items
            return [item.name for item in listed if item.decode(ControllerInstallation).spec.seed_ref.name == seed]

        (installation,) = await eventually(installations, every=0.2)
        await self.report_installed(installation)

    def run_garden(self) -> None:
        """See `Garden`."""
        account = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{GARDEN_ACCOUNT}"
        words = ("garden", "--kubeconfig", str(self.kubeconfig(account, "system:serviceaccounts")))
        times = ("--heartbeat-grace", f"{GRACE}s", "--give-up-after", f"{GIVE_UP}s")
        self.run_process("garden", *words, *times, "--webhook-address", self._webhooks_at, "--webhook-names", HOST)

    def kubeconfig(self, user: str, *groups: str) -> Path:
        """A file with access to the garden for a user."""
        file = self.folder / f"{user.rpartition(':')[2]}-in-garden.kubeconfig"
        if not file.exists():
            file.write_bytes(self.control_plane.kubeconfig_of(user, self.clock, groups).to_bytes())
        return file

    def run_process(self, name: str, *words: str, places: garden_program.Places | None = None) -> None:
        """Start a program of espalier."""
        variables = {garden_program.VARIABLE: msgspec.json.encode(places).decode()} if places is not None else {}
        self._run_module(name, garden_program, *words, *SILENT, variables=variables)

    def run_extension_process(self, name: str, places: extension_program.Places) -> None:
        """Start the extensions of a seed."""
        variables = {extension_program.VARIABLE: msgspec.json.encode(places).decode()}
        self._run_module(name, extension_program, variables=variables)

    def _run_module(self, name: str, module: ModuleType, *words: str, variables: Mapping[str, str]) -> None:
        folder = self.folder / name.replace(" ", "-")
        folder.mkdir(exist_ok=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **variables}
        command = [sys.executable, "-m", module.__name__, *words]
        self.processes[name] = ChildProcess(command, folder=folder, environment=environment)

    async def kill(self, name: str) -> None:
        """See `Garden`: with -9, whatever it is doing."""
        process = self.processes.pop(name, None)
        if process is None:
            await super().kill(name)
            return
        os.kill(process.pid, signal.SIGKILL)
        await process.stop()

    async def stop(self) -> None:
        """See `Garden`."""
        for name in list(self.processes):
            await self.kill(name)
        await super().stop()
        for seed in self.seeds.values():
            if isinstance(seed, ProcessSeed):
                await seed.close()
        await self._api.close()

    def check(self) -> None:
        """Raise `ChildFailed` if a program ended that nobody killed."""
        for process in self.processes.values():
            process.check()

    async def _make(self, resource: Resource, body: Tree) -> None:
        async def is_made() -> bool:
            with suppress(AlreadyExists):
                await self.client.create(resource, body)
            return True

        # A new kind, its rights and the garden's admission take a moment.
        await eventually(is_made, despite=KubeError, every=0.2)


class ProcessSeed(SimulatedSeed):
    """A simulated seed whose gardenlet and extensions are processes: its API server, and those of its shoot, are
    ports."""

    def __init__(self, garden: Garden, name: str) -> None:
        assert isinstance(garden, ProcessGarden)
        super().__init__(garden, name)
        self._processes = garden
        now = garden.clock.now()
        self._authority = Authority.create(name, now=now)
        serving = self._authority.issue_server("kube-apiserver", names=[HOST], now=now)
        endpoint = ReachedEndpoint(lambda: Reached(self.cluster.workload.server, [self.cluster.life]))
        self._shell = HttpShell(endpoint, serving=serving, client_ca=self._authority.certificate)
        self._forwarders: list[Forwarder] = []
        self.kubeconfig = garden.folder / f"{name}.kubeconfig"
        """The file with the access that gardenlet and extensions have to the seed."""
        self._places: garden_program.Places | None = None
        self._cloud = extension_program.ServedCloud(self.call_cloud)
        self._cloud_port = 0

    async def power_on(self) -> None:
        """See `GardenSeed`."""
        if self._places is None:
            await self._shell.start()
            admin = self._authority.issue_client("gardenlet", groups=["system:masters"], now=self.clock.now())
            access = Kubeconfig.of_cluster(
                self.name,
                server=self._shell.url,
                certificate_authority=self._authority.certificate,
                user="gardenlet",
                credentials=admin,
            )
            self.kubeconfig.write_bytes(access.to_bytes())
            self._cloud_port = await self._cloud.start()
            assert isinstance(self.links.bucket, FolderLink)
            self._places = garden_program.Places(
                agent=await self._forwarded(names.AGENT_SERVICE, names.AGENT_PORT),
                api_server=await self._forwarded(API_SERVER, API_SERVER_PORT),
                buckets=str(self.links.bucket.folder),
            )
        await super().power_on()

    def run_gardenlet(self) -> None:
        """See `GardenSeed`."""
        as_seed = self._processes.kubeconfig(USER.format(seed=self.name), SEEDS)
        words = ("gardenlet", "--seed", self.name, "--kubeconfig", str(self.kubeconfig))
        flags = ("--garden-kubeconfig", str(as_seed), "--timing", str(self._processes.timing), "--dns-type", PROVIDER)
        self._processes.run_process(f"gardenlet {self.name}", *words, *flags, places=self._places)

    def run_extensions(self) -> None:
        """See `GardenSeed`."""
        self.start_extensions(self.kubeconfig)

    def start_extensions(self, kubeconfig: Path) -> None:
        """Start its extensions with access to the seed."""
        assert self._places is not None
        timing = self._processes.settings.gardenlet.timing
        places = extension_program.Places(str(kubeconfig), self._cloud_port, self._places.buckets, timing)
        self._processes.run_extension_process(f"extensions {self.name}", places)

    async def close(self) -> None:
        """End its ports."""
        await self._cloud.stop()
        for forwarder in self._forwarders:
            forwarder.close()
        await self._shell.stop()

    async def _forwarded(self, service: str, port: int) -> int:
        def find() -> Target:
            listener = self.cluster.listener(Key(TECHNICAL_ID, service), port)
            return endpoint_of(listener, TcpEndpoint), [listener.life]

        forwarder = Forwarder(f"{service} of {self.name}", find)
        self._forwarders.append(forwarder)
        return await forwarder.listen()


@asynccontextmanager
async def process_garden(
    folder: Path,
    timing: Timing,
    seeds: Sequence[str],
    *,
    is_gardener: bool = False,
    new_seed: Callable[[Garden, str], GardenSeed] | None = None,
) -> AsyncIterator[RealShoot]:
    """A garden of processes with a shoot on the first of the seeds; `is_gardener` with Gardener's API server and
    controllers. Skips the test where programs are not built."""
    result = find_assets()
    if result is None:
        pytest.skip(f"there is no real control plane: {why_no_assets()}")
    if is_gardener and (lacking := why_no_gardener()):
        pytest.skip(lacking)
    async with AsyncExitStack() as stack:
        cluster = folder / "garden-cluster"
        if is_gardener:
            control_plane = (await stack.enter_async_context(real_garden(cluster, result))).control_plane
            await start_controllers(control_plane)
        else:
            control_plane = await stack.enter_async_context(real_control_plane(cluster, result))
        planes = await stack.enter_async_context(RealControlPlanes.with_programs(result))
        garden = ProcessGarden(control_plane, planes, folder, timing, is_gardener=is_gardener, new_seed=new_seed)
        stack.push_async_callback(garden.stop)
        await garden.start(["dev"])
        for name in seeds:
            await garden.add_seed(name)
        shoot = RealShoot(garden, planes, MigrationScenario(garden, version=planes.version), result / "kubectl", folder)
        await stack.enter_async_context(shoot.scenario.begun(seeds[0]))
        yield shoot
