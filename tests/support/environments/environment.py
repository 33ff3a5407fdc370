"""A local environment as users start it: a process of its own, with its own folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile

import yaml

from espalier.cli.kit import flags
from espalier.cli.kit.connecting import connection
from espalier.providers.kinds import CATALOG
from tests.support.environments import fork_server

PROGRAM = [sys.executable, "-m", "espalier.cli"]
SECONDS = 360


@dataclass(frozen=True)
class CommandResult:
    """How a command ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True)
class LocalEnvironment:
    """An environment in a folder; `espalier` runs commands against it."""

    home: Path
    prefix: tuple[str, ...] = ()
    """Of each command: what runs it somewhere else."""

    @property
    def environment(self) -> dict[str, str]:
        variables = {name: value for name, value in os.environ.items() if name not in {"KUBECONFIG", "ESPALIER_HOME"}}
        return {**variables, "ESPALIER_HOME": str(self.home), "HOME": str(self.home), "NO_COLOR": "1"}

    def espalier(
        self, *arguments: str, stdin: str | None = None, folder: Path | None = None, **environment: str
    ) -> CommandResult:
        if not self.prefix:
            return self._forked(arguments, stdin or "", folder or self.home, self.environment | environment)
        done = subprocess.run(
            [*self.prefix, *PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            env=self.environment | environment,
            cwd=folder or self.home,
            timeout=SECONDS,
            check=False,
        )
        return CommandResult(done.returncode, done.stdout, done.stderr)

    def _forked(
        self, arguments: Sequence[str], stdin: str, folder: Path, environment: Mapping[str, str]
    ) -> CommandResult:
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin.encode())
            given.seek(0)
            code = fork_server.run(
                arguments,
                stdin=given,
                stdout=out,
                stderr=err,
                environment=environment,
                folder=folder,
                seconds=SECONDS,
            )
            out.seek(0)
            err.seek(0)
            return CommandResult(code, out.read().decode(), err.read().decode())

    def into(self, output: int, *arguments: str, stdin: str) -> CommandResult:
        """Run a command whose standard output is this open file."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            input=stdin,
            stdout=output,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=self.home,
            timeout=SECONDS,
            check=False,
        )
        return CommandResult(done.returncode, "", done.stderr)

    def up(self, *flags: str) -> None:
        told = self.espalier("up", "--detach", *flags)
        assert told.code == 0, told.err

    def down(self) -> None:
        told = self.espalier("down")
        assert told.code == 0, told.err

    def apply(self, text: str, verb: str = "create", *flags: str) -> CommandResult:
        return self.espalier(verb, "cluster", "-f", "-", *flags, stdin=text)

    def send(self, text: str) -> None:
        """Apply one object as `kubectl apply --server-side` does, without the checks of commands."""
        tree = yaml.safe_load(text)

        async def apply() -> None:
            async with connection.connect(flags.Connection(self.home / "kubeconfig")) as connected:
                tree["metadata"].setdefault("namespace", connected.namespace)
                await connected.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree)

        asyncio.run(apply())

    def names(self, *arguments: str) -> list[str]:
        told = self.espalier(*arguments, "-o", "name")
        assert told.code == 0, told.err
        return told.out.split()


@contextmanager
def local_environment(home: Path, *flags: str) -> Iterator[LocalEnvironment]:
    """A running environment, stopped afterwards."""
    home.mkdir(parents=True, exist_ok=True)
    environment = LocalEnvironment(home)
    environment.up(*flags)
    try:
        yield environment
    finally:
        environment.down()


def texts(documents: Sequence[str]) -> str:
    """Documents as one manifest."""
    return "---\n".join(documents)
