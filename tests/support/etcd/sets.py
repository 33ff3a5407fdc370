"""An etcd with three members as processes: guards, agents and real etcds that share a store and an epoch."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import yaml

from espalier.api.etcd.timing import Timing
from espalier.assets.component import Component
from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.etcd.results import Member
from espalier.kube.connection.tls import client_context
from espalier.shoots.secrets import peers
from espalier.shoots.secrets.peers import client_secret
from espalier.shoots.secrets.persisted import Data
from tests.support.etcd.owners import QUICK, Programs, Seat, Seats
from tests.support.etcd.peer_secrets import PeerSecrets
from tests.support.etcd.real_etcd import FAST, built
from tests.support.servers.ports import free_ports
from tests.support.waiting import eventually

SIZE = 3


@dataclass
class MemberOfSet(Seat):
    """One member of a set: guard, etcd, agent."""

    name: str = ""
    peers: dict[str, int] = field(default_factory=dict)
    """The ports for peers of all members."""
    clients: dict[str, int] = field(default_factory=dict)
    """The ports of all guards."""
    agents: dict[str, int] = field(default_factory=dict)
    """The ports of all agents."""
    certificates: Data | None = None
    """The files with which members know each other; None: without TLS."""
    client: Data | None = None
    """Those of their client, kube-apiserver; None: clients need no certificate."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.port = self.clients[self.name]
        scheme, security = "http", dict[str, dict[str, object]]()
        if self.certificates is not None:
            self.mount(self.certificates)
            files = {"cert-file": peers.CERTIFICATE, "key-file": peers.KEY, "trusted-ca-file": peers.TRUSTED}
            paths = {setting: str(self.run / name) for setting, name in files.items()}
            required = {"client-cert-auth": True, "skip-client-san-verification": True}
            scheme, security = "https", {"peer-transport-security": {**paths, **required}}
        listens = [f"unix://{self.run}/etcd.sock"]
        if self.client is not None:
            self.mount_client(self.client)
            listens.append(f"unixs://{self.run}/clients.sock")
            clients = {**security["peer-transport-security"], "trusted-ca-file": str(self.run / peers.CLIENTS)}
            security["client-transport-security"] = clients
        (self.run / "base.yaml").write_text(
            yaml.dump(
                {
                    "listen-client-urls": ",".join(listens),
                    "listen-peer-urls": f"{scheme}://127.0.0.1:{self.peers[self.name]}",
                    **security,
                    "unsafe-no-fsync": True,
                    **{name: int(value) if value.isdigit() else value for name, value in FAST.items()},
                    "heartbeat-interval": 30,
                    "election-timeout": 300,
                }
            )
        )

    def etcd_command(self) -> list[str]:
        """See `Seat`."""
        return [*self.programs.command(self.run, self.data)[:1], f"--config-file={self.run}/etcd.yaml"]

    def member_flags(self) -> list[str]:
        """See `Seat`."""
        origin = "http://127.0.0.1" if self.certificates is None else "https://localhost"
        urls = {name: f"{origin}:{port}" for name, port in self.peers.items()}
        files = {"--server-cert": peers.CERTIFICATE, "--server-key": peers.KEY, "--client-ca": peers.TRUSTED}
        files = {flag: str(self.run / name) for flag, name in files.items()} if self.certificates is not None else {}
        origin_of_clients = "http://127.0.0.1" if self.client is None else "https://localhost"
        clients = ",".join(f"{name}={origin_of_clients}:{port}" for name, port in self.clients.items())
        return [
            *("--name", self.name),
            *("--initial-cluster", ",".join(f"{name}={url}" for name, url in urls.items())),
            *("--initial-cluster-token", f"etcd-main-{self.epoch}"),
            *("--initial-advertise-peer-urls", urls[self.name]),
            *("--member-clients", clients),
            *("--member-agents", ",".join(f"{name}={origin}:{port}" for name, port in self.agents.items())),
            *(word for pair in files.items() for word in pair),
            *("--member-config", f"{self.run}/etcd.yaml", "--etcd-config", f"{self.run}/base.yaml"),
        ]

    def mount(self, certificates: Data) -> None:
        """Have its etcd start with these files."""
        self.certificates = certificates
        for name, content in certificates.items():
            (self.run / name).write_bytes(content)

    def mount_client(self, client: Data) -> None:
        """Have its client present this certificate."""
        self.client = client
        (self.run / "client").mkdir(exist_ok=True)
        for name, content in client.items():
            (self.run / "client" / name).write_bytes(content)

    @property
    def url(self) -> str:
        """See `Seat`."""
        return super().url if self.client is None else f"https://localhost:{self.port}"

    @property
    def tls(self) -> TlsFiles | None:
        """See `Seat`."""
        if self.client is None:
            return None
        folder = self.run / "client"
        return TlsFiles(folder / peers.TRUSTED, folder / peers.CERTIFICATE, folder / peers.KEY)

    @property
    def guard_flags(self) -> list[str]:
        """See `Seat`."""
        return super().guard_flags if self.client is None else ["--etcd-socket", str(self.run / "clients.sock")]

    def tls_context(self) -> ssl.SSLContext | bool:
        """See `Seat`. The copy before it has no TLS here."""
        if self.certificates is None or not self.address.startswith("https"):
            return True
        files = self.certificates
        context = client_context(files[peers.TRUSTED], certificate=files[peers.CERTIFICATE], key=files[peers.KEY])
        context.check_hostname = False
        return context

    async def end(self) -> None:
        """Kill all of it."""
        await self.agent.kill()
        await self.guard.kill()
        await eventually(lambda: not _holds(self.peers[self.name]))

    async def lose(self) -> None:
        """Kill all of it, and delete its data."""
        await self.end()
        shutil.rmtree(self.data)


@dataclass
class EtcdSet:
    """The members of one epoch."""

    members: list[MemberOfSet]

    @property
    def epoch(self) -> int:
        """The epoch of all of them."""
        return self.members[0].epoch

    async def start(self) -> None:
        """Start all of them at once."""
        await asyncio.gather(*(member.start() for member in self.members))

    async def serves(self) -> None:
        """Wait until all members are ready and vote."""
        for member in self.members:
            await eventually(member.is_ready, told=self.logs)
        known = await self.known()
        assert not [member for member in known if member.is_learner]
        assert sorted(member.name for member in known) == sorted(member.name for member in self.members)

    async def ended(self) -> None:
        """Wait until no etcd runs."""
        await eventually(lambda: [member.etcd_pid() for member in self.members] == [None] * SIZE, told=self.logs)

    def client(self, *, timeout: float = 10) -> Client:
        """A client of all members, through their guards."""
        return connect(*(member.url for member in self.members), tls=self.members[0].tls, timeout=timeout)

    async def known(self) -> tuple[Member, ...]:
        """The members as they know each other."""
        async with self.client() as client:
            return await client.members()

    async def leader(self) -> MemberOfSet:
        """The member that leads."""

        async def leads() -> MemberOfSet | None:
            for member in self.members:
                with contextlib.suppress(EtcdError):
                    async with connect(member.etcd_url, timeout=1) as client:
                        if (await client.status()).leads:
                            return member
            return None

        leading: MemberOfSet | None = None

        async def is_found() -> bool:
            nonlocal leading
            leading = await leads()
            return leading is not None

        await eventually(is_found, told=self.logs)
        assert leading is not None
        return leading

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"=== {member.name}\n{member.logs()}" for member in self.members)


class Sets(Seats):
    """A cluster with three members that moves between seeds of this machine."""

    def __init__(self, folder: Path, programs: Programs, timing: Timing) -> None:
        super().__init__(folder, programs, timing)
        self._epochs = 0

    def set(self, secrets: PeerSecrets | None = None) -> EtcdSet:
        """The members of the next epoch, on a seed of their own, with certificates of these Secrets."""
        if secrets is None:
            secrets = PeerSecrets(now=datetime.now(UTC))
            secrets.start()
        certificates, client = secrets.secrets[secrets.wanted], secrets.secrets[client_secret(secrets.wanted)]
        self._epochs += 1
        epoch = self._epochs
        names = [f"etcd-main-{number}" for number in range(SIZE)]
        ports = free_ports(3 * SIZE)
        peers, clients, agents = (dict(zip(names, ports[part::3], strict=True)) for part in range(3))
        home = self._folder / f"seed-{epoch}"
        home.mkdir()
        members = [
            MemberOfSet(
                epoch,
                f"file://{self._folder}/store-{epoch}",
                home / name,
                self._programs,
                self._timing,
                epoch == 1,
                name=name,
                peers=peers,
                clients=clients,
                agents=agents,
                agent_port=agents[name],
                certificates=certificates,
                client=client,
            )
            for name in names
        ]
        self._all += members
        return EtcdSet(members)

    async def set_founded(self) -> EtcdSet:
        """The first epoch, whose members serve, and which has backups."""
        source = self.set()
        await source.start()
        await self.set_begun(source)
        leader = await source.leader()
        await eventually(lambda: leader.ask("POST", "/snapshot/delta"), lambda answer: answer[0] == 200)
        return source

    async def set_taken_over(self, to: EtcdSet) -> None:
        """Copy, then have the next epoch serve."""
        await self.set_copied(to)
        await to.start()
        await self.set_begun(to)

    async def set_copied(self, to: EtcdSet) -> None:
        """Have the copy of the next epoch end."""
        copy = await self.copy(to.members[0])
        await eventually(to.members[0].is_ready, within=60, told=to.logs)
        await copy.kill()

    async def set_begun(self, members: EtcdSet) -> None:
        """Witness what it serves, from the first member on."""
        for member in members.members:
            self.witnesses.begin(member)
        await members.serves()
        wanted = self.witnesses.count(members.epoch) + 50
        await eventually(lambda: self.witnesses.count(members.epoch) >= wanted, told=members.logs)


@asynccontextmanager
async def sets(folder: Path, component: Component, timing: Timing = QUICK) -> AsyncIterator[Sets]:
    """Seeds, until the context is left; then their witnesses testify."""
    assert built(component) is not None
    made = Sets(folder, Programs(component), timing)
    try:
        yield made
    finally:
        await made.close()
    made.witnesses.check()


def _holds(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
