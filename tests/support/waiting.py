"""Waiting: for cached objects while controllers run, and for programs that only tell when they are asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar, overload

from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache

T = TypeVar("T")


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


async def until(cache: Cache, key: Key, is_so: Callable[[Object | None], bool], *, seconds: float = 600) -> None:
    """Wait until an object is as described. Raises `TimeoutError` that shows the object."""
    changed = asyncio.Event()
    stop = cache.subscribe(lambda _old, _new, _first: changed.set())
    try:
        async with asyncio.timeout(seconds):
            while not is_so(cache.get(key)):
                changed.clear()
                await changed.wait()
    except TimeoutError:
        value = cache.get(key)
        raise TimeoutError(f"{key} is not as awaited: {value.tree if value else None}") from None
    finally:
        stop()


@overload
async def eventually(
    ask: Callable[[], Awaitable[T]],
    is_so: Callable[[T], object] = ...,
    *,
    within: float = ...,
    every: float = ...,
    despite: type[Exception] | tuple[type[Exception], ...] = ...,
    told: Callable[[], str] = ...,
) -> T: ...


@overload
async def eventually(
    ask: Callable[[], T],
    is_so: Callable[[T], object] = ...,
    *,
    within: float = ...,
    every: float = ...,
    despite: type[Exception] | tuple[type[Exception], ...] = ...,
    told: Callable[[], str] = ...,
) -> T: ...


async def eventually(
    ask: Callable[[], Any],
    is_so: Callable[[T], object] = bool,
    *,
    within: float = 300,
    every: float = 0.05,
    despite: type[Exception] | tuple[type[Exception], ...] = (),
    told: Callable[[], str] = str,
) -> T:
    """Ask until the answer is as awaited; returns it. Errors in `despite` count as answers that are not.

    For states that a program tells only when it is asked: where there is an event, wait for that. Raises
    `TimeoutError` with the last answer, and with what `told` tells.
    """
    seen = "nothing"
    limit = asyncio.timeout(within)
    try:
        async with limit:
            while True:
                try:
                    result = ask()
                    answer: T = await result if isinstance(result, Awaitable) else result
                    if is_so(answer):
                        return answer
                    seen = repr(answer)
                except despite as error:
                    seen = repr(error)
                await asyncio.sleep(every)
    except TimeoutError:
        if not limit.expired():
            raise
        raise TimeoutError(f"not so within {within:g} s; last seen: {seen}\n{told()}".rstrip()) from None


async def is_listened_to(port: int) -> bool:
    """True if a port of this machine accepts connections."""
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
