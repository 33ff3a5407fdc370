"""Folders of demonstrations: removed at the end, and by the next one where a demonstration was killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from espalier.cli.local.demo_folder import LOCK, demo_folder

HOLDING = """
from espalier.cli.local.demo_folder import demo_folder
with demo_folder("demo-") as folder:
    (folder / "ca.key").write_text("")
    print(folder, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def _parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


def test_a_folder_is_private_and_goes_at_the_end(tmp_path: Path) -> None:
    with demo_folder("demo-") as folder:
        assert folder.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_the_next_demo_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    program = [sys.executable, "-c", HOLDING]
    with subprocess.Popen(program, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        left = Path(demo.stdout.readline().strip())
        with demo_folder("demo-"):
            assert (left / "ca.key").exists(), "it still runs"
        demo.send_signal(signal.SIGKILL)
        demo.wait()
    assert (left / "ca.key").exists()
    with demo_folder("demo-"):
        assert not left.exists()


def test_what_is_no_demo_stays(tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    (others / LOCK).touch()
    (tmp_path / "espalier-link").symlink_to(others)
    (tmp_path / "espalier-bucket-x").mkdir()
    with demo_folder():
        assert (others / LOCK).exists()
    assert {path.name for path in tmp_path.iterdir()} == {"others", "espalier-link", "espalier-bucket-x"}
