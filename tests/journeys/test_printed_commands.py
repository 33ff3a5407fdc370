"""The commands that `espalier demo` and `espalier up` print do what they say, typed as they are printed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sampling import sampled

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on the path"),
]

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(sys.executable).parent / "espalier"


def shell(script: str, tmp_path: Path, cwd: Path, *, on_path: bool = True) -> str:
    """The output of a shell that stops at the first command that fails."""
    folders = [*([str(PROGRAM.parent)] if on_path else []), os.environ["PATH"]]
    ended = subprocess.run(
        ["bash", "-ec", script],
        cwd=cwd,
        env={"PATH": ":".join(folders), "ESPALIER_HOME": str(tmp_path / "a home"), "COLUMNS": "60"},
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def commands(printed: str) -> list[str]:
    """The commands that a text shows, each in a line of its own; what never ends is left out."""
    results = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    programs = ("export ", "kubectl ", "espalier ", ".venv/bin/espalier ", "/", "'/")
    return [line for line in results if line.startswith(programs) and not line.endswith(" -w")]


@pytest.mark.soak
@pytest.mark.parametrize("where", sampled(["the checkout", "elsewhere"], 0))
def test_the_commands_of_the_demo_work(tmp_path: Path, where: str) -> None:
    place = ROOT if where == "the checkout" else tmp_path
    printed = shell("espalier demo --boot-seconds 0", tmp_path, place)
    begin, with_kubectl, without, end = (
        commands(part)
        for part in re.split("with kubectl:|or without kubectl:|and finally:", printed[printed.index("By hand") :])
    )
    assert begin == ["espalier up --detach"]
    folder = tmp_path / "work"
    folder.mkdir()
    if where == "the checkout":
        (folder / "examples").symlink_to(ROOT / "examples")
    for chosen, shows in ((with_kubectl, "garden-md-0-"), (without, "garden ")):
        try:
            told = shell("\n".join([*begin, *chosen, *end]), tmp_path, folder)
        finally:
            shell("espalier down --delete-data", tmp_path, folder)
        assert shows in told
        assert "the local environment has stopped" in told


def test_commands_of_up_work_where_it_is_not_on_path(tmp_path: Path) -> None:
    up, down = (f"{PROGRAM} {words}" for words in ("up --detach --boot-seconds 0", "down --delete-data"))
    printed = shell(up, tmp_path, tmp_path, on_path=False)
    try:
        script = commands(printed)
        assert [line.split(" ")[0] for line in script] == ["export", "kubectl"]
        assert "cluster.anywhere.eks.amazonaws.com/garden created" in shell("\n".join(script), tmp_path, tmp_path)
    finally:
        shell(down, tmp_path, tmp_path, on_path=False)
