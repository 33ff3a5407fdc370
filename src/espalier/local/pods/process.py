"""One run of one container: a process, a folder that stands for its `/`, its log and its termination message."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from espalier.api.meta import Tree
from espalier.local.pods.program import ROOT, Program

MESSAGE = "dev/termination-log"
LONGEST_MESSAGE = 4096
LAST_LINES = 80
"""Of a log that stands for a termination message, at most so many lines (and `LONGEST_FALLBACK` bytes)."""
LONGEST_FALLBACK = 2048
NO_SUCH_PROGRAM = 127


@dataclass(frozen=True)
class Run:
    """What a container runs, and where."""

    program: Program
    container: Tree
    root: Path
    mounts: Mapping[str, Path]
    environment: Mapping[str, str]
    log: Path

    async def to_the_end(self, grace: float) -> int:
        """Run it; returns its exit code. One that is cancelled is asked to end, and killed after `grace` seconds."""
        self._furnish()
        words = self._words()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        if not words:
            self.log.write_text(f"exec: {self._command()[:1]}: the image's program does not have it\n")
            return NO_SUCH_PROGRAM
        with self.log.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *words,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=asyncio.subprocess.STDOUT,
                env={**self.program.environment, **self.environment, ROOT: str(self.root)},
                cwd=self.root,
                start_new_session=True,
            )
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            await _end(process, grace)
            raise
        return code if code >= 0 else 128 - code

    def message(self, code: int) -> str:
        """The termination message: what the program left, or the end of its log where the pod asks for that."""
        file = self.root / MESSAGE
        said = file.read_bytes()[:LONGEST_MESSAGE].decode(errors="replace") if file.is_file() else ""
        if said or not code or self.container.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return said
        lines = self.log.read_bytes()[-LONGEST_FALLBACK:].decode(errors="replace").splitlines()
        return "\n".join(lines[-LAST_LINES:])

    def _furnish(self) -> None:
        """Make the folder that stands for `/`, with nothing in it of an earlier run."""
        shutil.rmtree(self.root, ignore_errors=True)
        (self.root / MESSAGE).parent.mkdir(parents=True)
        (self.root / MESSAGE).touch()
        for path, target in [*self.program.content.items(), *self.mounts.items()]:
            place = self.root / path.lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(target)

    def _command(self) -> list[str]:
        return [*(self.container.get("command") or ()), *(self.container.get("args") or ())]

    def _words(self) -> Sequence[str]:
        command = self._command()
        start = self.program.commands.get(command[0]) if command else None
        return [*start, *command[1:]] if start else ()


async def _end(process: asyncio.subprocess.Process, grace: float) -> None:
    """End a process and all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
        try:
            async with asyncio.timeout(grace):
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)  # what it left behind
