"""Commands that are started without standard streams, as some init systems and scripts do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import sampled

COMMANDS = {"version": 0, "manifests --image example.com/manager:v1": 0, "get clusters": 3}


@pytest.mark.parametrize("closed", sampled([">&-", "2>&-", "<&-", ">&- 2>&- <&-"], 0))
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_without_a_stream_ends_as_with_one(command: str, closed: str, tmp_path: Path) -> None:
    program = f"{sys.executable} -m espalier.cli {command} {closed}"
    ended = subprocess.run(["/bin/sh", "-c", program], env={"ESPALIER_HOME": str(tmp_path / "none")}, check=False)
    assert ended.returncode == COMMANDS[command]


def test_output_beyond_a_limit_is_a_sentence(tmp_path: Path) -> None:
    program = f"ulimit -f 2; {sys.executable} -m espalier.cli manifests --image example.com/manager:v1 > out.yaml"
    ended = subprocess.run(
        ["/bin/sh", "-c", program],
        env={"ESPALIER_HOME": str(tmp_path / "none"), "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    message = f"error: the output in {tmp_path / 'out.yaml'} could not be written: File too large\n"
    assert (ended.returncode, ended.stderr) == (1, message)
