"""Settings of long-running processes: the manager, and the local environment."""

from __future__ import annotations

import gc
import resource

THRESHOLD = 20_000
"""Allocations after which young objects are looked through. Python's own 700 costs a manager of ten thousand clusters a
tenth of its start: what it fills its caches with stays."""


def tune() -> None:
    """Look for garbage as often as suits a process that lasts (seldom means pauses), but never at what was loaded.

    And take all the open files that it may have: one for each connection, where many systems begin with 1,024.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.freeze()
    gc.set_threshold(THRESHOLD, 10, 10)
