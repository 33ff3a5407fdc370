"""One run of a container as a process of this machine, which uses its network."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from espalier.realnodes.management.processes import killed_with_parent
from espalier.simulator.pods.runtimes.coroutine_runtime import LONGEST_LOG
from espalier.simulator.pods.runtimes.in_process import Container

HOST = "127.0.0.1"
LAST_LINES = 5
"""Bytes of its log that become the termination message of a failed program."""
_LONGEST_LINE = 1 << 20
_LISTENING = re.compile(rf"(?:https?://)?{re.escape(HOST)}:(\d+)$")


async def run_process(
    container: Container,
    command: Sequence[str | Path],
    *,
    variables: Mapping[str, str] | None = None,
    listening: Callable[[int], None] | None = None,
) -> int:
    """Run a command as the container's program; its exit code. It dies with the container, with all that it started.

    `listening` gets the port in the first line that has one. On cancellation it gets SIGTERM; when
    cancelled again it is killed.
    """
    process = await asyncio.create_subprocess_exec(
        *killed_with_parent(command),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **(variables or {})},
        start_new_session=True,
        limit=_LONGEST_LINE,
    )
    container.life.at_end(lambda: _signal(process, signal.SIGKILL))
    assert process.stdout is not None  # noqa: S101 - a pipe
    reading = asyncio.create_task(_read(process.stdout, container.log, listening), name=f"log of {container.life.name}")
    try:
        code = await process.wait()
    except asyncio.CancelledError:
        _signal(process, signal.SIGTERM)
        code = await process.wait()
    finally:
        _signal(process, signal.SIGKILL)
        await _ended(process)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
    if code:
        container.message = "\n".join(container.log[-LAST_LINES:])
    return code if code >= 0 else 128 - code


async def _ended(process: asyncio.subprocess.Process) -> None:
    """Wait for a killed process, however often this is cancelled: an awaited process can't outlive the loop."""
    while process.returncode is None:
        with suppress(asyncio.CancelledError):
            await process.wait()


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """Send a signal to it and its children."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)


async def _read(output: asyncio.StreamReader, log: list[str], listening: Callable[[int], None] | None) -> None:
    async for line in _lines(output):
        log.append(line)
        if len(log) > 2 * LONGEST_LOG:
            del log[:-LONGEST_LOG]
        if listening is not None and (match := _LISTENING.search(line)):
            listening(int(match[1]))
            listening = None


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await output.readline()
        except ValueError:  # longer than any line that is read
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip()
