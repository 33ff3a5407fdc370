"""Programs that tests start: their output goes to a file, and they never outlive the process that started them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from espalier.realnodes.management.processes import killed_with_parent


class ChildFailed(Exception):
    """A program ended that should be running; the message holds the end of its output."""


class ChildProcess:
    """One running program.

    It is killed by the kernel when this process dies (Linux), however that happens. Its arguments are visible to all
    users of the machine: no secrets in them.
    """

    def __init__(
        self, arguments: Sequence[str | Path], *, folder: Path, environment: Mapping[str, str] | None = None
    ) -> None:
        program, *rest = map(str, arguments)
        self.name = Path(program).name
        self.output = folder / f"{self.name}.log"
        with self.output.open("ab") as output:
            self._process = subprocess.Popen(
                killed_with_parent([program, *rest]),
                cwd=folder,
                env=None if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._process.pid

    def check(self) -> None:
        """Raise `ChildFailed` when the program has ended."""
        code = self._process.poll()
        if code is not None:
            last_words = "\n".join(self.output.read_text(errors="replace").splitlines()[-20:])
            raise ChildFailed(f"{self.name} ended with exit code {code}; the end of {self.output}:\n{last_words}")

    async def stop(self, *, patience: float = 10.0) -> None:
        """Ask the program to end, insist after `patience` seconds, and return when it is gone."""
        self._process.terminate()
        try:
            await asyncio.to_thread(self._process.wait, patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
        finally:
            if self._process.poll() is None:  # also when cancelled: nothing is left behind
                self._process.kill()
                self._process.wait()
