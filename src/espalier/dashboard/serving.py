"""The server of the pages on loopback, for whoever has the address (`guard.py`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from espalier.dashboard.guard import HEADERS, Guard
from espalier.dashboard.html import page as frames
from espalier.dashboard.models.plans import Planner
from espalier.dashboard.observation import Observation
from espalier.dashboard.pages import Pages, Place, plain
from espalier.runtime.servers.serving import HttpServer

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Dashboard:
    """Pages of what is observed. Use `running`."""

    def __init__(self, observation: Observation, *, server: str, planner: Planner) -> None:
        """`server` is the name of the API server for people; `planner` plans a cluster as it is."""
        self._guard = Guard()
        self._pages = Pages(observation, planner, Place(self._guard.root, server))
        self._port = 0
        self._opened = asyncio.Event()

    @property
    def address(self) -> str:
        """The address that opens the dashboard: for the caller's eyes alone."""
        return self._guard.address(self._port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    async def wait_opened(self) -> None:
        """Wait until somebody has opened the address."""
        await self._opened.wait()

    @asynccontextmanager
    async def running(self, port: int) -> AsyncIterator[None]:
        """Observe and serve within the block. Raises `OSError` if the port is in use."""
        application = web.Application(middlewares=[self._guarded], client_max_size=1)
        application.add_routes([web.get("/", self._open), web.get(f"{self._guard.root}{{path:.*}}", self._answer)])
        server = HttpServer(application, "127.0.0.1", port)
        await server.start()
        self._port = server.port
        async with self._pages.running():
            try:
                yield
            finally:
                self._pages.end()
                await server.stop()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request, self._port)
        if refusal is not None:
            response: web.StreamResponse = web.Response(status=refusal.status, text=f"{refusal.message}\n")
        elif request.path != "/" and not self._guard.knows(request):
            response = plain("Not allowed", _NOT_OPENED, 403)
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = plain("Not found" if error.status == 404 else error.reason, ABSENT, error.status)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _open(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for the cookie. Not by a redirect: a browser omits a strict cookie after one, if a page of
        another site, or a file, led to it."""
        if not self._guard.opens(request):
            return plain("Not allowed", _NOT_OPENED, 403)
        self._opened.set()
        response = web.Response(
            text=frames.plain("Espalier", "The dashboard opens.", to=self._guard.root), content_type="text/html"
        )
        self._guard.let_in(response)
        return response

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        return await self._pages.answer(request, request.match_info["path"])


_NOT_OPENED = (
    "This address opens nothing without its token: open the one that `espalier dashboard` printed on its terminal. If "
    "that command has ended, start it again."
)
ABSENT = "There is no such page."
