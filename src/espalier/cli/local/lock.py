"""One process runs a local environment at a time: a lock file that the kernel releases however the process ends."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from espalier.cli.kit.connecting.home import naming
from espalier.cli.kit.failures import Failure
from espalier.realnodes.nspawn.system.processes import identify

_PROC = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """The process of the local environment, and the address of its API server (empty until it serves)."""

    pid: int
    url: str = ""
    started: int = 0
    boot: str = ""
    """The start time of the process in ticks: its ID may be reused. Unknown for a local environment of an earlier
    release, and without /proc."""


class Lock:
    """Held by the running local environment. The file names its holder; the kernel's lock shows whether it is still
    running."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    def announce(self, url: str) -> None:
        """Write process ID and address, for `status` and `down`."""
        os.ftruncate(self._descriptor, 0)
        with naming(self._path):
            os.pwrite(self._descriptor, json.dumps(asdict(_oneself(url))).encode(), 0)


@contextlib.contextmanager
def hold(path: Path) -> Iterator[Lock]:
    """Hold the lock. Raises `Failure` when another process has it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            running = holder(path)
            raise Failure(
                f"a local environment is already running in {path.parent} "
                f"(process {running.pid if running else 'unknown'}); "
                "stop it with `espalier down`, or set ESPALIER_HOME to another folder for a second one"
            ) from None
        lock = Lock(path, descriptor)
        lock.announce("")
        yield lock
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def holder(path: Path) -> Holder | None:
    """The holder of the lock; None if it is free."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        with contextlib.suppress(ValueError, TypeError):
            return Holder(**json.loads(os.pread(descriptor, 4096, 0)))
        return Holder(0)
    else:
        return None
    finally:
        os.close(descriptor)


def stop(path: Path, running: Holder) -> None:
    """Send SIGTERM to the process that holds the lock. Raises `Failure` if the file names another process, which is
    left alone.

    Anybody may hold a lock on the file while the process ID in it belongs to another program.
    """
    if not (_PROC / "self/stat").exists():  # no /proc: only the kernel's lock and the process ID are known
        with contextlib.suppress(ProcessLookupError):
            os.kill(running.pid, signal.SIGTERM)
        return
    try:
        descriptor = os.pidfd_open(running.pid)
    except ProcessLookupError:
        raise _invalid_lock(path, running, "no such process") from None
    try:
        # Checked while the descriptor refers to the process: its ID can't be reused in between.
        process = identify(running.pid)
        if running.started and (process is None or (process.started, process.boot) != (running.started, running.boot)):
            raise _invalid_lock(path, running, "that process ID belongs to another process now")
        if not _has_open(running.pid, path):
            raise _invalid_lock(path, running, "that process does not have the file open, or belongs to another user")
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
    finally:
        os.close(descriptor)


def _invalid_lock(path: Path, running: Holder, why: str) -> Failure:
    return Failure(
        f"{path} is locked, and names process {running.pid} as that of the local environment, but {why}; "
        f"nothing was stopped: find the process that has it locked (`fuser -v {path}`), stop it, and run "
        "`espalier down` again"
    )


def _has_open(pid: int, path: Path) -> bool:
    file = path.stat()
    try:
        descriptors = list((_PROC / str(pid) / "fd").iterdir())
    except OSError:
        return False
    for descriptor in descriptors:
        with contextlib.suppress(OSError):  # closed in the meantime
            if os.path.samestat(descriptor.stat(), file):
                return True
    return False


def _oneself(url: str) -> Holder:
    process = identify(os.getpid()) if (_PROC / "self/stat").exists() else None
    return Holder(os.getpid(), url, *((process.started, process.boot) if process else ()))


async def released(path: Path, timeout: float) -> bool:
    """True if the holder releases the lock within `timeout` seconds. The kernel's wait runs in a thread, so the event
    loop is not blocked."""
    loop = asyncio.get_running_loop()
    free = asyncio.Event()

    def wait() -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(free.set)

    # A daemon thread, because nothing can end the kernel's wait: the loop's own threads would keep the process alive.
    threading.Thread(target=wait, daemon=True, name="waiting for the local environment").start()
    try:
        async with asyncio.timeout(timeout):
            await free.wait()
    except TimeoutError:
        return False
    return True
