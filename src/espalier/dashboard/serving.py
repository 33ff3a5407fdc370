"""The server of the pages: on loopback, for whoever has the address (`guard.py`)."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from importlib.resources import files

import msgspec
from aiohttp import web

from espalier.api.resource import Key
from espalier.dashboard.cluster_view import ClusterView
from espalier.dashboard.cluster_watch import ClusterWatch, kinds_of
from espalier.dashboard.feed import Changes, Feed
from espalier.dashboard.garden_views import GardenView, ShootView
from espalier.dashboard.guard import HEADERS, Guard
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.page import Frame, Link
from espalier.dashboard.observation import GardenObservation, Observation, is_garden, is_management_cluster
from espalier.dashboard.opened import Opened, TooMany
from espalier.dashboard.plans import Planner
from espalier.dashboard.views import FleetView, View
from espalier.runtime.serving import HttpServer

MOST_STREAMS = 64
"""Pages that are followed at the same time."""
PING = 15.0
"""Seconds without a change after which a stream shows that it is alive."""
SEND_WITHIN = 30.0
"""Seconds for a browser to take what is sent; one that sleeps connects again."""

_TYPES = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STATIC = ("dashboard.css", "dashboard.js", "icon.svg")

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Names of objects, and of namespaces."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Dashboard:
    """Pages of what is observed. Use `running`."""

    def __init__(self, observation: Observation, *, server: str, planner: Planner) -> None:
        """`server` is the name of the API server for people; `planner` plans a cluster as it is."""
        scope = f"namespace {', '.join(observation.namespaces)}" if observation.namespaces else "all namespaces"
        self._guard = Guard()
        self._observation = observation
        served, client, clock = observation.served, observation.client, observation.clock
        links = [Link("", "Clusters")] if is_management_cluster(served) or not is_garden(served) else []
        links += [Link("shoots", "Shoots")] if is_garden(served) else []
        self._frame = Frame(self._guard.root, server, scope, tuple(links))
        self._fleet = FleetView(observation, self._frame)
        self._garden = None
        if is_garden(served):
            observed = GardenObservation(client, clock, observation.namespaces, observation.probe)
            self._garden = GardenView(observed, self._frame)
        self._planner = planner
        self._planning = asyncio.Semaphore(1)
        self._kinds = kinds_of(observation.served)
        self._clusters = Opened(self._open_cluster, "cluster")
        self._shoots = Opened(self._open_shoot, "shoot")
        self._streams = 0
        self._ending = asyncio.Event()
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
        server = HttpServer(self._application(), "127.0.0.1", port)
        await server.start()
        self._port = server.port
        loop = asyncio.get_running_loop()
        observed = self._observation
        works = [observed.caches.run(), observed.probe.run()]
        works += [self._fleet.run(), self._clusters.run(), self._shoots.run()]
        works += self._garden.works() if self._garden is not None else []
        tasks = [loop.create_task(work) for work in works]
        try:
            yield
        finally:
            self._ending.set()
            await server.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._guarded], client_max_size=1)
        root = self._guard.root
        application.add_routes(
            [
                web.get("/", self._open),
                web.get(root, self._first_page),
                web.get(f"{root}events/fleet", self._events_of(self._fleet)),
                *self._routes_of("clusters", self._clusters),
                web.get(f"{root}static/{{name}}", self._static),
            ]
        )
        if self._garden is not None:
            application.add_routes(
                [
                    web.get(f"{root}shoots", self._page_of(self._garden)),
                    web.get(f"{root}events/shoots", self._events_of(self._garden)),
                    *self._routes_of("shoots", self._shoots),
                ]
            )
        return application

    def _routes_of(self, path: str, opened: Opened) -> list[web.RouteDef]:
        """The routes of pages of single objects."""

        async def page(request: web.Request) -> web.StreamResponse:
            try:
                async with opened.use(self._key_of(request)) as view:
                    await view.wait_filled()
                    return _plain("Not found", view.absence, 404) if view.absence else _html(view.page())
            except TooMany as error:
                return _plain("Too many", str(error), 503)

        async def events(request: web.Request) -> web.StreamResponse:
            try:
                async with opened.use(self._key_of(request)) as view:
                    return await self._stream(request, view)
            except TooMany as error:
                return web.Response(status=503, text=f"{error}\n")

        root, names = self._guard.root, "{namespace}/{name}"
        return [web.get(f"{root}{path}/{names}", page), web.get(f"{root}events/{path}/{names}", events)]

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        refusal = self._guard.refusal(request, self._port)
        if refusal is not None:
            response: web.StreamResponse = web.Response(status=refusal.status, text=f"{refusal.message}\n")
        elif request.path != "/" and not self._guard.knows(request):
            response = _plain("Not allowed", _NOT_OPENED, 403)
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _plain("Not found" if error.status == 404 else error.reason, _ABSENT, error.status)
        if not response.prepared:
            response.headers.update(HEADERS)
        return response

    async def _open(self, request: web.Request) -> web.StreamResponse:
        """Exchange the token for the cookie. Not by a redirect: a browser omits a strict cookie after one, if a page of
        another site, or a file, led to it."""
        if not self._guard.opens(request):
            return _plain("Not allowed", _NOT_OPENED, 403)
        self._opened.set()
        response = web.Response(
            text=frames.plain("Espalier", "The dashboard opens.", to=self._guard.root), content_type="text/html"
        )
        self._guard.let_in(response)
        return response

    async def _first_page(self, _request: web.Request) -> web.StreamResponse:
        if self._garden is not None and self._frame.links[0].path:
            return _html(self._garden.page())
        return _html(self._fleet.page())

    def _page_of(self, view: View) -> Handler:
        async def page(_request: web.Request) -> web.StreamResponse:
            return _html(view.page())

        return page

    def _events_of(self, view: View) -> Handler:
        async def events(request: web.Request) -> web.StreamResponse:
            return await self._stream(request, view)

        return events

    def _open_cluster(self, key: Key) -> ClusterView:
        watch = ClusterWatch(self._observation, key, self._kinds)
        return ClusterView(watch, self._frame, self._fleet, self._planner, self._planning)

    def _open_shoot(self, key: Key) -> ShootView:
        if self._garden is None:
            raise web.HTTPNotFound
        return ShootView(self._garden.observation, self._frame, key, self._garden)

    def _key_of(self, request: web.Request) -> Key:
        """The object that a path names. Raises `HTTPNotFound` for one that can't exist, or is not shown."""
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        only = self._observation.namespaces
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)) or (only and namespace not in only):
            raise web.HTTPNotFound
        return Key(namespace, name)

    async def _static(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["name"]
        if name not in _STATIC:
            raise web.HTTPNotFound
        content = files("espalier.dashboard").joinpath("static", name).read_bytes()
        return web.Response(body=content, content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")

    async def _stream(self, request: web.Request, view: View) -> web.StreamResponse:
        """Send what changes on a page until the browser leaves."""
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        if self._streams >= MOST_STREAMS:
            return web.Response(status=503, text=f"{MOST_STREAMS} pages are open already: close some\n")
        since = request.headers.get("Last-Event-ID") or request.query.get("since", "")
        number = int(since) if since.isdecimal() and len(since) < 16 else -1
        response = web.StreamResponse(headers={**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"})
        self._streams += 1
        try:
            await response.prepare(request)
            await _send(response, b"retry: 1000\n\n")
            await self._follow(response, view.feed, number)
        except (ConnectionError, TimeoutError):
            if request.transport is not None:
                request.transport.abort()  # it reads no more
        finally:
            self._streams -= 1
        return response

    async def _follow(self, response: web.StreamResponse, feed: Feed, number: int) -> None:
        ending = asyncio.get_running_loop().create_task(self._ending.wait())
        try:
            while not self._ending.is_set():
                changes = feed.since(number)
                if changes is None:
                    await _send(response, b"event: reload\ndata: {}\n\n")
                    return
                if changes.number > number:
                    await _send(response, _event(changes))
                    number = changes.number
                waiting = asyncio.get_running_loop().create_task(feed.wait(number))
                done, _ = await asyncio.wait({waiting, ending}, timeout=PING, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not done:
                    await _send(response, b": alive\n\n")
        finally:
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending


async def _send(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(SEND_WITHIN):
        await response.write(data)


def _event(changes: Changes) -> bytes:
    data = msgspec.json.encode({"put": changes.put, "removed": changes.removed})
    return b"id: %d\nevent: changes\ndata: %b\n\n" % (changes.number, data)


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")


def _plain(title: str, message: str, status: int) -> web.Response:
    return web.Response(text=frames.plain(title, message), status=status, content_type="text/html")


_NOT_OPENED = (
    "This address opens nothing without its token: open the one that `espalier dashboard` printed on its terminal. If "
    "that command has ended, start it again."
)
_ABSENT = "There is no such page."
