"""One upgrader at a time on a host.

A pod that was killed may leave a command of its behind that goes on for minutes (kubeadm waits for static pods). The
lock is held by an open file which such commands inherit, so the next pod waits until the last of them has ended.
"""

from __future__ import annotations

import fcntl
import os

from .failures import StepFailed
from .files import Files
from .node import Clock

LOCK = "/run/espalier-upgrade.lock"
PATIENCE = 600
"""Seconds: longer than any command of a step takes."""


def hold(files: Files, clock: Clock) -> int:
    """Wait for the lock; returns the file that holds it. Raises `StepFailed` when another step never ends."""
    files.make_folder(LOCK.rpartition("/")[0])
    held = os.open(files.place(LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    end = clock.now() + PATIENCE
    while True:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if clock.now() >= end:
                os.close(held)
                raise StepFailed(
                    f"another step of an upgrade has been at work on this node for {PATIENCE} s ({LOCK} is held): "
                    "see with `fuser` on the host what it is"
                ) from None
            clock.wait(1)
        else:
            return held
