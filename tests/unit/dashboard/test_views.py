"""Views: what is rendered when, and what a failure leaves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from espalier.dashboard.feed import Fragment
from espalier.dashboard.html.page import Frame, Link
from espalier.dashboard.observation import Watched
from espalier.dashboard.views import views
from espalier.dashboard.views.views import View
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.simulated_environment import EPOCH

FRAME = Frame("/r/", "api", "all namespaces", (Link("", "Things"),))


class Things(View):
    """A view that counts its renderings, and fails while it is told to."""

    def __init__(self) -> None:
        watched: Any = SimpleNamespace(banner=lambda: "")
        super().__init__(cast(Watched, watched), FRAME)
        self.rendered = 0
        self.fails = False

    async def render(self) -> None:
        if not self._was_stale():
            return
        self.rendered += 1
        if self.fails:
            raise ValueError("<b>unexpected</b>")
        self.feed.put(Fragment("a", "things", str(self.rendered)))

    def page(self) -> str:
        return ""

    def banner(self) -> str:
        return self.feed.of("banner-place")[0].html


def test_view_renders_what_changes_together_once() -> None:
    async def main(_: Simulation) -> list[int]:
        view = Things()
        task = asyncio.create_task(view.run())
        counts = []
        for _round in range(3):
            for _change in range(100):
                view.mark()
            await asyncio.sleep(10 * views.AGAIN)
            counts.append(view.rendered)
        task.cancel()
        return counts

    assert run(main, epoch=EPOCH, seed=1) == [1, 2, 3]


def test_change_during_the_pause_is_rendered_after_it() -> None:
    async def main(_: Simulation) -> tuple[float, int]:
        view = Things()
        first = view.feed.number
        task = asyncio.create_task(view.run())
        await asyncio.sleep(views.PAUSE / 2)
        view.mark()
        began = asyncio.get_running_loop().time()
        await view.feed.wait(first + 2)  # the banner and the first rendering
        took = asyncio.get_running_loop().time() - began
        task.cancel()
        return took, view.rendered

    took, rendered = run(main, epoch=EPOCH, seed=1)
    assert took <= views.PAUSE
    assert rendered == 2


def test_failed_rendering_shows_until_a_later_succeeds() -> None:
    async def main(_: Simulation) -> list[str]:
        view = Things()
        task = asyncio.create_task(view.run())
        banners = []
        for fails in (False, True, False):
            view.fails = fails
            view.mark()
            await asyncio.sleep(5 * views.AGAIN)
            banners.append(view.banner())
            assert not task.done()
        task.cancel()
        return banners

    before, failed, after = run(main, epoch=EPOCH, seed=1)
    assert "hidden" in before
    assert "could not be rendered" in failed
    assert "&lt;b&gt;unexpected" in failed
    assert "hidden" in after
