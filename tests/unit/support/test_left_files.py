"""Files that a run of tests leaves on a disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.left_files import KEEP, MIB, LeftFiles, size_of

ROOT = Path(__file__).parents[3]
FAILING = """
import pytest

@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shared")
    (folder / "database").write_bytes(bytes(200 << 20))
    return folder

@pytest.mark.parametrize("number", range(16))
def test_large(number, tmp_path):
    (tmp_path / "history").write_bytes(bytes(100 << 20))
    assert False

@pytest.mark.parametrize("number", range(16))
def test_medium(number, tmp_path, shared):
    (tmp_path / "history").write_bytes(bytes(60 << 20))
    assert False

def test_small(tmp_path):
    (tmp_path / "log").write_text("why")
    assert False
"""


def written(folder: Path, mib: int) -> Path:
    folder.mkdir()
    (folder / "file").write_bytes(os.urandom(mib * MIB))
    return folder


def test_a_failed_test_keeps_few_files(tmp_path: Path) -> None:
    left = LeftFiles(2 * MIB, 3 * MIB)
    few, many = written(tmp_path / "few", 1), written(tmp_path / "many", 3)
    assert left.after(few) == ""
    assert left.after(many) == f"3 MiB in {many} were removed; to keep them, set {KEEP}=1"
    assert (few.exists(), many.exists()) == (True, False)


def test_many_failed_tests_keep_few_files_together(tmp_path: Path) -> None:
    left = LeftFiles(2 * MIB, 3 * MIB + MIB // 2)
    remaining = [not left.after(written(tmp_path / str(number), 1)) for number in range(5)]
    assert remaining == [True, True, True, False, False]


def test_the_largest_folders_go_at_the_end(tmp_path: Path) -> None:
    base = tmp_path / "base"
    base.mkdir()
    small, large = written(base / "small", 1), written(base / "large", 3)
    (removed,) = LeftFiles(MIB, MIB).at_the_end(base, 2 * MIB)
    assert str(large) in removed
    assert (small.exists(), large.exists()) == (True, False)


@pytest.mark.soak
def test_a_run_leaves_less_than_a_gibibyte(tmp_path: Path) -> None:
    """With the tests' own conftest.py, in which half of them and a fixture would leave 3 GiB."""
    file, base = tmp_path / "test_that_fails.py", tmp_path / "base"
    file.write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "tests.conftest"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [*command, "-c", "pyproject.toml", f"--basetemp={base}", str(file)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "33 failed" in done.stdout, done.stdout
    assert done.stdout.count("100 MiB in") == 16
    assert f"to keep them, set {KEEP}=1" in done.stdout
    assert size_of(base) < 800 * MIB
    assert next(base.glob("test_small*/log")).read_text() == "why"
