"""Somebody who asks a Service while things happen to its nodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime

import aiohttp

from espalier.realnodes.nspawn.system.state import State
from tests.support.environments import workload_use as use
from tests.support.environments.real_environment import RealEnvironment


class Asking:
    """Asks the Service at its port of the nodes again and again, as a load balancer's clients would."""

    def __init__(self, env: RealEnvironment) -> None:
        self._environment = env
        self.answered = 0
        self.failed: list[str] = []

    async def run(self) -> None:
        """Ask ten times a second until cancelled."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            while True:
                problems = [await self._ask(session, node["address"]) for node in self._nodes()]
                if "" in problems:
                    self.answered += 1
                else:
                    self.failed.append(f"{datetime.now(UTC):%T} {problems}")
                await asyncio.sleep(0.1)

    def _nodes(self) -> list[dict[str, str]]:
        return [
            {"address": record.address} for record in State(self._environment.home.nodes).nodes() if not record.crashed
        ]

    async def _ask(self, session: aiohttp.ClientSession, address: str) -> str:
        """The failure; empty when there was an answer."""
        url = f"http://{address}:{use.NODE_PORT}/"
        try:
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                return "" if (await answer.text()).startswith("web-") else f"{address}: {answer.status}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{address}: {error!r}"


@asynccontextmanager
async def asked_throughout(env: RealEnvironment) -> AsyncIterator[Asking]:
    """Have the Service asked while the block runs; every answer comes."""
    asking = Asking(env)
    task = asyncio.create_task(asking.run())
    try:
        yield asking
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    failed = asking.failed
    assert (asking.answered > 0, failed) == (True, []), f"{asking.answered} answered, {len(failed)} not: {failed[:20]}"
