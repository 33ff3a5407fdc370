"""Processes left by a pod whose environment was killed are ended before the pod goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from espalier.simulator.pods.runtimes import process
from espalier.simulator.pods.runtimes.process import ROOTS, kill_leftover_processes
from espalier.simulator.pods.runtimes.program import ROOT


@contextmanager
def resting(root: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of a container with this `/`, which would run for long."""
    code = "import sys; print('here', flush=True); sys.stdin.read()"
    child = subprocess.Popen(
        [sys.executable, "-IS", "-c", code], env={ROOT: str(root)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
        yield child
        child.kill()


def test_all_processes_of_pod_are_gone_and_no_others(tmp_path: Path) -> None:
    pod, other = tmp_path / "pod", tmp_path / "pod-2"
    with (
        resting(pod / ROOTS / "a") as first,
        resting(pod / ROOTS / "b") as second,
        resting(other / ROOTS / "a") as third,
    ):
        assert kill_leftover_processes(pod)
        assert (first.wait(), second.wait()) == (-signal.SIGKILL, -signal.SIGKILL)
        assert third.poll() is None
        assert kill_leftover_processes(pod), "nothing is left to be ended"


def test_endless_process_is_not_awaited_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "ROUNDS", 3)
    monkeypatch.setattr(process, "ROUND_SECONDS", 0.001)
    with resting(tmp_path / ROOTS / "a") as stubborn:
        with monkeypatch.context() as nobody_is_killed:
            nobody_is_killed.setattr(signal, "pidfd_send_signal", lambda *_: None)
            assert not kill_leftover_processes(tmp_path)
        assert stubborn.poll() is None
