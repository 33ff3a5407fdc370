"""Processes that last: the manager, and the laptop world."""

from __future__ import annotations

import gc

THRESHOLD = 20_000
"""Allocations after which young objects are looked through. Python's own 700 costs a manager of ten thousand clusters a
tenth of its start: what it fills its caches with stays."""


def settle_in() -> None:
    """Look for garbage as often as suits a process that lasts (seldom means pauses), but never at what was loaded."""
    gc.freeze()
    gc.set_threshold(THRESHOLD, 10, 10)
