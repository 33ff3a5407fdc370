"""Supervises child processes: starts them, waits until they are ready, restarts and stops them.

The kernel kills a child when its parent dies (Linux), so there are no orphans.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path

import msgspec
import structlog

from espalier.runtime.clock import Clock

_DIE_WITH_PARENT = """
import ctypes, os, signal, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG; it survives exec
if os.getppid() == int(sys.argv[1]):  # else the parent died before we could say so
    os.execv(sys.argv[2], sys.argv[2:])
"""

STATES = "processes.json"
"""The file in a supervisor's folder with the states of its programs, for other processes."""

START_SECONDS = 120.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
LOG_BYTES = 50 * 1024 * 1024
"""A larger log is rotated to `.log.1` when its program starts."""
_LAST_LINES = 20

_log = structlog.get_logger("espalier.processes")


class ProgramFailed(Exception):
    """A program did not start; the message holds the end of its log."""


class State(StrEnum):
    """State of a program."""

    STARTING = "Starting"
    RUNNING = "Running"
    WAITING = "WaitingToRestart"
    STOPPED = "Stopped"


@dataclass(frozen=True)
class Program:
    """The program to run. Arguments are visible to all users of the machine: no secrets in them.

    `is_ready` is polled after a start; without it a running program is ready.
    """

    name: str
    arguments: Sequence[str | Path]
    folder: Path
    is_ready: Callable[[], Awaitable[bool]] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """File of the program's output."""
        return self.folder / f"{self.name}.log"

    def last_words(self) -> str:
        """The end of the program's log."""
        with contextlib.suppress(FileNotFoundError):
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-_LAST_LINES:])
        return ""


class ProgramReport(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a program, for users and other processes."""

    name: str
    state: State
    since: datetime
    restarts: int = 0
    pid: int | None = None
    log: str = ""
    last_exit: int | None = None
    """Last end: its exit code, or minus the number of the signal that killed it."""


@dataclass(frozen=True)
class Backoff:
    """Pause before the next start, in seconds: longer each time, reset after a program ran for `forgets`."""

    first: float = 0.5
    most: float = 30.0
    forgets: float = 60.0

    def delay(self, failures: int) -> float:
        """The pause after this many consecutive failures, counted from 1."""
        return min(self.most, self.first * 2.0 ** min(failures - 1, 16))


def killed_with_parent(arguments: Sequence[str | Path]) -> list[str]:
    """The command for a program that the kernel kills when this process dies.

    An exec'ing launcher, because code between fork and exec (preexec_fn) may deadlock where threads run. What it binds
    the child to is the thread that starts it: start children from a thread that lives as long as they shall.
    """
    return [sys.executable, "-I", "-S", "-c", _DIE_WITH_PARENT, str(os.getpid()), *map(str, arguments)]


def read_states(folder: Path) -> list[ProgramReport]:
    """The states of the programs of the supervisor in `folder`; empty without a valid file.

    They are current only while that supervisor's process runs.
    """
    try:
        return msgspec.json.decode((folder / STATES).read_bytes(), type=list[ProgramReport])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


class Supervisor:
    """Runs programs. Use as `async with supervised(folder, clock)`: leaving it stops them, the last started first."""

    def __init__(self, folder: Path, clock: Clock, *, backoff: Backoff = Backoff()) -> None:
        self.folder = folder
        self._clock = clock
        self._backoff = backoff
        self._keepers: list[_Keeper] = []
        self._subscribers: list[Callable[[ProgramReport], None]] = []

    def subscribe(self, changed: Callable[[ProgramReport], None]) -> None:
        """Subscribe to changes of programs' states."""
        self._subscribers.append(changed)

    @property
    def reports(self) -> list[ProgramReport]:
        """States of the programs, in the order of their start."""
        return [keeper.report for keeper in self._keepers]

    async def start(self, *programs: Program, patience: float = START_SECONDS) -> None:
        """Start programs side by side, and return when all are ready; from then on each is restarted when it ends.

        Raises `ProgramFailed` when one ends before it was ever ready, or is not ready after `patience` seconds; then
        none of these programs runs.
        """
        keepers = [_Keeper(program, self._clock, self._backoff, self._publish) for program in programs]
        self._keepers += keepers
        starts = [asyncio.create_task(keeper.start(patience)) for keeper in keepers]
        try:
            await asyncio.gather(*starts)
        except BaseException:
            for start, keeper in zip(starts, keepers, strict=True):
                start.cancel()
                await asyncio.gather(start, return_exceptions=True)
                await keeper.stop()
                self._keepers.remove(keeper)
            self._write_states()
            raise

    async def stop(self) -> None:
        """End all programs, the last started first. Their files stay."""
        for keeper in reversed(self._keepers):
            await keeper.stop()

    def _publish(self, report: ProgramReport) -> None:
        self._write_states()
        for changed in self._subscribers:
            changed(report)

    def _write_states(self) -> None:
        fresh = self.folder / f".{STATES}"
        fresh.write_bytes(msgspec.json.encode(self.reports))
        fresh.replace(self.folder / STATES)


@contextlib.asynccontextmanager
async def supervised(folder: Path, clock: Clock, *, backoff: Backoff = Backoff()) -> AsyncIterator[Supervisor]:
    """A supervisor whose programs end with the block."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    supervisor = Supervisor(folder, clock, backoff=backoff)
    try:
        yield supervisor
    finally:
        await supervisor.stop()


class _Keeper:
    """Keeps one program running."""

    def __init__(
        self, program: Program, clock: Clock, backoff: Backoff, changed: Callable[[ProgramReport], None]
    ) -> None:
        self._program = program
        self._clock = clock
        self._backoff = backoff
        self._changed = changed
        self._process: asyncio.subprocess.Process | None = None
        self._keeping: asyncio.Task[None] | None = None
        self.report = ProgramReport(program.name, State.STARTING, clock.now(), log=str(program.log))

    async def start(self, patience: float) -> None:
        """Start the program for the first time."""
        try:
            async with asyncio.timeout(patience):
                ready = await self._begin()
        except TimeoutError:
            raise ProgramFailed(self._failure(f"is not ready after {patience:g} s")) from None
        if not ready:
            raise ProgramFailed(self._failure(f"ended with exit code {self.report.last_exit}"))
        self._keeping = asyncio.create_task(self._keep(), name=f"keeper of {self._program.name}")

    async def stop(self) -> None:
        """Terminate the program, kill it after `STOP_SECONDS`, and return when it has ended."""
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        process = self._process
        if process is not None and process.returncode is None:
            try:
                process.terminate()
                async with asyncio.timeout(STOP_SECONDS):
                    await process.wait()
            except TimeoutError:
                _log.warning("killing a program that ignores SIGTERM", program=self._program.name)
            finally:
                if process.returncode is None:  # also on cancellation: no process is left
                    process.kill()
                    await process.wait()
        self._report_state(State.STOPPED, pid=None)

    async def _keep(self) -> None:
        failures, since = 0, self._clock.monotonic()
        while True:
            await self._ended()
            failures = 1 if self._clock.monotonic() - since > self._backoff.forgets else failures + 1
            pause = self._backoff.delay(failures)
            _log.warning(
                "restarting a program that exited",
                program=self._program.name,
                exit_code=self.report.last_exit,
                after_seconds=pause,
                log=str(self._program.log),
            )
            self._report_state(State.WAITING, pid=None, restarts=self.report.restarts + 1)
            await asyncio.sleep(pause)
            since = self._clock.monotonic()
            await self._begin()

    async def _begin(self) -> bool:
        """Start the program; returns True when it is ready, False when it ended."""
        self._process = await self._spawn()
        self._report_state(State.STARTING, pid=self._process.pid)
        ended = asyncio.create_task(self._ended())
        ready = asyncio.create_task(self._ready())
        try:
            await asyncio.wait([ended, ready], return_when=asyncio.FIRST_COMPLETED)
            if ended.done():
                return False
            ready.result()
        finally:
            ended.cancel()
            ready.cancel()
            await asyncio.gather(ended, ready, return_exceptions=True)
        self._report_state(State.RUNNING)
        return True

    async def _spawn(self) -> asyncio.subprocess.Process:
        program = self._program
        program.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if program.log.exists() and program.log.stat().st_size > LOG_BYTES:
            program.log.replace(program.log.with_suffix(".log.1"))
        with program.log.open("ab") as output:
            return await asyncio.create_subprocess_exec(
                *killed_with_parent(program.arguments),
                cwd=program.folder,
                env={**os.environ, **program.environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    async def _ended(self) -> None:
        assert self._process is not None  # noqa: S101 - it is set by every start
        code = await self._process.wait()
        self.report = msgspec.structs.replace(self.report, last_exit=code)

    async def _ready(self) -> None:
        """Poll until the program is ready: a program that does not serve yet can't be watched."""
        while self._program.is_ready is not None and not await self._program.is_ready():  # noqa: ASYNC110
            await asyncio.sleep(POLL_SECONDS)

    def _report_state(self, state: State, **facts: object) -> None:
        self.report = msgspec.structs.replace(self.report, state=state, since=self._clock.now(), **facts)
        self._changed(self.report)

    def _failure(self, problem: str) -> str:
        return f"{self._program.name} {problem}; the end of {self._program.log}:\n{self._program.last_words()}"
