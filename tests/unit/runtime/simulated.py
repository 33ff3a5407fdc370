"""Telling stories on a simulated loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, TypeVar

from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation

T = TypeVar("T")

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def simulate(main: Callable[[Simulation], Awaitable[T]], seed: int = 1) -> T:
    return virtual.run(main, epoch=EPOCH, seed=seed)


@asynccontextmanager
async def running(*runnables: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(runnable.run()) for runnable in runnables]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
