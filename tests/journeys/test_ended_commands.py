"""A command that is ended by any signal, or whose terminal is closed, leaves no folder with keys behind."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.sampling import sampled
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

ROOT = Path(__file__).resolve().parents[2]
KEYS = ("ca.key", "kubeconfig")
"""Files of a demo that an administrator's key is in."""
DEMOS = {"demo": ("demo",), "demo garden": ("demo", "garden")}
SIGNALS = (signal.SIGHUP, signal.SIGTERM, signal.SIGINT)


def begin(tmp_path: Path, words: tuple[str, ...], terminal: int | None = None) -> subprocess.Popen[bytes]:
    """The program in a session of its own, with a folder of its own for what is temporary."""
    environment = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(tmp_path / "temporary"),
        "ESPALIER_HOME": str(tmp_path / "home"),
        "TERM": "xterm",
    }
    (tmp_path / "temporary").mkdir()

    def control() -> None:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    with (tmp_path / "output").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "espalier.cli", *words],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=output if terminal is None else terminal,
            stderr=output if terminal is None else terminal,
            start_new_session=True,
            preexec_fn=control if terminal is not None else None,  # noqa: PLW1509  no threads
        )


async def ends(tmp_path: Path, process: subprocess.Popen[bytes], end: Callable[[], object]) -> None:
    """It has written its keys when it is ended, and has removed them soon after."""
    temporary = tmp_path / "temporary"
    try:
        await eventually(lambda: listed(temporary), lambda names: bool(names.intersection(KEYS)))
        end()
        await eventually(lambda: polled(process), lambda code: code is not None)
    finally:
        process.kill()
    assert await listed(temporary) == set()


async def listed(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")}


async def polled(process: subprocess.Popen[bytes]) -> int | None:
    return process.poll()


@pytest.mark.parametrize(
    ("demo", "number"), sampled([(demo, number) for demo in DEMOS for number in SIGNALS], 0), ids=str
)
async def test_a_demo_removes_its_keys(tmp_path: Path, demo: str, number: signal.Signals) -> None:
    process = begin(tmp_path, DEMOS[demo])
    await ends(tmp_path, process, lambda: process.send_signal(number))


@pytest.mark.parametrize("demo", sampled(DEMOS, 1))
async def test_closed_terminal_removes_the_keys_of_a_demo(tmp_path: Path, demo: str) -> None:
    ours, theirs = pty.openpty()
    process = begin(tmp_path, DEMOS[demo], theirs)
    os.close(theirs)
    await ends(tmp_path, process, lambda: os.close(ours))


@pytest.mark.soak
async def test_a_hangup_that_is_ignored_ends_nothing(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        process = begin(tmp_path, DEMOS["demo"])
    finally:
        signal.signal(signal.SIGHUP, before)
    temporary = tmp_path / "temporary"
    await eventually(lambda: listed(temporary), lambda names: bool(names.intersection(KEYS)))
    process.send_signal(signal.SIGHUP)
    await eventually(lambda: polled(process), lambda code: code is not None, within=120)
    assert process.returncode == 0
    assert await listed(temporary) == set()
