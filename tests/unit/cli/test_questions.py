"""Questions on a terminal: each way to end one ends the command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PROGRAM = """\
import signal
import sys
import click
from espalier.cli import main
from espalier.cli.kit.printing import questions

@click.command()
def ask():
    async def run():
        print("answer", questions.confirmed("Go on?"))
    return run()

signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored, where the tests run below nohup
main.program = ask
sys.exit(main.run([]))
"""


@contextmanager
def asked() -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command that waits for an answer on its terminal."""
    near, far = os.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=far, stdout=subprocess.PIPE, stderr=far, start_new_session=True
    )
    os.close(far)
    try:
        shown = b""
        while b"Go on?" not in shown:
            shown += os.read(near, 1000)
        while Path(f"/proc/{program.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
            time.sleep(0.01)  # until it reads: Python sees no signal right before that
        yield program, near
    finally:
        program.kill()
        program.communicate()
        os.close(near)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_signal_ends_a_question(number: signal.Signals) -> None:
    with asked() as (program, _):
        program.send_signal(number)
        assert (program.communicate(timeout=60)[0], program.returncode) == (b"", 130)


@pytest.mark.parametrize(
    ("typed", "answer", "code"),
    [(b"y\n", b"answer True\n", 0), (b"\n", b"answer False\n", 0), (b"\x04", b"", 130)],
    ids=["yes", "default", "end of input"],
)
def test_question_has_an_answer(typed: bytes, answer: bytes, code: int) -> None:
    with asked() as (program, terminal):
        os.write(terminal, typed)
        assert (program.communicate(timeout=60)[0], program.returncode) == (answer, code)
