"""No key gets into the repository, where commands leave kubeconfigs in the folder in which they are run."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----[\sA-Za-z0-9+/=]{100}|"
    rb"(?:client-key-data|token|password): *[A-Za-z0-9+/=]{100}"
)


def test_no_file_of_the_repository_has_a_key() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("only git knows which files are in the repository")
    command = ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"]  # whoever owns the clone
    files = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    tracked = [ROOT / name for name in files.split("\0") if name]
    assert [file for file in tracked if file.is_file() and SECRET.search(file.read_bytes())] == []


def test_content_of_kubeconfig_is_taken_for_key() -> None:
    assert SECRET.search(b"    client-key-data: " + b"QUJD" * 40)
    assert SECRET.search(b"-----BEGIN EC PRIVATE KEY-----\n" + b"QUJD" * 40)
