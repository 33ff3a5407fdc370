from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from tests.support.environments import fork_server
from tests.support.environments.environment import PROGRAM, CommandResult, LocalEnvironment
from tests.support.sampling import sampled

ROOT = Path(__file__).parents[3]


def process(environment: LocalEnvironment, arguments: Sequence[str], stdin: str) -> CommandResult:
    """The same command as users start it."""
    done = subprocess.run(
        [*PROGRAM, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=environment.environment,
        cwd=environment.home,
        check=False,
    )
    return CommandResult(done.returncode, done.stdout, done.stderr)


@pytest.mark.parametrize(
    ("arguments", "stdin"),
    sampled(
        [
            (["version"], ""),
            (["get", "clusters"], ""),
            (["generate", "objects", "-f", "-"], "kind: Nothing\n"),
            (["nonsense"], ""),
        ],
        1,
    ),
)
def test_a_forked_command_does_what_a_process_does(tmp_path: Path, arguments: list[str], stdin: str) -> None:
    environment = LocalEnvironment(tmp_path)
    assert environment.espalier(*arguments, stdin=stdin) == process(environment, arguments, stdin)


def test_command_has_its_environment_and_folder(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text("kind: Nothing\n")
    environment = LocalEnvironment(tmp_path)
    assert "one.yaml" in environment.espalier("generate", "objects", "-f", "one.yaml", folder=tmp_path).err
    assert str(tmp_path / "mine") in environment.espalier("get", "clusters", ESPALIER_HOME=str(tmp_path / "mine")).err


def test_a_command_that_takes_too_long_is_killed(tmp_path: Path) -> None:
    read, write = os.pipe()
    began = time.monotonic()
    with (
        os.fdopen(read, "rb") as never,
        os.fdopen(write, "wb"),
        TemporaryFile() as out,
        pytest.raises(subprocess.TimeoutExpired),
    ):
        fork_server.run(
            ["generate", "objects", "-f", "-"],
            stdin=never,
            stdout=out,
            stderr=out,
            environment=LocalEnvironment(tmp_path).environment,
            folder=tmp_path,
            seconds=0.2,
        )
    assert time.monotonic() - began < 30


@pytest.mark.soak
def test_it_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import os, pathlib\n"
        "from tests.support.environments import fork_server\n"
        "print(fork_server._address(), flush=True)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    address = Path(done.stdout.strip())
    assert address.name == "socket"
    assert not address.parent.exists(), "its standard error, which the server has too, was read to its end"
