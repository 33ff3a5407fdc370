"""Telling stories on a simulated loop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import TypeVar

from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def simulate(main: Callable[[Simulation], Awaitable[T]], seed: int = 1) -> T:
    return virtual.run(main, epoch=EPOCH, seed=seed)
