"""`espalier up --detach` waits until the local environment serves, and no longer."""

from __future__ import annotations

import os
import subprocess
import sys

from espalier.cli.local import up


def test_programs_do_not_hold_pipe_of_waiting_command() -> None:
    read, write = os.pipe()
    os.set_inheritable(write, True)  # as it is handed to the process in the background
    starter = up._Starter(write)
    program = subprocess.Popen(
        [sys.executable, "-c", "print('runs', flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    )
    try:
        # Popen returns before the kernel has closed what must not be inherited; a program that runs has it behind it.
        assert program.stdout is not None
        assert program.stdout.readline() == b"runs\n"
        starter.report("ready")
        os.set_blocking(read, False)
        assert os.read(read, 100) == b"ready"
        assert os.read(read, 100) == b"", "the end: no program has the other side"
    finally:
        program.communicate(b"\n")
        os.close(read)
