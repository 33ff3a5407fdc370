"""Tasks that are left over."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Within the block all of this runs; then it is cancelled, however it ends."""
    tasks = [asyncio.create_task(item) for item in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def left_over(before: Collection[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Tasks that were not there before and do not end by themselves: gRPC's own need some turns of the loop to.

    A gRPC server in this process waits for its next call in a task, a new one after each call.
    """
    new = {task for task in asyncio.all_tasks() if task not in before and not _takes_calls(task)}
    if not new:
        return set()
    _, pending = await asyncio.wait(new, timeout=10)
    return pending


def _takes_calls(task: asyncio.Task[Any]) -> bool:
    return getattr(task.get_coro(), "__qualname__", "") == "AioServer._request_call"
