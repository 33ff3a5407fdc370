"""Processes that outlive this one: identified by PID and start time, so that a reused PID does not match."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

_PROC = Path("/proc")
_STAT_PARENT = 1
_STAT_START = 19
"""Positions in /proc/PID/stat after the name in brackets (proc(5): ppid and starttime)."""


class Process(msgspec.Struct, frozen=True):
    """A process of this machine. `started` is its start time in clock ticks since `boot`, the machine's boot id."""

    pid: int
    started: int
    boot: str

    @property
    def alive(self) -> bool:
        """True if the process runs; a zombie does not."""
        return self.boot == boot_id() and _stat(self.pid)[1:] == (self.started, True)


def boot_id() -> str:
    """The boot id of the machine."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def identify(pid: int) -> Process | None:
    """The process with this PID now, None when there is none."""
    _, started, runs = _stat(pid)
    return Process(pid, started, boot_id()) if runs else None


def children(pid: int) -> list[int]:
    """The PIDs of a process's children."""
    return [other for other in running() if _stat(other)[0] == pid]


def running() -> Iterator[int]:
    """All PIDs."""
    for entry in os.listdir(_PROC):
        if entry.isdecimal():
            yield int(entry)


def stop(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal, unless the PID was reused."""
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            if process.alive:
                signal.pidfd_send_signal(descriptor, number)
        finally:
            os.close(descriptor)


async def ended(process: Process) -> None:
    """Return when the process has ended. It need not be our child."""
    try:
        descriptor = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    exited = asyncio.Event()
    loop.add_reader(descriptor, exited.set)
    try:
        if process.alive:
            await exited.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


def _stat(pid: int) -> tuple[int, int, bool]:
    """Parent, start time, and whether it runs."""
    try:
        text = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0, 0, False
    fields = text.rpartition(")")[2].split()
    return int(fields[_STAT_PARENT]), int(fields[_STAT_START]), fields[0] not in "ZX"
