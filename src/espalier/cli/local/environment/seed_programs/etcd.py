"""etcd as a container in this process, behind its guard. Its data are in its pod's volume."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from typing import Any

from espalier.cli.local.environment.seed_programs.client_tls import ClientPort, Files
from espalier.cli.local.environment.seed_programs.command_line import CommandLine
from espalier.etcd.transport import Transport
from espalier.etcdbackup.running.data.memory import MemoryData
from espalier.etcdbackup.running.parts import NotStarted
from espalier.shoots.etcd import names
from espalier.shoots.secrets import peers
from espalier.simulator.etcd.guarded import MemoryGuard
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.pods.runtimes.life import ContainerEnded, Life
from espalier.simulator.pods.runtimes.pod_network import ConnectionRefused, Listener

DATA = "/var/etcd/data"
"""Mount path of the volume in both containers."""
CLIENTS = 2379
AGAIN = 0.5
"""Seconds until a missing guard is looked up again."""


class Disk:
    """The content of the volume: an etcd's data, and their origin."""

    def __init__(self, container: Container) -> None:
        self.guard = MemoryGuard(container.clock, container.random)
        self.data = MemoryData(self.guard)


def disk_of(container: Container) -> Disk:
    """The disk in a container's volume, empty if the volume is."""
    volume: MutableMapping[str, Any] = container.volumes[DATA]
    disk: Disk = volume.get("etcd") or Disk(container)
    volume["etcd"] = disk
    return disk


async def etcd(container: Container) -> int:
    """Run the guard; its agent decides when etcd runs, and until when clients are admitted."""
    guard = disk_of(container).guard
    container.life.at_end(guard.kill)
    command_line = CommandLine.of(container.arguments)
    guard.refusal = _client_port(container, command_line).refusal
    container.listen(command_line.port("listen", CLIENTS), guard)
    try:
        await asyncio.get_running_loop().create_future()
    finally:
        if not container.life.over:  # SIGTERM
            await guard.stop()
    return 0


def _client_port(container: Container, command_line: CommandLine) -> ClientPort:
    """The port as the guard's sockets say: etcd demands certificates on one of them."""
    if command_line.text("etcd-socket") != names.TLS_SOCKET:
        return ClientPort(None, takes_plain=True)
    files = container.volumes[names.PEER_PATH]
    server = Files(files[peers.CERTIFICATE], files[peers.CLIENTS])
    return ClientPort(server, takes_plain=command_line.is_set("plain-socket"))


class PodGuard:
    """The guard in the other container of the pod (`Guard` of the agent)."""

    def __init__(self, container: Container, port: int = CLIENTS) -> None:
        self._container = container
        self._port = port

    async def is_running(self) -> bool:
        """True if etcd runs."""
        try:
            return await self._find().guard.is_running()
        except ConnectionRefused:
            return False

    async def start(self) -> None:
        """Start etcd. Raises `NotStarted`."""
        pod = await self._reached()
        try:
            await pod.life.during(pod.guard.start())
        except ContainerEnded as over:
            raise NotStarted(str(over)) from over

    async def stop(self) -> None:
        """Stop etcd."""
        try:
            pod = self._find()
            await pod.life.during(pod.guard.stop())
        except (ConnectionRefused, ContainerEnded):
            return

    async def ended(self) -> None:
        """Return when etcd is not running."""
        try:
            pod = self._find()
            await pod.life.during(pod.guard.ended())
        except (ConnectionRefused, ContainerEnded):
            return

    async def open(self, until: float) -> None:
        """Admit clients until then."""
        try:
            pod = await self._reached()
            await pod.life.during(pod.guard.open(until))
        except ContainerEnded:
            return

    async def shut(self) -> float | None:
        """Admit nobody: without a guard nobody is admitted."""
        try:
            pod = self._find()
            return await pod.life.during(pod.guard.shut())
        except (ConnectionRefused, ContainerEnded):
            return None

    def inside(self) -> tuple[Inside, Life]:
        """The endpoint behind the proxy. Raises `ConnectionRefused`."""
        pod = self._find()
        return pod.inside, pod.life

    def _find(self) -> _Pod:
        listener = self._container.find("localhost", self._port)
        if not isinstance(listener.endpoint, MemoryGuard):
            raise ConnectionRefused(f"no etcd listens on port {self._port}")
        return _Pod(listener, listener.endpoint)

    async def _reached(self) -> _Pod:
        while True:
            try:
                return self._find()
            except ConnectionRefused:
                await asyncio.sleep(AGAIN)


class Inside:
    """The agent's connection to its etcd, without the proxy."""

    def __init__(self, guard: MemoryGuard) -> None:
        self._guard = guard

    def transport(self) -> Transport:
        """A connection without the proxy."""
        return self._guard.inside()

    def disconnect(self, transport: Transport) -> None:
        """See `EtcdEndpoint`: the agent is not a client of the proxy."""


class _Pod:
    def __init__(self, listener: Listener, guard: MemoryGuard) -> None:
        self.life = listener.life
        self.guard = guard
        self.inside = Inside(guard)
