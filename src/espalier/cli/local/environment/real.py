"""Real nodes: a management cluster, Cluster API's managers, and our controllers in this process."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import msgspec

from espalier.api.capi.runtime import ExtensionConfig
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.upgrades import RUNTIME_EXTENSION, FrontEnd
from espalier.api.eksa.vocabulary.group import BOOTSTRAP
from espalier.assets.base import DEFAULT_REPOSITORY, Base, find_base, find_bases
from espalier.cli.clusters import chosen_release
from espalier.cli.install import manifests
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.local.environment import programs
from espalier.cli.local.environment.management import (
    MANAGEMENT_CLUSTER_NAME,
    follow_newest,
    make_record,
    prepare_kinds,
)
from espalier.cli.local.environment.node_managers import NodeManagers, ended, other_managers
from espalier.cli.local.environment.self_managed import SelfManagedEnvironment
from espalier.cli.local.images import management_archives
from espalier.cli.local.images.upgrader_archives import built_images
from espalier.cli.management.components.components import Components
from espalier.cli.programs import components
from espalier.cli.programs.manager_task import ManagerTask
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import NotFound, ServerFailure
from espalier.providers.kinds import INFRASTRUCTURE_KINDS
from espalier.providers.registry import LOCAL, PROVIDERS
from espalier.realnodes.management import deployments
from espalier.realnodes.management.cluster_api import MANAGERS, documents_of, run_cluster_api
from espalier.realnodes.management.control_plane import HOST, control_plane
from espalier.realnodes.management.processes import ProgramFailed, supervised
from espalier.realnodes.nspawn import setup as nodes
from espalier.realnodes.nspawn.bases import NodeBases
from espalier.realnodes.nspawn.host import NodeHost
from espalier.realnodes.nspawn.system.addresses import AddressRange, BadRange, clash
from espalier.realnodes.nspawn.system.network import Bridge, RangeInUse, occupied
from espalier.realnodes.nspawn.system.state import State
from espalier.releases import Releases
from espalier.runtime.clock import Clock, SystemClock
from espalier.runtime.component import Component, assemble, kinds
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.workload_clusters.remote import over_http

TOOLS = {
    "systemd-nspawn": "systemd-container",
    "ip": "iproute2",
    "mount": "mount",
    "umount": "mount",
    "nsenter": "util-linux",
    "setsid": "util-linux",
}
"""Programs that nodes need on this machine, and their Debian packages."""


ADDRESSES = tuple(f"10.{second}.0.0/24" for second in range(77, 87))
"""Ranges of nodes, unless one is asked for: the first that nothing on this machine has."""


@dataclass(frozen=True)
class RealSettings:
    """Options of real nodes."""

    addresses: str
    """A range, or nothing for that of the nodes that are there, else a free one of `ADDRESSES`."""
    bridge: str = ""
    """The name of their bridge, or nothing for a free one."""
    in_place: FrontEnd = FrontEnd.ANNOTATIONS


class BuiltBases:
    """Programs built by `espalier assets build`."""

    def find(self, version: str) -> Base:
        """The base of a Kubernetes version. Raises `MissingAssets`."""
        return find_base(version)

    def all(self) -> list[Base]:
        """All bases whose images have the names that kubeadm expects."""
        return [base for base in find_bases() if base.repository == DEFAULT_REPOSITORY]


@dataclass
class RealEnvironment:
    """A running local environment of real nodes."""

    url: str
    managing: ManagerTask

    @classmethod
    @asynccontextmanager
    async def run(
        cls, home: Home, settings: RealSettings, *, port: int, releases: Releases, bases: NodeBases
    ) -> AsyncIterator[RealEnvironment]:
        """Start everything; ready when the block is entered. When it is left all of it stops, except for the nodes.

        Raises `Failure` when this machine can't carry it, with all reasons.
        """
        async with node_side(home, settings, releases, bases) as side, side.management(port=port) as (url, managing):
            yield cls(url, managing)

    async def until_failed_or(self, stop: asyncio.Event) -> None:
        """Return when `stop` is set; raise the error if the manager fails first."""
        await self.managing.until_failed_or(stop)


@asynccontextmanager
async def real_self_managed(
    home: Home, settings: RealSettings, *, port: int, releases: Releases, bases: NodeBases
) -> AsyncIterator[SelfManagedEnvironment]:
    """The environment of a management cluster of real nodes: their provider, and the bootstrap if it is wanted; or
    delete what a removed one left.

    Raises as `RealEnvironment.run`.
    """
    async with node_side(home, settings, releases, bases) as side:
        bootstrap = partial(side.management, port=port, name=BOOTSTRAP)
        served = other_managers(home.managers)
        url = Kubeconfig.load([served[0]]).context().server if served else ""
        data = partial(shutil.rmtree, home.management, ignore_errors=True)
        async with SelfManagedEnvironment(home, bootstrap, data, url).run() as environment:
            yield environment


@asynccontextmanager
async def node_side(
    home: Home, settings: RealSettings, releases: Releases, bases: NodeBases
) -> AsyncIterator[NodeSide]:
    """Manage the nodes of the management clusters that run on real nodes themselves, while the block does.

    Raises `Failure` when this machine can't carry real nodes, with all reasons.
    """
    home.create()
    state = State(home.nodes)
    addresses = await check(settings, state)
    control_plane_at, cluster_api_at = programs.find_control_plane(), programs.find_cluster_api()
    if control_plane_at is None or cluster_api_at is None:
        raise Failure("real nodes need programs that are not built yet: run `make real-assets`")
    machines = partial(
        nodes.component,
        host=NodeHost.of(state, addresses, settings.bridge),
        bases=bases,
        releases=releases,
        infrastructure=LOCAL.infrastructure,
        built_images=built_images(releases, home.images) | management_archives.built_images(),
        kinds=INFRASTRUCTURE_KINDS,
    )
    components_of(cluster_api_at).write(home.components)
    side = NodeSide(home, settings, releases, machines, control_plane_at, cluster_api_at)
    managers = NodeManagers(
        home, lambda owner: machines(owner=owner), management_archives.make_all, side.clock, side.rng
    )
    task = asyncio.create_task(managers.run(), name="managers of nodes")
    try:
        yield side
    finally:
        await ended(task)


@dataclass(frozen=True)
class NodeSide:
    """The nodes of a local environment, beside which management clusters come and go."""

    home: Home
    settings: RealSettings
    releases: Releases
    machines: Callable[..., Component]
    """The component with the controllers of nodes, for an owner."""
    control_plane_at: Path
    cluster_api_at: Path
    clock: Clock = field(default_factory=SystemClock)
    rng: random.Random = field(default_factory=random.SystemRandom)

    @asynccontextmanager
    async def management(
        self, *, port: int, name: str = MANAGEMENT_CLUSTER_NAME
    ) -> AsyncIterator[tuple[str, ManagerTask]]:
        """A management cluster that is no cluster on these nodes: its address, and the manager. Its record has this
        name. Raises `Failure`.
        """
        home, releases, clock = self.home, self.releases, self.clock
        folder = home.management
        async with AsyncExitStack() as stack:
            supervisor = await stack.enter_async_context(supervised(folder, clock))
            try:
                running = await stack.enter_async_context(
                    control_plane(supervisor, self.control_plane_at, folder, clock, port=port or home.port_before())
                )
                client = over_http(running.kubeconfig.read_bytes())
                stack.push_async_callback(client.close)
                await run_cluster_api(supervisor, self.cluster_api_at, folder / "cluster-api", running, client, clock)
            except ProgramFailed as error:
                raise Failure(str(error)) from error
            except OSError as error:
                raise Failure(f"the management cluster can't start: {error}; choose a port with --port") from error
            in_place = self.settings.in_place
            made_of = components.of_manager(PROVIDERS, front_end=in_place)
            machines = self.machines(is_alone=lambda: not other_managers(home.managers))
            await _remove_webhooks(client)
            await prepare_kinds(client, releases, kinds((*made_of, machines)), name)
            manager = Manager(client, clock=clock, rng=self.rng)
            webhook_port = _free_port()
            url = f"https://{HOST}:{webhook_port}"
            webhooks = Webhooks(host=HOST, port=webhook_port)
            components.certify(manager, webhooks, [HOST], {"url": url} if in_place is FrontEnd.HOOKS else None)
            assemble(manager, made_of, webhooks=webhooks)
            assemble(manager, [machines], client=client)
            managing = ManagerTask.begin(manager)
            stack.push_async_callback(managing.stop)
            await managing.leading()
            for resource, tree in manifests.webhook_configurations(url):
                await client.apply(resource, tree)
            await retry_untrusted(lambda: _keep_record(client, releases, name))
            Kubeconfig.load([running.kubeconfig]).merge_into(home.kubeconfig, alone=True)
            yield running.url, managing


def components_of(assets: Path) -> Components:
    """The programs of a management cluster on these nodes: Cluster API from the folder of its programs, kinds of the
    provider, whose controllers stay outside, and Espalier's manager.
    """
    names = management_archives.images()
    documents = {manager.name: list(documents_of(assets, manager)) for manager in MANAGERS}
    kinds_of_nodes = [msgspec.to_builtins(crd_of(kind)) for kind in INFRASTRUCTURE_KINDS]
    return Components(
        [*deployments.deployed(documents, names), *kinds_of_nodes],
        names[management_archives.ESPALIER],
        chosen_release.own_version(),
    )


async def check(settings: RealSettings, state: State) -> AddressRange:
    """The range for nodes. Raises `Failure` with every reason why this machine can't carry real nodes."""
    reasons = []
    if sys.platform != "linux":
        raise Failure("real nodes are Linux containers: this machine does not run Linux; omit `--nodes real`")
    if os.geteuid() != 0:
        reasons.append("root is needed to create containers: run it as root")
    missing = {package for tool, package in TOOLS.items() if shutil.which(tool) is None}
    if missing:
        reasons.append(f"programs are missing: apt-get install {' '.join(sorted(missing))}")
    try:
        recorded = state.network()
        addresses = AddressRange.parse(settings.addresses or (recorded.range if recorded else await _free_range()))
    except BadRange as error:
        raise Failure("; ".join([*reasons, str(error)])) from error
    if shutil.which("ip") is not None:
        try:
            await Bridge(state, addresses, settings.bridge).check()
        except RangeInUse as error:
            reasons.append(str(error))
    if reasons:
        raise Failure("real nodes are not possible here: " + "; ".join(reasons))
    return addresses


async def _free_range() -> str:
    """The first range that overlaps nothing; the first of all if none is free, or nobody can tell."""
    taken = await occupied() if shutil.which("ip") is not None else []
    free = (text for text in ADDRESSES if clash(AddressRange.parse(text), taken, own_bridge="") is None)
    return next(free, ADDRESSES[0])


async def _keep_record(client: Client, releases: Releases, name: str) -> None:
    await make_record(client, releases, name)
    await follow_newest(client, releases, name)


async def retry_untrusted(write: Callable[[], Awaitable[None]], *, pause: float = 0.2, attempts: int = 150) -> None:
    """Repeat a write until kube-apiserver trusts the webhooks. Raises its `ServerFailure` after the last attempt.

    The manager sets their caBundle just after they were applied, and kube-apiserver reads it through a watch of its
    own: for a moment it calls them without, and refuses the write.
    """
    for attempt in range(1, attempts + 1):
        try:
            await write()
        except ServerFailure as error:
            if "failed calling webhook" not in str(error) or attempt == attempts:
                raise
            await asyncio.sleep(pause)
        else:
            return


async def _remove_webhooks(client: Client) -> None:
    """They fail closed, as do runtime hooks, and those of an earlier run point to an address where nothing answers."""
    webhooks = [(resource, tree["metadata"]["name"]) for resource, tree in manifests.webhook_configurations()]
    for resource, name in [*webhooks, (ExtensionConfig.resource, RUNTIME_EXTENSION)]:
        with suppress(NotFound):
            await client.delete(resource, name)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port
