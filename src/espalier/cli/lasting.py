"""Processes that last: the manager, and the laptop world."""

from __future__ import annotations

import gc

from espalier.cli import THRESHOLDS


def settle_in() -> None:
    """Look for garbage as often as Python does by itself (seldom means pauses), but never at what was loaded."""
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
