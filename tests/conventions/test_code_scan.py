"""The program on the node is checked for what makes programs vulnerable: a planted fault is found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PLANTED = {
    "S602": "import subprocess\n\n\ndef run(text: str) -> None:\n    subprocess.run(text, shell=True, check=True)\n",
    "S306": "import tempfile\n\nNAME = tempfile.mktemp()\n",
    "S202": "import tarfile\n\n\ndef unpack(path: str) -> None:\n    tarfile.open(path).extractall()\n",
}


@pytest.mark.demand(U67="the program, by ruff's security rules in `make check`")
@pytest.mark.parametrize("rule", PLANTED)
def test_a_planted_vulnerability_fails_the_check(rule: str) -> None:
    command = [sys.executable, "-m", "ruff", "check", "--output-format=concise", "--stdin-filename"]
    result = subprocess.run(
        [*command, "src/espalier/upgrader/planted.py", "-"],
        input=PLANTED[rule],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 1
    assert rule in result.stdout
