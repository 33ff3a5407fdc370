"""Commands of Espalier as processes, killed with -9 as soon as they have printed so many lines."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from tests.support.environments.environment import LocalEnvironment

PROGRAM = (sys.executable, "-m", "espalier.cli")


async def printed(*command: str, home: Path, killed_after: int) -> tuple[int, list[str]]:
    """The exit code of a command (-9 if it was killed) and the lines that it printed."""
    process = await asyncio.create_subprocess_exec(
        *PROGRAM, *command, env={**os.environ, "HOME": str(home)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    lines: list[str] = []
    is_read = False
    try:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            lines.append(line.decode().rstrip())
            if len(lines) == killed_after:
                process.kill()
                break
        is_read = True
    finally:
        if process.returncode is None and not is_read:
            process.kill()  # the test was cancelled
        code = await process.wait()
    return code, lines


def killed_at(machine: LocalEnvironment, words: tuple[str, ...], step: str) -> None:
    """Kill a command (-9) once it prints a line that begins like this."""
    with subprocess.Popen(
        [*PROGRAM, *words], stderr=subprocess.PIPE, env=machine.environment, cwd=machine.home, text=True
    ) as command:
        assert command.stderr is not None
        lines = []
        for line in command.stderr:
            lines.append(line)
            if line.startswith(step):
                command.kill()
                return
    raise AssertionError(f"it ended before {step!r}: {''.join(lines)}")
