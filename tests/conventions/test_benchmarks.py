"""Benchmarks run: each at its smallest size, since their figures are taken once in a while only."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "benchmarks").glob("bench_*.py"))
EACH = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
SECONDS = 600


def started(file: Path, *words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A benchmark that has ended, with all that it wrote in a folder."""
    command = [sys.executable, "-m", f"benchmarks.{file.stem}", *words]
    environment = {**os.environ, "TMPDIR": str(folder), "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )


@EACH
def test_a_benchmark_has_a_smallest_size(file: Path) -> None:
    source = file.read_text()
    assert "arguments(__doc__)" in source
    assert "size(" in source or "not measured" in source


@pytest.mark.soak
@EACH
def test_a_benchmark_runs_at_its_smallest_size(file: Path, tmp_path: Path) -> None:
    done = started(file, "--smallest", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert list(tmp_path.iterdir()) == []
    if "not measured" in done.stdout:
        pytest.skip(done.stdout.partition("not measured")[2].strip(": \n").splitlines()[0])
