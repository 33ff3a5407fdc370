"""Programs that a build runs: none of them is left behind."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from pathlib import Path

from espalier.assets.processes import running

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
