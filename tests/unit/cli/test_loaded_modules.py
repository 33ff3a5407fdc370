"""Libraries that commands load: the start of a process is most of the time that a short command takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("aiohttp.web", "cryptography", "prometheus_client", "pyVmomi")
"""Libraries of servers, certificates, metrics and infrastructures."""
_CODE = f"""
import sys
from espalier.cli.main import run
run(sys.argv[1:])
print(*(name for name in {HEAVY!r} if name in sys.modules), file=sys.stderr)
"""


@pytest.mark.parametrize("command", ["plan", "validate", "get"])
def test_commands_load_no_libraries_of_servers(command: str, tmp_path: Path) -> None:
    manifest = str(ROOT / "examples" / "docker.yaml")
    words = ["get", "clusters"] if command == "get" else [command, "-f", manifest]
    environment = {"ESPALIER_HOME": str(tmp_path), "HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *words], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1] == ""
