"""The host that a step works on: its commands, a clock, the lock of upgrades, and the failure of a step.

A killed pod may leave a command running for minutes (kubeadm waits for static pods). Commands inherit the open file
that holds the lock, so the next pod waits until the last of them has exited.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .files import Files

DONE, FAILED, MISSING = 0, 1, 75
"""Exit codes: done; failed, with a message; files that `copy` provides are missing, so run that step again."""
NSENTER = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--")
"""Enters the namespaces of the host's first process, except its cgroup and user, which are the same already."""
LOCK = "/run/espalier-upgrade.lock"
LOCK_TIMEOUT = 600
"""Seconds; longer than any command of a step takes."""


class StepFailed(Exception):
    """A step failed. The message says what was found and what to do, for the status of the NodeUpgrade."""

    code = FAILED


class NotCopied(StepFailed):
    """Files that `copy` provides are missing on the host."""

    code = MISSING


@dataclass
class Clock:
    """The monotonic time in seconds, and sleep; tests replace both."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Result:
    """The result of a command: exit code and combined output."""

    code: int
    output: str

    def last_lines(self, count: int = 5) -> str:
        """The last lines of its output, joined into one."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return "; ".join(lines[-count:]) or "no output"


class Commands:
    """Runs programs of the host, with the host's paths."""

    def __init__(self, lock: int | None = None) -> None:
        self._lock = lock
        """An open file that commands inherit, so that its lock lasts until the last of them exits."""

    def run(self, *command: str, timeout: float = 60) -> Result:
        """Run a command; one that takes longer than `timeout` seconds is killed.

        A missing program gives code 127, a killed one 124, as in shells.
        """
        try:
            completed = self._run([*NSENTER, *command], timeout)
        except OSError as error:
            return Result(127, f"{NSENTER[0]} can't be started ({error})")
        except subprocess.TimeoutExpired as expired:
            output = expired.output or b""
            return Result(124, f"{_text(output)}\nkilled after {timeout:.0f} s")
        return Result(completed.returncode, _text(completed.stdout))

    def follow(self, *command: str, timeout: float, say: Callable[[str], None]) -> Result:
        """Run a long command, passing each line of output to `say`; otherwise as `run`."""
        try:
            running = self._start([*NSENTER, *command])
        except OSError as error:
            return Result(127, f"{NSENTER[0]} can't be started ({error})")
        timer = threading.Timer(timeout, running.kill)
        timer.start()
        lines = []
        with running:
            assert running.stdout is not None  # noqa: S101 - for mypy: it is a pipe
            for line in running.stdout:
                text = _text(line).rstrip("\n")
                say(text)
                lines.append(text)
        timer.cancel()
        if running.returncode == -signal.SIGKILL:
            lines.append(f"killed, perhaps after its timeout of {timeout:.0f} s")
        return Result(running.returncode, "\n".join(lines))

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=() if self._lock is None else (self._lock,),
        )

    def _run(self, command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            pass_fds=() if self._lock is None else (self._lock,),
        )


def _text(output: bytes) -> str:
    return output.decode(errors="replace")


def hold_lock(files: Files, clock: Clock) -> int:
    """Wait for the lock; returns the open file that holds it. Raises `StepFailed` if another step does not finish."""
    files.make_folder(LOCK.rpartition("/")[0])
    held = os.open(files.place(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = clock.now() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.now() >= end:
                os.close(held)
                raise StepFailed(
                    f"another upgrade step has been running on this node for {LOCK_TIMEOUT} s ({LOCK} is locked): "
                    "find it with `fuser` on the host"
                ) from None
            clock.wait(1)
        else:
            return held
