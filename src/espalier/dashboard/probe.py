"""A probe of the API server: a watch of one that hangs is as silent as a watch of objects that do not change."""

from __future__ import annotations

import asyncio

from espalier.kube.client import Client
from espalier.kube.errors import KubeError, Unauthorized
from espalier.kube.transports.wire import Request

PERIOD = 3.0
"""Seconds between two requests."""
DEADLINE = 5.0
"""Seconds for an answer; what it is does not matter."""


class Probe:
    """Asks the API server for its version, again and again."""

    def __init__(self, client: Client) -> None:
        self._transport = client.transport
        self.silent_since: float | None = None
        """When (by the loop's clock) the first request without an answer was sent; None after an answer."""
        self.trouble = ""
        """The reason for that."""
        self.refused = asyncio.Event()
        """Set once it answers that it refuses the credentials. Watches that it has accepted before go on regardless."""

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await self.ask()
            await asyncio.sleep(PERIOD)

    async def ask(self) -> None:
        """Ask once."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.timeout(DEADLINE):  # not the transport's: it may wait for its other requests first
                response = await self._transport.request(Request("GET", "/version", timeout=None))
        except (KubeError, TimeoutError) as error:
            self.trouble = str(error) or f"no answer within {DEADLINE:g} seconds"
            if self.silent_since is None:
                self.silent_since = began
        else:
            self.silent_since, self.trouble = None, ""
            if response.status == Unauthorized.code:
                self.refused.set()
