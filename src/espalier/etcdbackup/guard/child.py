"""The etcd process as a child that the kernel ends with its parent."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import sys
from collections.abc import Callable, Sequence

_PR_SET_PDEATHSIG = 1


class Child:
    """A program that may run."""

    def __init__(self, command: Sequence[str], *, patience: float) -> None:
        self.ended: Callable[[int], None] = lambda _code: None
        """Called with the exit code each time the process has ended."""
        self._command = command
        self._patience = patience
        self._process: asyncio.subprocess.Process | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._libc = ctypes.CDLL(None)
        self._parent = os.getpid()

    @property
    def is_running(self) -> bool:
        """True until the process is known to have ended."""
        return self._process is not None

    async def start(self) -> None:
        """Start the process unless it runs. Raises `OSError`."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, preexec_fn=self._die_with_parent
            )
            self._waiting = asyncio.create_task(self._wait(self._process))

    async def stop(self) -> None:
        """End the process with SIGTERM, and after a while with SIGKILL; return when it has ended."""
        process, waiting = self._process, self._waiting
        if process is None or waiting is None:
            return
        self._signal(process, signal.SIGTERM)
        done, _ = await asyncio.wait((waiting,), timeout=self._patience)
        if not done:
            self._signal(process, signal.SIGKILL)
            await asyncio.wait((waiting,))

    async def _wait(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        self._process = None
        self.ended(code)

    def _signal(self, process: asyncio.subprocess.Process, number: signal.Signals) -> None:
        try:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # also a process that is stopped
        except ProcessLookupError:
            pass

    def _die_with_parent(self) -> None:
        """Run in the child, before it executes the program."""
        if sys.platform == "linux":
            self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != self._parent:  # it died before that
            os._exit(1)
        os.setpgrp()  # a Ctrl-C of the terminal is for the guard: it shuts the proxy first
