"""Agents of an election and their guards as processes: started, killed, frozen and cut off by tests.

An etcd of one seed is a guard, which is the parent of etcd (real, or ours for trying), and an agent. All die with the
test.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import ssl
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from espalier.api.etcd.timing import Timing
from espalier.assets.component import Component
from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import EtcdError
from espalier.realnodes.management.processes import killed_with_parent
from tests.support.etcd.real_etcd import FAST, built
from tests.support.etcd.restored_etcd import PEER
from tests.support.waiting import eventually

PATIENCE = 300.0
MOVED_CLOCK = str(Path(__file__).parents[1] / "environments" / "moved_clock.py")
CLUSTER = "shoot--team--garden/3f1c"
QUICK = Timing(
    poll_period=0.4,
    store_timeout=0.4,
    validity=1.5,
    serving_grace=0.2,
    progress_period=0.5,
    progress_timeout=8,
    snapshot_timeout=15,
    copy_timeout=40,
)
"""As short as a busy machine allows."""


def espalier(clock: Path | None) -> list[str]:
    """The arguments for Python; with a clock, the program's own is off by what stands in that file."""
    return ["-m", "espalier.cli"] if clock is None else [MOVED_CLOCK, str(clock)]


class Programs:
    """Which etcd is guarded."""

    def __init__(self, component: Component | None) -> None:
        self._component = component

    def command(self, socket: Path, data: Path) -> list[str]:
        """Its command line."""
        if self._component is None:
            return [
                sys.executable,
                "-m",
                "espalier.simulator.etcd",
                "--data-dir",
                str(data),
                "--listen",
                f"unix://{socket}",
            ]
        folder = built(self._component)
        assert folder is not None
        flags = {
            "name": "default",
            "data-dir": str(data),
            "listen-client-urls": f"unix://{socket}",
            "advertise-client-urls": "http://localhost:2379",
            "listen-peer-urls": PEER,
            "initial-advertise-peer-urls": PEER,
            "initial-cluster": f"default={PEER}",
            "unsafe-no-fsync": "true",
            **FAST,
        }
        return [str(folder / "etcd"), *(f"--{name}={value}" for name, value in flags.items())]


@dataclass
class Process:
    """A process that says in its first line where it listens."""

    arguments: Sequence[str]
    log: Path
    folder: Path | None = None
    """Where it runs."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Beside that of the tests."""
    process: asyncio.subprocess.Process | None = None

    async def start(self) -> str:
        """The address at the end of its first line."""
        with self.log.open("ab") as log:
            self.process = await asyncio.create_subprocess_exec(
                *killed_with_parent([sys.executable, "-u", *self.arguments]),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
                env={**os.environ, **self.environment}, cwd=self.folder, process_group=0,
            )  # fmt: skip
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            line = (await self.process.stdout.readline()).decode()
        match = re.search(r"(https?://)?[\w.]+:\d+$", line.strip())
        assert match, f"{line}{self.log.read_text()[-2000:]}"
        self._draining = asyncio.create_task(self._drain(self.process.stdout))
        return match[0]

    async def _drain(self, output: asyncio.StreamReader) -> None:
        with self.log.open("ab") as log:
            while line := await output.readline():
                log.write(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.process is not None and self.process.returncode is None:
            self.process.send_signal(number)

    async def kill(self) -> None:
        """SIGKILL; idempotent."""
        self.signal(signal.SIGKILL)
        if self.process is not None:
            await self.process.wait()
            await self._draining
            self.process = None

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            return await self.process.wait()


@dataclass
class Seat:
    """The etcd of one epoch: guard, etcd, agent."""

    epoch: int
    store: str
    folder: Path
    """Of its volume and its logs."""
    programs: Programs
    timing: Path
    founding: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of its agent: credentials of its store."""
    clock: Path | None = None
    """A file with the seconds by which the agent's clock is off."""
    port: int = 0
    agent_port: int = 0
    address: str = ""
    """Of the agent."""
    _guard: Process | None = field(default=None, repr=False)
    _agent: Process | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.run = Path(tempfile.mkdtemp(prefix="seat"))  # paths of sockets are short
        self.folder.mkdir(exist_ok=True)

    @property
    def data(self) -> Path:
        """etcd's data directory."""
        return self.folder / "data"

    @property
    def etcd_url(self) -> str:
        """etcd behind the proxy."""
        return f"unix://{self.run}/etcd.sock"

    @property
    def url(self) -> str:
        """etcd for clients."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def tls(self) -> TlsFiles | None:
        """The files of its clients; None without TLS."""
        return None

    @property
    def guard_flags(self) -> list[str]:
        """Flags of its guard: the socket of etcd to which clients are passed."""
        return ["--etcd-socket", str(self.run / "etcd.sock")]

    def etcd_command(self) -> list[str]:
        """The command line of etcd."""
        return self.programs.command(self.run / "etcd.sock", self.data)

    def member_flags(self) -> list[str]:
        """The flags of the agent about its etcd's members."""
        return ["--initial-cluster", f"default={PEER}", "--initial-advertise-peer-urls", PEER]

    async def start_guard(self) -> None:
        """Start the guard, which starts nothing by itself. It keeps its port."""
        arguments = ["-m", "espalier.cli", "etcd-guard", "--listen", f"127.0.0.1:{self.port}"]
        arguments += [*self.guard_flags, "--control", str(self.run / "guard.sock")]
        arguments += ["--stop-timeout", "5s", "--", *self.etcd_command()]
        self._guard = Process(arguments, self.folder / "guard.log", self.run)
        self.port = int((await self._guard.start()).rpartition(":")[2])

    async def start_agent(self) -> None:
        """Start the agent."""
        arguments = [*espalier(self.clock), "etcd-agent", "run", self.store, "--endpoints", self.etcd_url]
        arguments += ["--listen", f"127.0.0.1:{self.agent_port}", "--epoch", str(self.epoch), "--cluster", CLUSTER]
        arguments += [
            "--timing",
            str(self.timing),
            "--data-dir",
            str(self.data),
            "--guard",
            str(self.run / "guard.sock"),
        ]
        arguments += self.member_flags()
        arguments += ["--delta-snapshot-period", "1s"] + (["--founding"] if self.founding else [])
        self._agent = Process(arguments, self.folder / "agent.log", environment=self.environment)
        self.address = await self._agent.start()

    async def start(self) -> None:
        """Start both."""
        await self.start_guard()
        await self.start_agent()

    def move_clock(self, seconds: float) -> None:
        """Have the agent's clock off by so much: that of one which is started later, too."""
        self.clock = self.folder / "clock"
        new = self.folder / "clock.new"
        new.write_text(str(seconds))
        new.replace(self.clock)  # at once: it is read all the time

    async def serves(self) -> None:
        """Wait until its probe says so."""
        await eventually(self.is_ready, told=self.logs)

    async def is_ready(self) -> bool:
        """The answer of the readiness probe."""
        return (await self.ask("GET", "/healthz"))[0] == 200

    def tls_context(self) -> ssl.SSLContext | bool:
        """How its agent is called; True without TLS."""
        return True

    async def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and answer; 0 where nobody answers."""
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(2)) as session,
                session.request(method, self.address + path, json=body, ssl=self.tls_context()) as answer,
            ):
                return answer.status, msgspec.json.decode(
                    await answer.read()
                ) if answer.status < 300 else await answer.text()
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, None

    async def initiated(self) -> None:
        """Call copyop/initiate until it is `Ready`."""

        async def is_ready() -> bool:
            _, answer = await self.ask("POST", "/copyop/initiate", {"epoch": self.epoch})
            return answer is not None and answer.get("copyOperation", {}).get("status") in ("Ready", "Done")

        await eventually(is_ready, told=self.logs)

    @property
    def agent(self) -> Process:
        assert self._agent is not None
        return self._agent

    @property
    def guard(self) -> Process:
        assert self._guard is not None
        return self._guard

    def etcd_pid(self) -> int | None:
        """The process whose parent the guard is."""
        if self.guard.process is None:
            return None
        with suppress(OSError, IndexError, ValueError):
            pid = self.guard.process.pid
            return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return None

    def kill_etcd(self) -> None:
        """SIGKILL of etcd."""
        if (pid := self.etcd_pid()) is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def freeze(self, *, etcd: bool = True) -> Callable[[], None]:
        """SIGSTOP of agent, guard and etcd; what is returned thaws them, in the order of most harm."""
        pid = self.etcd_pid() if etcd else None
        for process in (self.agent, self.guard):
            process.signal(signal.SIGSTOP)
        if pid is not None:
            os.kill(pid, signal.SIGSTOP)

        def thaw() -> None:
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
            for process in (self.guard, self.agent):
                process.signal(signal.SIGCONT)

        return thaw

    def logs(self) -> str:
        """The ends of all logs."""
        return "\n".join(f"--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob("*.log")))

    async def close(self) -> None:
        """End all of it."""
        pid = self.etcd_pid() if self._guard is not None else None
        for process in (self._agent, self._guard):
            if process is not None:
                await process.kill()
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        shutil.rmtree(self.run, ignore_errors=True)


@dataclass
class Witnesses:
    """The observations of clients at all seeds, by epoch, on one clock."""

    acknowledged: dict[bytes, int] = field(default_factory=dict)
    served: list[tuple[float, float, int, str]] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def begin(self, seat: Seat) -> None:
        """Two writers, two readers and a watch at a seed."""
        for name in ("one", "two"):
            self._tasks.append(asyncio.create_task(self._write(seat, name)))
            self._tasks.append(asyncio.create_task(self._read(seat)))
        self._tasks.append(asyncio.create_task(self._watch(seat)))

    async def end(self) -> None:
        """Let them go."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def check(self) -> None:
        """No answer of an epoch that was asked for after a later one had answered, or came after it."""
        first: dict[int, float] = {}
        for _, ended, epoch, _what in self.served:
            first[epoch] = min(first.get(epoch, ended), ended)
        for began, ended, epoch, what in self.served:
            for later, at in first.items():
                late = f"{what} of epoch {epoch} from {began} to {ended}, and epoch {later} answered at {at}"
                assert later <= epoch or ended <= at, late

    def count(self, epoch: int) -> int:
        """Answers of an epoch."""
        return sum(of == epoch for *_, of, _ in self.served)

    async def more(self, seat: Seat, number: int) -> None:
        """Wait until a seat has answered so often from now on."""
        wanted = self.count(seat.epoch) + number
        await eventually(lambda: self.count(seat.epoch) >= wanted, told=seat.logs)

    def _saw(self, began: float, seat: Seat, what: str) -> None:
        self.served.append((began, time.monotonic(), seat.epoch, what))

    async def _write(self, seat: Seat, name: str) -> None:
        number = 0
        async with connect(seat.url, tls=seat.tls, timeout=1) as client:
            while True:
                number += 1
                key, began = b"/registry/%d/%s/%d" % (seat.epoch, name.encode(), number), time.monotonic()
                with suppress(EtcdError):
                    await client.put(key, b"%d" % number)
                    self.acknowledged[key] = seat.epoch
                    self._saw(began, seat, "a write")
                await asyncio.sleep(0.02)

    async def _read(self, seat: Seat) -> None:
        async with connect(seat.url, tls=seat.tls, timeout=1) as client:
            while True:
                began = time.monotonic()
                with suppress(EtcdError):
                    await client.get(b"/registry/anything")
                    self._saw(began, seat, "a read")
                await asyncio.sleep(0.03)

    async def _watch(self, seat: Seat) -> None:
        async with connect(seat.url, tls=seat.tls, timeout=1) as client:
            while True:
                with suppress(EtcdError):
                    async with client.watch(b"\0", b"\0") as watch:
                        began = time.monotonic()
                        async for changes in watch:
                            if changes.events:
                                self._saw(began, seat, "a change")
                await asyncio.sleep(0.2)


class Seats:
    """A cluster that moves between seeds of this machine."""

    def __init__(self, folder: Path, programs: Programs, timing: Timing) -> None:
        self.witnesses = Witnesses()
        self._folder = folder
        self._programs = programs
        self._timing = folder / "timing.json"
        self._timing.write_bytes(msgspec.json.encode(timing))
        self._all: list[Seat] = []
        self._copies: list[Process] = []

    def seat(self, store: str = "", environment: Mapping[str, str] | None = None) -> Seat:
        """The etcd of the next epoch, on a seed of its own. `environment`: of its agent."""
        epoch = len(self._all) + 1
        url = store or f"file://{self._folder}/store-{epoch}"
        seat = Seat(
            epoch, url, self._folder / f"seed-{epoch}", self._programs, self._timing, epoch == 1, environment or {}
        )
        self._all.append(seat)
        return seat

    async def founded(self, store: str = "", environment: Mapping[str, str] | None = None) -> Seat:
        """The first epoch, which serves."""
        return await self.begun(self.seat(store, environment))

    async def begun(self, seat: Seat) -> Seat:
        """Start it; it serves, and takes snapshots."""
        await seat.start()
        await seat.serves()
        self.witnesses.begin(seat)
        await eventually(lambda: self.witnesses.count(1) > 50, told=seat.logs)
        await eventually(lambda: seat.ask("POST", "/snapshot/delta"), lambda answer: answer[0] == 200)
        return seat

    async def copy(self, to: Seat) -> Process:
        """Start the copy."""
        source = next(seat for seat in self._all if seat.epoch == to.epoch - 1)
        arguments = [*espalier(to.clock), "etcd-agent", "copy", source.store, to.store, "--epoch", str(to.epoch)]
        arguments += ["--source-epoch", str(source.epoch), "--cluster", CLUSTER, "--timing", str(self._timing)]
        process = Process([*arguments, "--listen", "127.0.0.1:0"], to.folder / "copy.log", environment={
            **to.environment, **{f"SOURCE_{name}": value for name, value in source.environment.items()},
        })  # fmt: skip
        self._copies.append(process)
        to.address = await process.start()
        return process

    async def taken_over(self, to: Seat) -> None:
        """Copy, then serve."""
        copy = await self.copy(to)
        await eventually(to.is_ready, told=to.logs)
        await copy.kill()
        await to.start()
        self.witnesses.begin(to)
        await to.serves()
        await eventually(lambda: self.witnesses.count(to.epoch) > 50, told=to.logs)

    async def missing(self, at: Seat) -> list[bytes]:
        """Keys that an earlier epoch acknowledged and that are not there."""
        async with connect(at.etcd_url) as client:
            earlier = [key for key, epoch in list(self.witnesses.acknowledged.items()) if epoch < at.epoch]
            return [key for key in earlier if await client.get(key) is None]

    async def close(self) -> None:
        await self.witnesses.end()
        for process in self._copies:
            await process.kill()
        for seat in self._all:
            await seat.close()


@asynccontextmanager
async def seats(folder: Path, component: Component | None = None, timing: Timing = QUICK) -> AsyncIterator[Seats]:
    """Seeds, until the context is left; then their witnesses testify."""
    made = Seats(folder, Programs(component), timing)
    try:
        yield made
    finally:
        await made.close()
    made.witnesses.check()


async def revision(client: Client) -> int:
    """etcd's."""
    with contextlib.suppress(EtcdError):
        return (await client.status()).header.revision
    return 0
