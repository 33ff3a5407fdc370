"""Waiting for cached objects, while controllers run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache


@asynccontextmanager
async def running(*runnables: Any) -> AsyncIterator[None]:
    """Run these within the block."""
    tasks = [asyncio.create_task(runnable.run()) for runnable in runnables]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def until(cache: Cache, key: Key, is_so: Callable[[Object | None], bool], *, seconds: float = 120) -> None:
    """Wait until an object is as described. Raises `TimeoutError` that shows the object."""
    changed = asyncio.Event()
    stop = cache.subscribe(lambda _old, _new, _first: changed.set())
    try:
        async with asyncio.timeout(seconds):
            while not is_so(cache.get(key)):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        found = cache.get(key)
        raise TimeoutError(f"{key} is not as awaited: {found.tree if found else None}") from None
    finally:
        stop()
