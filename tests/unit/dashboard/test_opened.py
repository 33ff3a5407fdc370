"""The open pages of single objects: how many there are, and that each is closed once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import cast

from espalier.api.resource import Key
from espalier.dashboard.views.opened import LINGER, MOST, Opened
from espalier.dashboard.views.views import View
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.simulated_environment import EPOCH

SLOW = 5.0
"""Seconds that the work of a view takes to end."""


class Page:
    """A view that says whether it is open."""

    def __init__(self, key: Key, pages: list[Page]) -> None:
        self.key = key
        self.is_open = True
        pages.append(self)

    def works(self) -> list[Coroutine[None, None, None]]:
        return [self._work()]

    async def _work(self) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(SLOW)

    def close(self) -> None:
        self.is_open = False


def keys(number: int) -> list[Key]:
    return [Key("default", f"garden-{index}") for index in range(number)]


def simulated(main: Callable[[Opened, list[Page]], Coroutine[None, None, None]]) -> list[Page]:
    """The pages that were created; `main` runs while those that nobody reads are closed."""
    pages: list[Page] = []

    async def body(_: Simulation) -> None:
        opened = Opened(lambda key: cast(View, Page(key, pages)), "cluster")
        closing = asyncio.create_task(opened.run())
        await asyncio.sleep(0)
        await main(opened, pages)
        assert not closing.done()
        closing.cancel()
        with suppress(asyncio.CancelledError):
            await closing

    run(body, epoch=EPOCH, seed=1)
    return pages


async def read(opened: Opened, key: Key, seconds: float = 0.0) -> None:
    async with opened.use(key):
        await asyncio.sleep(seconds)


def test_page_lives_for_a_while_after_its_last_reader() -> None:
    async def main(opened: Opened, pages: list[Page]) -> None:
        await read(opened, keys(1)[0])
        await asyncio.sleep(LINGER / 2)
        await read(opened, keys(1)[0])
        assert len(pages) == 1
        await asyncio.sleep(2 * LINGER)
        assert not pages[0].is_open

    simulated(main)


def test_readers_who_open_a_page_at_once_share_it() -> None:
    """While the place for it is made."""

    async def main(opened: Opened, pages: list[Page]) -> None:
        for key in keys(MOST):
            await read(opened, key)
        new = Key("default", "new")
        await asyncio.gather(*(read(opened, new, 1.0) for _ in range(3)))
        assert [page.key for page in pages[MOST:]] == [new]

    assert not any(page.is_open for page in simulated(main))


def test_no_more_pages_than_allowed_are_open() -> None:
    async def main(opened: Opened, pages: list[Page]) -> None:
        for key in keys(MOST):
            await read(opened, key)
        async with AsyncExitStack() as stack:
            news = [Key("default", f"new-{number}") for number in range(MOST)]
            await asyncio.gather(*(stack.enter_async_context(opened.use(key)) for key in news))
            assert sum(page.is_open for page in pages) == MOST

    assert not any(page.is_open for page in simulated(main))


def test_page_that_is_closed_meanwhile_is_closed_once() -> None:
    """The oldest makes room for another while those that nobody reads are closed."""

    async def main(opened: Opened, pages: list[Page]) -> None:
        for key in keys(MOST):
            await read(opened, key)
        await asyncio.sleep(LINGER + LINGER / 4 + SLOW / 2)  # the first is being closed
        async with AsyncExitStack() as stack:
            for key in [*keys(MOST), Key("default", "new")][1:]:
                await stack.enter_async_context(opened.use(key))
            await asyncio.sleep(3 * LINGER)
            assert sum(page.is_open for page in pages) == MOST

    assert not any(page.is_open for page in simulated(main))
