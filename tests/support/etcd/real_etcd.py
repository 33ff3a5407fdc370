"""A real etcd as a process of this machine, which tests may kill, freeze and start again.

Found, never fetched: `make real-assets` builds it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.component import Component
from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import TlsFiles
from espalier.realnodes.management.processes import killed_with_parent
from tests.support.servers.ports import free_ports

START_SECONDS = 180.0
FAST = {
    # a member alone elects itself at once, and leases may have a single second
    "heartbeat-interval": "10",
    "election-timeout": "100",
    "log-level": "warn",
    "logger": "zap",
}


def built(component: Component) -> Path | None:
    """The folder of a component's programs, if this version was built."""
    home = component.home(assets_folder())
    return home if is_finished(home) else None


@dataclass
class RealEtcd:
    """One member in a folder of its own. Its sockets have the names `client:0` and `peer:0` there: etcd wants a port.

    `flags` are etcd's, without the dashes. Data survive a kill of the process; of the machine only with `durable`.
    """

    programs: Path
    folder: Path
    flags: Mapping[str, str] = field(default_factory=dict)
    durable: bool = False
    tls: TlsFiles | None = None
    """How clients connect; `flags` have the server's side."""

    def __post_init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def endpoint(self) -> str:
        """Where it listens for clients."""
        return f"{self._scheme}://{self.folder}/client:0"

    @property
    def _scheme(self) -> str:
        return "unixs" if self.tls else "unix"

    @property
    def data(self) -> Path:
        """Its data directory."""
        return self.folder / "data"

    @property
    def log(self) -> Path:
        """The file with its output."""
        return self.folder / "etcd.log"

    def client(self, *, timeout: float = 10.0) -> Client:
        """A client of it, to be closed."""
        return connect(self.endpoint, tls=self.tls, timeout=timeout)

    async def start(self) -> None:
        """Start it; returns when it serves. Raises `AssertionError` with its last messages if it doesn't."""
        flags = {
            "name": "default",
            "data-dir": str(self.data),
            "listen-client-urls": f"{self._scheme}://client:0",
            "advertise-client-urls": f"{self._scheme}://client:0",
            "listen-peer-urls": "unix://peer:0",
            "initial-advertise-peer-urls": "unix://peer:0",
            "initial-cluster": "default=unix://peer:0",
            **FAST,
            **self.flags,
        }
        if not self.durable:
            flags["unsafe-no-fsync"] = "true"
        for name in ("client:0", "peer:0"):
            (self.folder / name).unlink(missing_ok=True)
        arguments: list[str | Path] = [self.programs / "etcd"]
        arguments += [f"--{name}={value}" for name, value in flags.items()]
        before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *killed_with_parent(arguments),
                cwd=self.folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        async with self.client(timeout=START_SECONDS) as client:
            serving = asyncio.ensure_future(client.get(b"/is-it-there"))
            ended = asyncio.ensure_future(self._process.wait())
            try:
                await asyncio.wait((serving, ended), return_when=asyncio.FIRST_COMPLETED)
                if not serving.done():
                    raise AssertionError(f"etcd ended: {_reason(self.log.read_bytes()[before:])}")
                serving.result()
            finally:
                for task in (serving, ended):
                    task.cancel()
                await asyncio.gather(serving, ended, return_exceptions=True)

    async def stop(self) -> None:
        """Ask it to end, and wait for it; idempotent."""
        await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """End it at once, by SIGKILL; idempotent."""
        await self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Stop it in the middle of whatever it does (SIGSTOP), until `thaw`; returns when all of its threads stand."""
        os.kill(self._running.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._running.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self._running.pid, signal.SIGCONT)

    @property
    def _running(self) -> asyncio.subprocess.Process:
        assert self._process is not None, "it is not running"
        return self._process

    async def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, by)  # `send_signal` would take its exit code away from the loop's watcher
                    os.kill(process.pid, signal.SIGCONT)
            await process.wait()


def _reason(output: bytes) -> str:
    """The last messages of an etcd that ended. A panic's stacks come after them, and can be longer than all of them."""
    return output.decode(errors="replace").partition("\ngoroutine ")[0][-2000:]


@contextlib.asynccontextmanager
async def real_etcd(
    programs: Path,
    folder: Path,
    flags: Mapping[str, str] | None = None,
    *,
    durable: bool = False,
    tls: TlsFiles | None = None,
) -> AsyncIterator[RealEtcd]:
    """A running etcd that keeps everything in `folder` (ours alone, its path shorter than 90 characters)."""
    etcd = RealEtcd(programs, folder, flags or {}, durable, tls)
    try:
        await etcd.start()
        yield etcd
    finally:
        await etcd.kill()


@contextlib.asynccontextmanager
async def real_cluster(programs: Path, folder: Path, size: int = 3) -> AsyncIterator[list[RealEtcd]]:
    """Members of one cluster that runs, in folders of their own below `folder`."""
    peers = {f"m{number}": f"http://127.0.0.1:{port}" for number, port in enumerate(free_ports(size))}
    members = []
    for name, url in peers.items():
        own = folder / name
        own.mkdir()
        flags = {
            "name": name,
            "listen-peer-urls": url,
            "initial-advertise-peer-urls": url,
            "initial-cluster": ",".join(f"{each}={peer}" for each, peer in peers.items()),
            "election-timeout": "300",  # three on a busy machine need more patience with each other
            "heartbeat-interval": "30",
        }
        members.append(RealEtcd(programs, own, flags))
    try:
        await asyncio.gather(*(member.start() for member in members))
        yield members
    finally:
        await asyncio.gather(*(member.kill() for member in members))


def programs_of(component: Component) -> Path:
    """The programs of a component; the test is skipped without them."""
    programs = built(component)
    if programs is None:
        pytest.skip(f"{component.name} {component.version} was not built: run make real-assets")
    return programs
