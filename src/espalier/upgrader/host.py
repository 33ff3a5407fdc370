"""The host that a step works on: its commands, a clock, the lock of upgrades, and how a step fails.

A pod that was killed may leave a command of its behind that goes on for minutes (kubeadm waits for static pods). The
lock is held by an open file which such commands inherit, so the next pod waits until the last of them has ended.
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
"""Exit codes: done; failed, with a sentence; what `copy` brings is not on the host, so begin with that step again."""
ENTER = ("nsenter", "--target", "1", "--mount", "--uts", "--ipc", "--net", "--")
"""Into the namespaces of the host's first process; its cgroup and user are ours already."""
LOCK = "/run/espalier-upgrade.lock"
LONGEST_STEP = 600
"""Seconds: longer than any command of a step takes."""


class StepFailed(Exception):
    """A step can't do its work. The message says what was found and what to do, for the status of the NodeUpgrade."""

    code = FAILED


class NotCopied(StepFailed):
    """Files that `copy` brings are missing on the host."""

    code = MISSING


@dataclass
class Clock:
    """Time, as far as steps wait for the node's services."""

    now: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep


@dataclass(frozen=True)
class Result:
    """Result of a command: exit code and both outputs."""

    code: int
    output: str

    def last_lines(self, count: int = 5) -> str:
        """The end of what it said, in one line."""
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return "; ".join(lines[-count:]) or "it said nothing"


class Commands:
    """Runs programs of the host, with the host's paths."""

    def __init__(self, held: int | None = None) -> None:
        self._held = held
        """An open file that commands keep open too, so that its lock lasts as long as any of them."""

    def run(self, *command: str, timeout: float = 60) -> Result:
        """Run a command to its end; one that takes longer than `timeout` seconds is killed.

        A program that is not there, and one that was killed, are results too (127 and 124, as shells count).
        """
        try:
            ended = self._run([*ENTER, *command], timeout)
        except OSError as error:
            return Result(127, f"{ENTER[0]} can't be started ({error})")
        except subprocess.TimeoutExpired as expired:
            said = expired.output or b""
            return Result(124, f"{_text(said)}\nnot done after {timeout:.0f} s")
        return Result(ended.returncode, _text(ended.stdout))

    def follow(self, *command: str, timeout: float, say: Callable[[str], None]) -> Result:
        """Run a long command and say each line when it comes; otherwise as `run`."""
        try:
            running = self._start([*ENTER, *command])
        except OSError as error:
            return Result(127, f"{ENTER[0]} can't be started ({error})")
        late = threading.Timer(timeout, running.kill)
        late.start()
        lines = []
        with running:
            assert running.stdout is not None  # noqa: S101 - for mypy: it is a pipe
            for line in running.stdout:
                text = _text(line).rstrip("\n")
                say(text)
                lines.append(text)
        late.cancel()
        if running.returncode == -signal.SIGKILL:
            lines.append(f"killed, or not done after {timeout:.0f} s")
        return Result(running.returncode, "\n".join(lines))

    def _start(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=() if self._held is None else (self._held,),
        )

    def _run(self, command: Sequence[str], timeout: float) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            check=False,
            pass_fds=() if self._held is None else (self._held,),
        )


def _text(output: bytes | str) -> str:
    return output if isinstance(output, str) else output.decode(errors="replace")


def hold_lock(files: Files, clock: Clock) -> int:
    """Wait for the lock; returns the file that holds it. Raises `StepFailed` when another step never ends."""
    files.make_folder(LOCK.rpartition("/")[0])
    held = os.open(files.place(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = clock.now() + LONGEST_STEP
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.now() >= end:
                os.close(held)
                raise StepFailed(
                    f"another step of an upgrade has been at work on this node for {LONGEST_STEP} s ({LOCK} is held): "
                    "see with `fuser` on the host what it is"
                ) from None
            clock.wait(1)
        else:
            return held
