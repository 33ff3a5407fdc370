"""Programs of the machine: run without a shell and without blocking; what they say on failure is the error."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence

LAST_LINES = 8


class CommandFailed(Exception):
    """A program ended with another code than 0. The message has the last lines that it said."""

    def __init__(self, command: Sequence[str], code: int, said: str) -> None:
        lines = said.strip().splitlines()[-LAST_LINES:]
        super().__init__(f"{' '.join(command)}: exit code {code}" + (": " + "\n".join(lines) if lines else ""))
        self.code = code
        self.said = said


async def run(
    *command: str, environment: Mapping[str, str] | None = None, stdin: bytes | None = None, seconds: float = 120.0
) -> str:
    """What a program says. Raises `CommandFailed`, also when it is not done after so many seconds (code -9)."""
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
        raise CommandFailed(command, -9, f"not done after {seconds:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise CommandFailed(command, process.returncode or 0, (err or out).decode(errors="replace"))
    return out.decode(errors="replace")
