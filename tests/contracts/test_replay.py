"""A whole environment in one process replays bit by bit: managers, election, API server, lost requests and answers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def life(*seeds: int, hash_seed: int) -> str:
    """The output of one process. Each process orders sets in its own way: nothing may depend on it."""
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "tests.contracts.replayed_environment", *map(str, seeds)]
    return subprocess.run(
        command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout


@pytest.mark.soak
@pytest.mark.embedded
def test_same_seeds_give_the_same_environment() -> None:
    first, again = life(1, 2, 3, 4, hash_seed=1), life(1, 2, 3, 4, hash_seed=2)
    assert first == again
    for part in (" lost\n", " answer lost\n", '"holderIdentity":"two"', "Ending.STOPPED"):
        assert part in first


@pytest.mark.soak
@pytest.mark.embedded
def test_another_seed_gives_another_environment() -> None:
    assert life(5, hash_seed=1) != life(6, hash_seed=1)
