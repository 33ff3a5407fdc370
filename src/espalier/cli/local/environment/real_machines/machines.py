"""Virtual machines of the simulated cloud as real nodes: exactly those in its inventory run."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import structlog

from espalier.api.cloud import AnyItem, VirtualMachine
from espalier.api.gardener.extensions.operating_system_config import BOOTSTRAP_KUBECONFIG, KUBELET_CONFIG
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.assets.component import numbers
from espalier.assets.node_base import PROBE_IMAGE
from espalier.cli.local.environment.garden.gardens import Garden, Settings, SimulatedSeed
from espalier.cli.local.environment.garden.migration_scenario import POD_ON
from espalier.cli.local.environment.real_machines.load_balancers import LoadBalancers
from espalier.cli.local.environment.real_machines.name_server import NameServer
from espalier.cli.local.environment.seed_processes.network import Target, TcpEndpoint
from espalier.cli.local.environment.seed_programs.assembly import API_SERVER, API_SERVER_PORT
from espalier.kube.errors import Unreachable
from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.bases import NodeBase
from espalier.realnodes.nspawn.node_files import Identity, node_files
from espalier.realnodes.nspawn.setup import remove_everything
from espalier.realnodes.nspawn.system import limits
from espalier.realnodes.nspawn.system.addresses import AddressRange
from espalier.realnodes.nspawn.system.commands import CommandFailed
from espalier.realnodes.nspawn.system.network import Bridge
from espalier.realnodes.nspawn.system.state import NodeRecord, State, node_id
from espalier.simulator.cloud.service import Cloud
from espalier.simulator.cloud.user_data import files_of
from espalier.simulator.pods.runtimes.pod_network import endpoint_of

B = TypeVar("B", bound=NodeBase)

BRIDGE = "esp-shoots"
ADDRESSES = "10.250.0.0/16"
"""The network of workers, as in the Infrastructure of a shoot; load balancers have its first addresses."""
FIRST_ADDRESS = "10.250.1.0"
"""The last address before those of machines."""

_log = structlog.get_logger("espalier.machines")


MOST_BEHIND = 3
"""Minor versions by which a kubelet may be older than its API server."""


def newest_base(bases: Iterable[B], version: str) -> B | None:
    """The newest of those whose kubelets may join a control plane of this version."""
    newest = numbers(version)
    oldest = (newest[0], newest[1] - MOST_BEHIND)
    fitting = [base for base in bases if oldest <= numbers(base.version) <= newest]
    return max(fitting, key=lambda base: numbers(base.version), default=None)


@dataclass(frozen=True)
class RealMachines:
    """Assets and folders of real nodes."""

    state: State
    bridge: Bridge
    base: NodeBase
    pods: str
    """The CIDR of all pods."""

    @classmethod
    @asynccontextmanager
    async def on_this_machine(cls, home: Path, base: NodeBase, pods: str) -> AsyncIterator[RealMachines]:
        """Machines with all state in a folder; nothing of them stays behind. Raises `RangeInUse` or `CommandFailed` if
        the bridge can't be created."""
        state = State(home)
        bridge = Bridge(state, AddressRange.parse(ADDRESSES), BRIDGE)
        await bridge.claim()
        try:
            await bridge.ensure()
            yield cls(state, bridge, base, pods)
        finally:
            await remove_everything(state)

    @property
    def containers(self) -> Sequence[Tree]:
        """The container of a pod that writes every second."""
        return _WRITER_CONTAINERS

    def silences(self) -> dict[str, float]:
        """The longest time in seconds in which such a pod wrote nothing, by the folder of its logs."""
        return silences(self.state)

    def settings(self, settings: Settings) -> Settings:
        """The settings of a garden with these machines."""
        return replace(settings, first_address=FIRST_ADDRESS)

    def of(self, garden: Garden) -> NodesOfCloud:
        """The machines of a garden's cloud."""

        def find(place: str) -> Target:
            try:
                seed, technical_id = garden.place_of(place)
            except Unreachable as error:
                raise ConnectionRefusedError(str(error)) from error
            if not isinstance(seed, SimulatedSeed) or seed.links.shoot.is_cut:
                raise ConnectionRefusedError(f"no route to {place}")
            listener = seed.cluster.listener(Key(technical_id, API_SERVER), API_SERVER_PORT)
            return endpoint_of(listener, TcpEndpoint), (listener.life, seed.links.shoot.life)

        balancers = LoadBalancers(garden.cloud, self.state, self.bridge, find)
        return NodesOfCloud(garden.cloud, self, balancers)


class NodesOfCloud:
    """The nodes of one cloud (`Machines`)."""

    joins_by_token = True

    def __init__(self, cloud: Cloud, made_of: RealMachines, balancers: LoadBalancers) -> None:
        self._made_of = made_of
        self._balancers = balancers
        self._changes: asyncio.Queue[tuple[VirtualMachine, bool]] = asyncio.Queue()
        self._booting: dict[str, asyncio.Task[None]] = {}
        cloud.observe(self._observed)

    async def run(self) -> None:
        """See `Machines`. Nodes keep running when this is cancelled."""
        async with AsyncExitStack() as stack:
            name_server = NameServer(self._balancers.resolve)
            stack.callback((await name_server.listen(str(self._made_of.bridge.range.bridge))).close)
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            tasks.create_task(self._balancers.run(), name="load balancers")
            while True:
                machine, is_there = await self._changes.get()
                if is_there:
                    self._booting[machine.id] = tasks.create_task(self._boot(machine), name=f"boot of {machine.name}")
                else:
                    tasks.create_task(self._take_away(machine), name=f"end of {machine.name}")

    def _observed(self, item: AnyItem, is_there: bool) -> None:
        if isinstance(item, VirtualMachine):
            self._changes.put_nowait((item, is_there))

    async def _boot(self, machine: VirtualMachine) -> None:
        """Start a node. One that can't start stays off, as machines in clouds do."""
        state, bridge, base = self._made_of.state, self._made_of.bridge, self._made_of.base
        uid = self._uid(machine)
        record = NodeRecord(node_id(uid), machine.name, "", uid, machine.network, machine.address, base.version)
        if problem := limits.shortage([*state.nodes(), record], limits.allowed_watchers()):
            _log.error("a machine can't start", machine=machine.name, error=problem)
            return
        state.write_node(record)
        identity = Identity(
            name=machine.name,
            address=machine.address,
            prefix_length=bridge.range.network.prefixlen,
            gateway=str(bridge.range.bridge),
            provider_id=f"cloud://{machine.id}",
            instance_id=uid,
        )
        told = cloud_config(machine.user_data)
        files = node_files(identity, bootstrap=told, pods=self._made_of.pods, image_names={})
        folder = state.folder(record.id)
        try:
            await container.prepare(folder, base, files)
            await container.switch_on(folder, hostname=machine.name, uid=uid, bridge=bridge.name)
        except (CommandFailed, OSError) as error:
            _log.error("a machine can't start", machine=machine.name, error=str(error))

    async def _take_away(self, machine: VirtualMachine) -> None:
        booting = self._booting.pop(machine.id, None)
        if booting is not None:
            booting.cancel()
            await asyncio.gather(booting, return_exceptions=True)
        id_ = node_id(self._uid(machine))
        try:
            await container.take_away(self._made_of.state.folder(id_))
            await asyncio.to_thread(self._made_of.state.forget_node, id_)
        except (CommandFailed, OSError) as error:
            _log.error("a machine can't be removed", machine=machine.name, error=str(error))

    def _uid(self, machine: VirtualMachine) -> str:
        """IDs are unique in one cloud only: other clouds on this machine have the same ones."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self._made_of.state.root}/{machine.id}"))


JOINED = "/var/lib/kubelet/pki/kubelet-client-current.pem"
"""The certificate that kubelet has once its request was approved and signed."""
JOINS_WITHIN = 300
"""Seconds for that."""
COMMANDS = (
    f"ln -s {BOOTSTRAP_KUBECONFIG} /etc/kubernetes/bootstrap-kubelet.conf",
    f"ln -s {KUBELET_CONFIG} /var/lib/kubelet/config.yaml",
    "systemctl start kubelet",
    f"timeout {JOINS_WITHIN} sh -c 'until [ -e {JOINED} ]; do sleep 0.2; done'",
)
"""Kubelet's unit has the paths of kubeadm; what comes after these commands, the pod network, asks the API server."""


def cloud_config(user_data: bytes) -> bytes:
    """The user data for cloud-init, which writes the files by which kubelet joins.

    A machine without a kubeconfig runs but does not join as a node.
    """
    files = files_of(user_data)
    written = [{"path": path, "content": content, "permissions": "0600"} for path, content in files.items()]
    commands = list(COMMANDS) if BOOTSTRAP_KUBECONFIG in files else []
    return b"#cloud-config\n" + json.dumps({"write_files": written, "runcmd": commands}).encode()


_WRITER_CONTAINERS: Sequence[Tree] = (
    {"name": "web", "image": PROBE_IMAGE, "args": ["serve", ":8080"]},
    {"name": "writer", "image": PROBE_IMAGE, "args": ["get", "http://localhost:8080", "1000000", "1s"]},
)
"""Of pods that write a line every second, and ask only themselves: they show if something interrupts a node."""
_LOGS = "var/log/pods"


def silences(state: State) -> dict[str, float]:
    """Seconds of the longest time between two lines, by the folder of each pod's logs.

    From the files on the nodes, with the moments that their container runtime gives: no API server is asked.
    """
    folders = (
        folder
        for node in state.nodes()
        for folder in (state.folder(node.id).root / _LOGS).glob(f"default_{POD_ON.format(node=node.name)}_*")
    )
    return {folder.name: _longest(sorted(_moments(folder / "writer"))) for folder in folders}


def _moments(folder: Path) -> Iterator[datetime]:
    for file in folder.glob("*.log*"):
        for line in file.read_text().splitlines():
            moment, stream, _ = line.split(maxsplit=2)
            if stream == "stdout":  # what fails is complained of elsewhere
                yield datetime.fromisoformat(moment)


def _longest(written: Sequence[datetime]) -> float:
    return max(((later - earlier).total_seconds() for earlier, later in pairwise(written)), default=float("inf"))
