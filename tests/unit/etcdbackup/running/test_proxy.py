"""When the guard is told to let clients in: what decides about ownership runs ahead of what judges the data."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.etcdbackup.running.agent import _ProxyControl
from espalier.etcdbackup.running.event_queue import EventQueue
from espalier.runtime.clock import SystemClock


class Guard:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[float | str] = []

    async def open(self, until: float) -> None:
        self.told.append(until)

    async def shut(self) -> float:
        self.told.append("shut")
        return 0.0


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def test_unjudged_etcd_lets_no_client_in() -> None:
    guard, queue = Guard(), EventQueue[Any](SystemClock())
    proxy = _ProxyControl(cast(Any, SimpleNamespace(guard=guard)), queue)
    running = asyncio.ensure_future(proxy.run())
    proxy.open(100)
    await settled()
    assert (guard.told, proxy.opened_until) == ([], float("-inf"))
    proxy.release()
    await settled()
    assert (guard.told, proxy.opened_until) == ([100], 100)
    proxy.hold()  # etcd ended, and starts anew
    proxy.open(200)
    await settled()
    assert (guard.told, proxy.opened_until) == ([100], float("-inf"))
    proxy.shut()
    proxy.release()
    await settled()
    assert guard.told == [100, "shut"]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await queue.stop()


class SlowGuard(Guard):
    """Answers only when it may; notes what became of a request."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = asyncio.Event()

    async def open(self, until: float) -> None:
        await super().open(until)
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.told.append("cancelled")
            raise


@pytest.mark.parametrize("change", ["hold", "shut"])
async def test_late_answer_of_a_guard_opens_nothing(change: str) -> None:
    """etcd has ended since it was asked, or its epoch has: clients would count as served."""
    guard, queue = SlowGuard(), EventQueue[Any](SystemClock())
    proxy = _ProxyControl(cast(Any, SimpleNamespace(guard=guard)), queue)
    running = asyncio.ensure_future(proxy.run())
    proxy.release()
    proxy.open(100)
    await settled()
    getattr(proxy, change)()
    await settled()
    guard.may_answer.set()
    await settled()
    assert proxy.opened_until == float("-inf")
    assert guard.told == ([100, "cancelled", "shut"] if change == "shut" else [100])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await queue.stop()
