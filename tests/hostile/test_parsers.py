"""Whatever strangers write, a parser reads it or says what is wrong with it: soon, in little memory, and survives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.targets import TARGETS

ROOT = Path(__file__).parents[2]
EXAMPLES = 60


def feed(seconds: float, *names: str) -> None:
    """In a process of its own: an input that ends it is a failed test."""
    command = [sys.executable, "-m", "tests.hostile.child", str(seconds), str(EXAMPLES), *names]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ended with {done.returncode}\n{done.stdout[-8000:]}\n{done.stderr[-3000:]}"


def test_no_text_of_a_stranger_ends_a_parser() -> None:
    feed(0, *TARGETS)


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_no_text_of_a_stranger_ends_a_parser_however_many_there_are(name: str) -> None:
    feed(float(os.environ.get("ESPALIER_SOAK_SECONDS", "60")), name)
