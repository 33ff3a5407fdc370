"""Concurrent tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable


async def together(works: Iterable[Awaitable[object]]) -> None:
    """Wait until all are done, then raise the first failure, if any: none continues in the background.

    Writes that are made together become durable together.
    """
    results = await asyncio.gather(*works, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
