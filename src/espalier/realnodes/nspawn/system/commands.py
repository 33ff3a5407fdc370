"""Runs programs of the machine without a shell and without blocking; their output is the error's message."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

LAST_LINES = 8


_LAUNCH = """
trap '' HUP
pid=$1 log=$2; shift 2
while [ "$1" != -- ]; do echo $$ > "$1/cgroup.procs" || exit; shift; done
shift
echo $$ > "$pid.new" && mv "$pid.new" "$pid" || exit
exec "$@" < /dev/null >> "$log" 2>&1
"""
"""Enters control groups, writes its PID file, and execs the program."""


class CommandFailed(Exception):
    """A program failed. The message has its last lines."""

    def __init__(self, command: Sequence[str], code: int, output: str, *, timed_out: bool = False) -> None:
        lines = output.strip().splitlines()[-LAST_LINES:]
        super().__init__(f"{' '.join(command)}: exit code {code}" + (": " + "\n".join(lines) if lines else ""))
        self.code = code
        self.output = output
        self.timed_out = timed_out


async def run(
    *command: str, environment: Mapping[str, str] | None = None, stdin: bytes | None = None, seconds: float = 120.0
) -> str:
    """The output of a program. Raises `CommandFailed`, also on a timeout (code -9)."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE if stdin is not None else asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment} if environment else None,
    )
    try:
        async with asyncio.timeout(seconds):
            out, err = await process.communicate(stdin)
    except TimeoutError:
        raise CommandFailed(command, -9, f"timed out after {seconds:g} s", timed_out=True) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise CommandFailed(command, process.returncode or 0, (err or out).decode(errors="replace"))
    return out.decode(errors="replace")


async def start_detached(
    command: Sequence[str],
    *,
    pid: Path,
    log: Path,
    groups: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
) -> None:
    """Start a program that outlives this process, in its own session and in these control groups.

    The file `pid` has its PID before it starts. Raises `CommandFailed` when it could not be started.
    """
    pid.unlink(missing_ok=True)
    launcher = ("setsid", "--fork", "sh", "-c", _LAUNCH, "launch", str(pid), str(log))
    # In a thread: a loop's own way may let descriptors through (uvloop's does), which the program would keep for ever.
    done = await asyncio.to_thread(
        subprocess.run,
        [*launcher, *map(str, groups), "--", *command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, **environment} if environment else None,
        check=False,
    )
    # The pipes of the launcher close when the program has taken its place: until then `subprocess.run` waits.
    if not pid.exists():
        output = (done.stderr or done.stdout).decode(errors="replace")
        raise CommandFailed(command, 1, output or "it could not enter its control groups")
