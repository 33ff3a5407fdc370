"""etcd-backup-restore as a container in this process: the agent of an etcd, or the copy at a destination."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias, runtime_checkable

import msgspec

from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.names import AGENT_PORT
from espalier.api.trees import json_trees
from espalier.cli.local.environment.seed_programs.command_line import CommandLine, InvalidCommandLine
from espalier.cli.local.environment.seed_programs.etcd import PodGuard, disk_of
from espalier.etcd.client import Client
from espalier.etcdbackup.agent.backups import Settings as BackupSettings
from espalier.etcdbackup.agent.http import PROBE_HOLD, becomes_ready
from espalier.etcdbackup.election import agent as agents
from espalier.etcdbackup.election import copier as copiers
from espalier.etcdbackup.running.agent import AgentRun, OtherEpoch
from espalier.etcdbackup.running.copier import CopierRun, CopyParts
from espalier.etcdbackup.running.parts import Parts
from espalier.etcdbackup.snapshotter.collection import Retention
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.etcdbackup.stores.store import Store
from espalier.shoots.secrets.persisted import Data
from espalier.simulator.etcd.reaching import ContainerTransport
from espalier.simulator.pods.runtimes.in_process import Container

INSIDE_TIMEOUT = 5.0
"""Timeout in seconds of the agent's requests to its etcd."""
LARGEST_BODY = 1 << 16
_CREDENTIALS = "_APPLICATION_CREDENTIALS"


@dataclass(frozen=True)
class StoreConfig:
    """The configuration of an agent's store."""

    url: str
    endpoint: str
    credentials: Mapping[str, bytes]
    """Files by name."""


OpenStore: TypeAlias = Callable[[StoreConfig], Store]
"""Opens a store. Raises `ValueError` if that is impossible."""


@dataclass(frozen=True)
class Agents:
    """Creates the programs of agents."""

    open_store: OpenStore
    timing: Timing = field(default_factory=Timing)
    backups: BackupSettings = field(default_factory=lambda: BackupSettings(Schedule(), Retention()))

    async def run(self, container: Container) -> int:
        """Run an agent or a copy, depending on the command."""
        command_line = CommandLine.of(container.arguments)
        running: AgentRun | CopierRun
        match command_line.positional:
            case [_, _, "run", store]:
                running = self._agent(container, command_line, store)
            case [_, _, "copy", source, target]:
                running = self._copier(container, command_line, source, target)
            case words:
                raise InvalidCommandLine(f"found {' '.join(words)!r}, allowed is `espalier etcd-agent run` or `copy`")

        async def answers(path: str) -> int:
            if path != "/healthz":
                return 404
            await becomes_ready(lambda: running.ready, PROBE_HOLD)
            return 200 if running.ready else 503

        container.listen(command_line.port("listen", AGENT_PORT), AgentEndpoint(running), answers=answers)
        await running.run()

    def _agent(self, container: Container, command_line: CommandLine, store: str) -> AgentRun:
        if command_line.is_set("member-clients"):
            raise InvalidCommandLine(
                "--member-clients: etcds with three members are not simulated; only real control planes have them"
            )
        guard = PodGuard(container)
        etcd = Client(ContainerTransport(guard.inside, container.life), timeout=INSIDE_TIMEOUT, rng=container.random)
        opened = self._open(container, store, command_line.text("store-endpoint", ""))
        parts = Parts(opened, guard, disk_of(container).data, etcd, self.backups)
        settings = agents.Settings(
            command_line.number("epoch"),
            command_line.text("cluster"),
            self.timing,
            founding=command_line.is_set("founding"),
        )
        return AgentRun(settings, parts, container.clock, container.random)

    def _copier(self, container: Container, command_line: CommandLine, source: str, target: str) -> CopierRun:
        settings = copiers.Settings(
            command_line.number("epoch"), command_line.number("source-epoch"), command_line.text("cluster"), self.timing
        )
        parts = CopyParts(
            self._open(container, source, command_line.text("source-endpoint", ""), "SOURCE_"),
            self._open(container, target, command_line.text("endpoint", "")),
        )
        return CopierRun(settings, parts, container.clock, container.random)

    def _open(self, container: Container, url: str, endpoint: str, prefix: str = "") -> Store:
        folder = next(
            (
                value
                for name, value in container.environment.items()
                if name.endswith(_CREDENTIALS) and name.startswith("SOURCE_") is bool(prefix)
            ),
            "",
        )
        return self.open_store(StoreConfig(url, endpoint, dict(container.volumes[folder]) if folder else {}))


class CallRefused(Exception):
    """An agent refuses a request; the message says why."""


@runtime_checkable
class AgentCalls(Protocol):
    """The endpoint of an agent."""

    async def call(self, path: str, body: bytes, files: Data | None) -> bytes:
        """The answer of `copyop/initiate` or `copyop/status`, with the files of the members' Secret. Raises
        `CallRefused`, `Unreachable`."""
        ...


class AgentEndpoint:
    """Answers of an agent in a migration."""

    def __init__(self, running: AgentRun | CopierRun) -> None:
        self._running = running

    async def call(self, path: str, body: bytes, _files: Data | None) -> bytes:
        """The answer of `copyop/initiate`, `copyop/status` or `backup/status`. Raises `CallRefused`."""
        if path.strip("/") == "backup/status" and isinstance(self._running, AgentRun):
            return msgspec.json.encode(self._running.backup_status())
        return msgspec.json.encode(await self._answer(path.strip("/"), body))

    async def _answer(self, path: str, body: bytes) -> CopyOperationStatus:
        running = self._running
        if path == "copyop/status":
            return running.status()
        if path != "copyop/initiate" or not isinstance(running, AgentRun):
            raise CallRefused(f"404 {path}: an agent serves copyop/initiate and copyop/status, a copy only the latter")
        if len(body) > LARGEST_BODY:
            raise CallRefused(f"413 {path}: found {len(body)} bytes, allowed are {LARGEST_BODY}")
        try:
            return await running.initiate(json_trees.decode(body, InitiateCopyOperation))
        except (msgspec.MsgspecError, OtherEpoch) as error:
            raise CallRefused(f"{path}: {error}") from error
