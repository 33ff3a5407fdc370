"""Programs that a build runs: none of them is left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from espalier.assets.processes import BuildFailed, run, running

PARENT = """\
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
print(child.pid, flush=True)
child.wait()
"""


def test_children_of_a_program_end_with_its_block(tmp_path: Path) -> None:
    """A compiler is a child of `go build`."""
    with (
        contextlib.suppress(KeyboardInterrupt),
        running([sys.executable, "-c", PARENT], tmp_path, dict(os.environ)) as process,
    ):
        assert process.stdout is not None
        child = os.pidfd_open(int(process.stdout.readline()))
        raise KeyboardInterrupt
    ended, _, _ = select.select([child], [], [], 10)
    if not ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    assert ended


PROGRAM = """\
import sys
from espalier.assets.processes import run
from espalier.cli.kit import interrupts
with interrupts.raised():
    run([sys.executable, "-c", sys.argv[1]], "tool")
"""
CHILD = """\
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
with open(PLACE + ".new", "w") as file:
    file.write(str(child.pid))
os.rename(PLACE + ".new", PLACE)
child.wait()
"""


def test_children_of_a_short_program_end_with_it(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    script = f"PLACE = {str(place)!r}\n{CHILD}"
    with subprocess.Popen([sys.executable, "-c", PROGRAM, script], stderr=subprocess.PIPE) as process:
        deadline = time.monotonic() + 60
        while not place.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        child = os.pidfd_open(int(place.read_text()))
        process.terminate()
        process.communicate(timeout=60)
    ended, _, _ = select.select([child], [], [], 10)
    if not ended:
        signal.pidfd_send_signal(child, signal.SIGKILL)
    os.close(child)
    assert ended
    assert process.returncode != 0


def test_program_ended_by_a_signal_is_named() -> None:
    with pytest.raises(BuildFailed) as failure:
        run(["sh", "-c", "kill -TERM $$"], "tool", shown="tool download")
    assert str(failure.value) == "tool: tool download: ended by signal SIGTERM"
