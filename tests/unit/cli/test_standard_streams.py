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
