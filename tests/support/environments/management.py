"""Management clusters as users have them: programs in processes of their own. The same stories run on each."""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.core import LEASE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.group import MANAGER as LEADER
from espalier.api.resource import Key
from espalier.cli.install import manifests
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local import lock
from espalier.cli.local.images.upgrader_images import UpgraderImages
from espalier.clusters import rbac
from espalier.clusters.design.provider import infrastructures
from espalier.clusters.observe import references
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import KINDS
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.options import Options
from espalier.simulator import setup as simulator
from espalier.simulator.controller import Timing
from espalier.simulator.pods.controller import Pods
from espalier.simulator.pods.runtimes.process_runtime import ProcessRuntime
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.child_process import ChildProcess
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.environment import PROGRAM, LocalEnvironment, local_environment
from tests.support.environments.managing import led_by
from tests.support.environments.prepared_cluster import prepare
from tests.support.servers.audit import Grant
from tests.support.servers.kubectl import Kubectl, find_kubectl
from tests.support.servers.ports import free_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[3]
START_SECONDS = 300.0
SERVICE_ACCOUNT = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{manifests.NAME}"
RIGHTS_TO_BLOCK = {
    *(
        Grant(SYSTEM_NAMESPACE, GROUP, f"{plural}/finalizers", "update")
        for plural in ("controlplaneupgrades", "machinedeploymentupgrades")
    ),
    Grant(SYSTEM_NAMESPACE, KubeadmControlPlane.resource.group, "kubeadmcontrolplanes/finalizers", "update"),
    Grant(SYSTEM_NAMESPACE, MachineDeployment.resource.group, "machinedeployments/finalizers", "update"),
}
"""Rights that only admission plugin OwnerReferencesPermissionEnforcement asks for, when upgrades are created."""
PATIENCE = 600.0
"""Seconds that a command may take which waits for clusters; they need a tenth of it."""


class Management(Protocol):
    """A management cluster that an administrator has kubectl for."""

    kubectl: Kubectl
    client: Client
    caches: Caches

    async def crash(self) -> None:
        """Kill what runs the controllers, without a warning. Returns once it is gone."""

    async def restart(self) -> None:
        """Start again what was killed. Returns once it has taken up its work."""


def rights_to_own(namespace: str) -> set[Grant]:
    """Rights that only admission plugin OwnerReferencesPermissionEnforcement asks for, when objects get an owner."""
    return {Grant(namespace, kind.group, kind.plural, "delete") for kind in references.kinds(PROVIDERS)}


@dataclass
class Environment:
    """`espalier up`: the API server, the controllers and the machines are one process."""

    env: LocalEnvironment
    kubectl: Kubectl
    client: Client
    caches: Caches

    async def crash(self) -> None:
        """`kill -9`."""
        file = Home(self.env.home).lock
        running = lock.holder(file)
        assert running is not None
        os.kill(running.pid, signal.SIGKILL)
        assert await lock.released(file, START_SECONDS)

    async def restart(self) -> None:
        """`espalier up`."""
        await asyncio.to_thread(self.env.up, *UP_FLAGS)


UP_FLAGS = ("--boot-seconds", "0.3")


@asynccontextmanager
async def environment(folder: Path) -> AsyncIterator[Environment]:
    """A local environment of its own process, in this folder; it keeps the port that it got first."""
    program = find_kubectl()
    with local_environment(folder / "world", *UP_FLAGS) as env:
        kubeconfig = Home(env.home).kubeconfig
        async with _watching(kubeconfig) as (client, caches):
            yield Environment(env, Kubectl(program, kubeconfig, folder, patience=PATIENCE), client, caches)


@dataclass
class Production:
    """A real API server on which `espalier manifests` was applied, and `espalier manager` with its ServiceAccount."""

    control_plane: ControlPlane
    folder: Path
    manifests: str
    webhook_port: int
    kubectl: Kubectl
    client: Client
    caches: Caches
    machines: Manager
    namespaces: tuple[str, ...] = ()
    manager: ChildProcess | None = None
    program: Sequence[str] = tuple(PROGRAM)
    """The program started as the manager: `espalier`, or one of another build."""
    flags: Sequence[str] = ()
    """More of its flags."""

    async def start(self) -> None:
        """Start the manager. Returns once it leads: then its webhooks serve, and its caches are full."""
        leader = Options(namespaces=self.namespaces).lease_name(LEADER)
        leases = self.caches.of(LEASE, SYSTEM_NAMESPACE, fields=f"metadata.name={leader}")
        await leases.wait_synced()
        key = Key(SYSTEM_NAMESPACE, leader)
        before = _leader(leases.get(key))
        running = self.launch()
        try:
            await until(leases, key, lambda value: _leader(value) not in {"", before}, seconds=START_SECONDS)
        except TimeoutError:
            running.check()
            raise

    def launch(self) -> ChildProcess:
        """Start the manager, whatever becomes of it."""
        address = f"127.0.0.1:{self.webhook_port}"
        flags = ["--kubeconfig", str(self.folder / "manager.kubeconfig"), "--webhook-address", address]
        flags += ["--webhook-names", "127.0.0.1", "--health-address", "0", "--metrics-address", "0"]
        flags += _share(self.namespaces)
        paths = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "PYTHONPATH": paths}
        command = [*self.program, "manager", *flags, *self.flags]
        self.manager = ChildProcess(command, folder=self.folder, environment=environment)
        return self.manager

    async def crash(self) -> None:
        """`kill -9` of the manager; API server and machines go on."""
        assert self.manager is not None
        os.kill(self.manager.pid, signal.SIGKILL)
        await self.stop()

    async def restart(self) -> None:
        """Start the manager again. It acts once the Lease that it held before has run out."""
        await self.start()

    async def stop(self) -> None:
        """Ask the manager to stop, and wait until it is gone."""
        if self.manager is not None:
            await self.manager.stop(patience=START_SECONDS)
            self.manager = None


@asynccontextmanager
async def production(
    control_plane: ControlPlane,
    folder: Path,
    namespaces: tuple[str, ...] = (),
    in_place: FrontEnd = FrontEnd.ANNOTATIONS,
) -> AsyncIterator[Production]:
    """The setup by an administrator of a real management cluster, whose machines are simulated in this process.

    The manager watches these namespaces, or all. `in_place` is its own.
    """
    by_hooks = in_place is FrontEnd.HOOKS
    kubectl = Kubectl(control_plane.kubectl, control_plane.kubeconfig, folder, patience=PATIENCE)
    port = free_port()
    async with AsyncExitStack() as stack:
        client, caches = await stack.enter_async_context(_watching(control_plane.kubeconfig))
        await prepare(client, Releases.load(), (*KINDS, ExtensionConfig) if by_hooks else KINDS)
        url = f"https://127.0.0.1:{port}"
        way = ("--in-place", str(in_place))
        installed = await _espalier("manifests", "--webhook-url", url, *way, *_share(namespaces))
        await kubectl("apply", "-f", "-", stdin=installed)
        await kubectl("apply", "-f", "-", stdin=await _espalier("manifests", "--kubeconfig-copies", "-n", "default"))
        stack.push_async_callback(_remove_finalizers, client)
        # Webhooks that fail closed must not outlive who answers them.
        configurations = ("validatingwebhookconfiguration", rbac.VALIDATING_WEBHOOKS)
        stack.push_async_callback(kubectl, "delete", *configurations)
        configurations = ("mutatingwebhookconfiguration", rbac.MUTATING_WEBHOOKS)
        stack.push_async_callback(kubectl, "delete", *configurations)
        token = await kubectl("create", "token", manifests.NAME, "--namespace", SYSTEM_NAMESPACE)
        kubeconfig = Kubeconfig.of_cluster(
            "management",
            server=control_plane.url,
            certificate_authority=control_plane.ca,
            user=manifests.NAME,
            credentials=token.strip(),
        )
        kubeconfig.merge_into(folder / "manager.kubeconfig")
        machines = await stack.enter_async_context(_simulated_machines(control_plane.kubeconfig, folder / "simulated"))
        made = Production(control_plane, folder, installed, port, kubectl, client, caches, machines, namespaces)
        made.flags = (*way, "--hooks-url", url) if by_hooks else way
        stack.push_async_callback(made.stop)
        await made.start()
        yield made


def _share(namespaces: tuple[str, ...]) -> list[str]:
    return ["--namespace", ",".join(namespaces)] if namespaces else []


@asynccontextmanager
async def _simulated_machines(kubeconfig: Path, disks: Path) -> AsyncIterator[Manager]:
    """simulated Cluster API, and machines, against any API server; workload clusters listen in this process.

    Upgrader pods of their nodes run as processes.
    """
    clock, rng = SystemClock(), random.SystemRandom()
    client = _client(kubeconfig, "simulated-machines")
    workloads = Workloads(clock=clock, rng=rng, stores=MemoryStores())
    manager = Manager(client, clock=clock, rng=rng)
    images = UpgraderImages(Releases.load(), disks / "images")
    pods = Pods(workloads, [ProcessRuntime(images, disks, clock)], clock)
    simulated = simulator.component(
        workloads, rng=rng, timing=Timing(boot=0.3), pods=pods, infrastructures=infrastructures(PROVIDERS).all
    )
    assemble(manager, [simulated], client=client)
    try:
        async with led_by(manager):
            yield manager
    finally:
        await pods.close()
        await workloads.close()
        await client.close()


@asynccontextmanager
async def _watching(kubeconfig: Path) -> AsyncIterator[tuple[Client, Caches]]:
    """A client of the administrator, and what it sees by watch."""
    client = _client(kubeconfig, "journey")
    caches = Caches(client, rng=random.Random(1))
    running = asyncio.create_task(caches.run())
    try:
        yield client, caches
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()


def _client(kubeconfig: Path, user_agent: str) -> Client:
    access = Kubeconfig.load([kubeconfig]).context()
    return Client(HttpTransport(access, environment={}), field_manager="espalier-laptop", user_agent=user_agent)


async def _espalier(*arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(*PROGRAM, *arguments, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def _remove_finalizers(client: Client) -> None:
    """A story that failed leaves Clusters; nobody is there any more to delete what was made for them."""
    for cluster in (await client.list(Cluster.resource)).items:
        patch = {"metadata": {"finalizers": None}}
        await client.patch(Cluster.resource, cluster.name, cluster.namespace, patch=patch, type=PatchType.MERGE)


def _leader(lease: Object | None) -> str:
    spec = lease.tree.get("spec") or {} if lease is not None else {}
    return str(spec.get("holderIdentity") or "")
