"""Programs that a build runs: their output is read line by line, and their child processes end with them."""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LAST_LINES = 30


class BuildFailed(Exception):
    """A build program failed, or its result is wrong; the message has the last lines of its output."""


def follow(
    command: Sequence[str],
    folder: Path,
    *,
    environment: Mapping[str, str],
    label: str,
    on_line: Callable[[str | None], bool],
    shown: str = "",
) -> None:
    """Run a program. `on_line` gets each line, and None at intervals without one; it returns True for lines that
    matter. Raises `BuildFailed` with the last of these. `shown` stands for the command in the message."""
    output: deque[str] = deque(maxlen=LAST_LINES)
    with running(command, folder, environment) as process:
        for line in _lines_or_none(process):
            if on_line(line) and line:
                output.append(line)
    if process.returncode != 0:
        lines = "".join(f"\n  {line}" for line in output)
        ending = f"({_ending(process.returncode)}){':' if lines else ''}{lines}"
        raise BuildFailed(f"{label}: {shown or ' '.join(command[:2])} failed {ending}")


@contextlib.contextmanager
def running(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """The running program with its output as one stream of text; it and its children end with the block."""
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_deferred():
            process = subprocess.Popen(
                command,
                cwd=folder,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0,
            )
        yield process
        process.wait()
    finally:
        if process is not None:
            _end(process)
            assert process.stdout is not None
            process.stdout.close()


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a program that runs still, and its children."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _signals_deferred() -> Iterator[None]:
    """Handle SIGINT, SIGTERM and SIGHUP at the end of the block.

    Their handlers raise, and Python runs them between any two instructions: also where a process has been started
    and nothing refers to it yet, or where a condition of `threading` is between releasing its lock and waiting.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # no handler runs here
        return
    received: list[int] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    for number in handlers:
        signal.signal(number, lambda number, _frame: received.append(number))
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def run(
    command: Sequence[str | Path],
    label: str,
    environment: Mapping[str, str] | None = None,
    *,
    stdin: str = "",
    shown: str = "",
) -> str:
    """Run a short program and return its output. Raises `BuildFailed` with the output if it fails. Whatever ends the
    call, the program and its children end with it.

    `shown` stands for the command in the message, where that one is long.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_deferred():
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=environment,
                process_group=0,
            )
        out, err = process.communicate(stdin)
    finally:
        if process is not None:
            _end(process)
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()
    if process.returncode != 0:
        output = (err or out).strip()[-2000:]
        ending = _ending(process.returncode) + (f":\n  {output}" if output else "")
        raise BuildFailed(f"{label}: {shown or ' '.join(map(str, command))}: {ending}")
    return out


def _ending(code: int) -> str:
    """How a program ended that did not succeed."""
    return f"exit code {code}" if code > 0 else f"ended by signal {signal.Signals(-code).name}"


def _lines_or_none(process: subprocess.Popen[str]) -> Iterator[str | None]:
    """The program's lines as they arrive, and None at intervals without one, so that the elapsed time can be shown."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

    def read() -> None:
        assert process.stdout is not None
        with contextlib.suppress(ValueError):  # closed by us: the block was left early
            for line in process.stdout:
                lines.put(line.rstrip())
        lines.put(None)

    reader = threading.Thread(target=read, daemon=True)
    with _signals_deferred():
        reader.start()
    while True:
        try:
            line = lines.get(timeout=1)
        except queue.Empty:
            yield None
            continue
        if line is None:
            return
        yield line


@dataclass
class Progress:
    """Shows the progress of a build: on a terminal in one changing line, elsewhere as a line every ten seconds."""

    label: str
    started: float = field(default_factory=time.monotonic)
    shown: float = 0.0
    terminal: bool = field(default_factory=sys.stdout.isatty)

    def show(self, text: str) -> None:
        """Show `text`, unless another line was shown just before."""
        now = time.monotonic()
        if now - max(self.shown, self.started) < (0.2 if self.terminal else 10.0):
            return
        self.shown = now
        line = f"{self.label}: {text}, {elapsed(self.started)}"
        print(f"\r\033[K{line}" if self.terminal else line, end="" if self.terminal else "\n", flush=True)

    def end(self) -> None:
        """Clear the changing line."""
        if self.terminal:
            print("\r\033[K", end="", flush=True)


def elapsed(started: float) -> str:
    """The time since `started`, as text."""
    minutes, seconds = divmod(round(time.monotonic() - started), 60)
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
