"""A real etcd behind its guard, its agent, and the copy before it, as containers that are processes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp

from espalier.api.gardener.names import AGENT_PORT
from espalier.cli.backups.etcd_agent_calls import posted, session
from espalier.cli.local.environment.seed_processes.mounts import Mounts
from espalier.cli.local.environment.seed_processes.network import TcpEndpoint, forwarded, https_proxy, status_of
from espalier.cli.local.environment.seed_processes.process import HOST, run_process
from espalier.cli.local.environment.seed_programs.command_line import CommandLine, with_flags
from espalier.etcdbackup.snapshotter.schedule import Schedule
from espalier.kube.connection.tls import unverified_context
from espalier.realnodes.management.control_plane import held_port
from espalier.shoots.secrets.persisted import Data
from espalier.simulator.pods.runtimes.in_process import Container

ESPALIER = (sys.executable, "-u", "-m", "espalier.cli")
CLIENTS = 2379
_BUCKETS = "file:///"
_CONFIGURATION = "--config-file="
RUN, PEERS, PEER_PORT = "/run/etcd", "/var/etcd/peer", 2380
"""Of a member of three: the volume of both containers, its certificates, and its port for peers."""
MEMBER_FILE = f"{RUN}/etcd.conf.yaml"
"""The configuration of a member of three, which its agent writes."""
_PEER_FOLDER = "peer"
_BASE, _URLS = "etcd-config", ("member-clients", "member-agents")


@dataclass(frozen=True)
class EtcdProcesses:
    """Creates the programs of etcds and their agents in one seed."""

    home: Path
    etcd: Path
    """etcd's program."""
    buckets: Path
    """This seed's path to the folder of all buckets."""
    schedule: Schedule

    async def run_etcd(self, container: Container) -> int:
        """Run the guard, which runs etcd."""
        mounts = Mounts.of(container, self.home)
        (_, *words), etcd = _parted(container.arguments)
        flags = {"listen": f"{HOST}:0"}
        command = [*ESPALIER, *map(mounts.here, with_flags(words, flags)), "--", str(self.etcd)]
        variables: dict[str, str] = {}
        is_member = f"{_CONFIGURATION}{MEMBER_FILE}" in etcd
        if is_member:
            self._provide_certificates(container, mounts)
            variables["HTTPS_PROXY"] = await https_proxy(container)
            container.listen(PEER_PORT, TcpEndpoint(_peer_port(container)))
        for word in etcd[1:]:
            if is_member:  # its agent writes the file later
                command.append(mounts.here(word))
            elif word.startswith(_CONFIGURATION):
                text = Path(mounts.here(word.removeprefix(_CONFIGURATION))).read_text()
                command.append(f"{_CONFIGURATION}{mounts.write('etcd.yaml', mounts.here(text))}")
            else:
                command.append(word)
        port = CommandLine.of(container.arguments).port("listen", CLIENTS)
        return await run_process(
            container,
            command,
            variables=variables,
            listening=lambda real_port: container.listen(port, TcpEndpoint(real_port)),
        )

    async def run_agent(self, container: Container) -> int:
        """Run an agent or a copy, depending on the command."""
        mounts = Mounts.of(container, self.home)
        command_line = CommandLine.of(container.arguments)
        flags = {"listen": f"{HOST}:0"}
        if "run" in command_line.positional and "delta-snapshot-period" not in command_line.flags:
            flags |= {"delta-snapshot-period": f"{self.schedule.delta_period:g}s", "schedule": self.schedule.full}
        if _BASE in command_line.flags:
            flags[_BASE] = self._base_of_member(container, mounts, command_line.text(_BASE))
            for name in _URLS:
                flags[name] = await _reachable(container, command_line.text(name))
        command = [self._here(word, mounts) for word in with_flags(container.arguments[1:], flags)]
        variables = {name: mounts.here(value) for name, value in container.environment.items()}
        port = command_line.port("listen", AGENT_PORT)
        async with session() as http:

            def listening(real_port: int) -> None:
                tls = unverified_context() if "server-cert" in command_line.flags else None
                container.listen(port, Agent(real_port, http), answers=lambda path: status_of(real_port, path, tls))

            return await run_process(container, [*ESPALIER, *command], variables=variables, listening=listening)

    def _provide_certificates(self, container: Container, mounts: Mounts) -> None:
        """Copy the certificates into the volume that both containers have: etcd reads them for each connection."""
        folder = Path(mounts.here(RUN), _PEER_FOLDER)
        folder.mkdir(exist_ok=True)
        for name, content in container.volumes[PEERS].items():
            (folder / name).write_bytes(content)

    def _base_of_member(self, container: Container, mounts: Mounts, path: str) -> str:
        """The path of the configuration that members have in common, with what it is on this machine."""
        run = mounts.here(RUN)
        text = mounts.here(Path(mounts.here(path)).read_text()).replace(PEERS, f"{run}/{_PEER_FOLDER}")
        base = Path(run, "base.yaml")
        base.write_text(text.replace(f"0.0.0.0:{PEER_PORT}", f"{HOST}:{_peer_port(container)}"))
        return str(base)

    def _here(self, word: str, mounts: Mounts) -> str:
        if word.startswith(_BUCKETS):
            return f"file://{self.buckets}/{word.removeprefix(_BUCKETS)}"
        return mounts.here(word)


class Agent(TcpEndpoint):
    """The endpoint of an agent (`AgentCalls`)."""

    def __init__(self, port: int, http: aiohttp.ClientSession) -> None:
        super().__init__(port)
        self._http = http

    async def call(self, path: str, body: bytes, files: Data | None) -> bytes:
        """See `AgentCalls`."""
        place = f"{HOST}:{self.port}/{path.strip('/')}"
        return await posted(self._http, place, body, files, server_name="localhost")


async def _reachable(container: Container, urls: str) -> str:
    """URLs of members by their names, at ports of this machine that forward to them."""
    forwarded_urls = []
    for entry in urls.split(","):
        member, _, url = entry.partition("=")
        parts = urlsplit(url)
        port = await forwarded(container, parts.hostname or "", parts.port or 0)
        host = "localhost" if parts.scheme == "https" else HOST  # the name in certificates
        forwarded_urls.append(f"{member}={parts.scheme}://{host}:{port}")
    return ",".join(forwarded_urls)


def _peer_port(container: Container) -> int:
    """The port of this machine on which a pod's etcd listens for its peers: both containers know it by their volume."""
    volume = container.volumes[RUN]
    port: int | None = volume.get(_PEER_FOLDER)
    if port is None:
        with held_port() as port:
            volume[_PEER_FOLDER] = port
    return port


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    words = list(arguments)
    end = words.index("--")
    return words[:end], words[end + 1 :]
