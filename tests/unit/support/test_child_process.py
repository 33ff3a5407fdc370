"""Programs started by tests say why they ended, and end with the tests."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child_process import ChildFailed, ChildProcess

ROOT = Path(__file__).resolve().parents[3]


async def ended(pid_file_descriptor: int) -> None:
    """Return when the process of the descriptor has ended: then the descriptor is readable."""
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(pid_file_descriptor, over.set)
    try:
        async with asyncio.timeout(30):
            await over.wait()
    finally:
        loop.remove_reader(pid_file_descriptor)
        os.close(pid_file_descriptor)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux kills children with their parent")
async def test_a_child_dies_when_its_parent_is_killed(tmp_path: Path) -> None:
    story = (
        "import sys, signal; from pathlib import Path; from tests.support.child_process import ChildProcess;"
        "child = ChildProcess(['/bin/sleep', '1000'], folder=Path(sys.argv[1]));"
        "print(child.pid, flush=True); signal.pause()"
    )
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", story, tmp_path, stdout=subprocess.PIPE, cwd=ROOT
    )
    assert parent.stdout is not None
    child = os.pidfd_open(int(await parent.stdout.readline()))
    parent.kill()
    await ended(child)
    await parent.wait()


async def test_child_that_ends_by_itself_says_its_last_words(tmp_path: Path) -> None:
    child = ChildProcess(["/bin/sh", "-c", "echo no such volume >&2; exit 7"], folder=tmp_path)
    await ended(os.pidfd_open(child.pid))
    with pytest.raises(ChildFailed, match=r"sh ended with exit code 7.*\n.*no such volume"):
        child.check()
    await child.stop()


async def test_a_child_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    child = ChildProcess(["/bin/sh", "-c", "trap '' TERM; echo > ready; read line < ready"], folder=tmp_path)
    await asyncio.to_thread((tmp_path / "ready").read_text)
    child.check()
    await child.stop(patience=0.01)
    with pytest.raises(ChildFailed, match="exit code -9"):
        child.check()
