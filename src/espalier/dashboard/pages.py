"""The pages of what is observed with the rights of one caller, and the streams of what changes on them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.resources import files
from typing import NamedTuple

import msgspec
from aiohttp import web

from espalier.api.resource import Key
from espalier.dashboard.cluster_watch import ClusterWatch, kinds_of
from espalier.dashboard.feed import Changes, Feed
from espalier.dashboard.guard import HEADERS
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.page import Frame, Link
from espalier.dashboard.models.plans import Planner
from espalier.dashboard.observation import GardenObservation, Observation, is_garden, is_management_cluster
from espalier.dashboard.views.cluster_view import ClusterView
from espalier.dashboard.views.garden_views import GardenView, ShootView
from espalier.dashboard.views.opened import Opened, TooMany
from espalier.dashboard.views.views import FleetView, View

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

_RELOAD = b"event: reload\ndata: {}\n\n"


class Place(NamedTuple):
    """Where pages are served, and for whom."""

    root: str
    """The path that they are below, with a slash at its end."""
    server: str
    """The API server, for people."""
    user: str = ""
    """The user whom an API server named, for pages that others read with other rights."""
    most_streams: int = MOST_STREAMS


class Pages:
    """Pages of an observation, within `running`."""

    def __init__(self, observation: Observation, planner: Planner, place: Place) -> None:
        """`planner` plans a cluster as it is."""
        scope = f"namespace {', '.join(observation.namespaces)}" if observation.namespaces else "all namespaces"
        self._observation = observation
        served, client, clock = observation.served, observation.client, observation.clock
        links = [Link("", "Clusters")] if is_management_cluster(served) or not is_garden(served) else []
        links += [Link("shoots", "Shoots")] if is_garden(served) else []
        self._frame = Frame(place.root, place.server, scope, tuple(links), place.user)
        self._most_streams = place.most_streams
        self._fleet = FleetView(observation, self._frame)
        self._garden = None
        if is_garden(served):
            observed = GardenObservation(client, clock, observation.namespaces, observation.probe, observation.advice)
            self._garden = GardenView(observed, self._frame)
        self._planner = planner
        self._planning = asyncio.Semaphore(1)
        self._kinds = kinds_of(observation.served)
        self._clusters = Opened(self._open_cluster, "cluster")
        self._shoots = Opened(self._open_shoot, "shoot")
        self._streams = 0
        self._ending = asyncio.Event()
        self._is_refused = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Observe within the block, and keep the pages up to date. Streams end with `end`, or after the block."""
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
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def end(self, *, refused: bool = False) -> None:
        """End all streams. `refused`: as the API server refuses the caller; browsers then load their pages again, and
        so learn why."""
        self._is_refused = refused
        self._ending.set()

    async def answer(self, request: web.Request, path: str) -> web.StreamResponse:
        """The answer to a request for a path below the root. Raises `web.HTTPNotFound`."""
        is_stream = path.startswith("events/")
        if path == "":
            return _html(self._first.page())
        match path.removeprefix("events/").split("/"):
            case ["fleet"] if is_stream:
                return await self._stream(request, self._fleet)
            case ["shoots"] if self._garden is not None:
                return await self._stream(request, self._garden) if is_stream else _html(self._garden.page())
            case ["clusters", namespace, name]:
                return await self._answer_of(self._clusters, self._key(namespace, name), request, is_stream=is_stream)
            case ["shoots", namespace, name] if self._garden is not None:
                return await self._answer_of(self._shoots, self._key(namespace, name), request, is_stream=is_stream)
            case ["static", name] if not is_stream:
                return static(name)
        raise web.HTTPNotFound

    @property
    def _first(self) -> View:
        if self._garden is not None and self._frame.links[0].path:
            return self._garden
        return self._fleet

    async def _answer_of(
        self, opened: Opened, key: Key, request: web.Request, *, is_stream: bool
    ) -> web.StreamResponse:
        """The page of a single object, or its stream."""
        try:
            async with opened.use(key) as view:
                if is_stream:
                    return await self._stream(request, view)
                await view.wait_filled()
                return plain("Not found", view.absence, 404) if view.absence else _html(view.page())
        except TooMany as error:
            return web.Response(status=503, text=f"{error}\n") if is_stream else plain("Too many", str(error), 503)

    def _open_cluster(self, key: Key) -> ClusterView:
        watch = ClusterWatch(self._observation, key, self._kinds)
        return ClusterView(watch, self._frame, self._fleet, self._planner, self._planning)

    def _open_shoot(self, key: Key) -> ShootView:
        if self._garden is None:
            raise web.HTTPNotFound
        return ShootView(self._garden.observation, self._frame, key, self._garden)

    def _key(self, namespace: str, name: str) -> Key:
        """The object that a path names. Raises `HTTPNotFound` for one that can't exist, or is not shown."""
        only = self._observation.namespaces
        if not (_NAME.fullmatch(namespace) and _NAME.fullmatch(name)) or (only and namespace not in only):
            raise web.HTTPNotFound
        return Key(namespace, name)

    async def _stream(self, request: web.Request, view: View) -> web.StreamResponse:
        """Send what changes on a page until the browser leaves."""
        if request.method == "HEAD":
            return web.Response(content_type="text/event-stream")
        if self._streams >= self._most_streams:
            return web.Response(status=503, text=f"{self._most_streams} pages are open already: close some\n")
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
                    await _send(response, _RELOAD)
                    return
                if changes.number > number:
                    await _send(response, _event(changes))
                    number = changes.number
                waiting = asyncio.get_running_loop().create_task(feed.wait(number))
                done, _ = await asyncio.wait({waiting, ending}, timeout=PING, return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if not done:
                    await _send(response, b": alive\n\n")
            if self._is_refused:
                await _send(response, _RELOAD)
        finally:
            ending.cancel()
            with suppress(asyncio.CancelledError):
                await ending


def static(name: str) -> web.Response:
    """A file that pages load. Raises `HTTPNotFound`."""
    if name not in _STATIC:
        raise web.HTTPNotFound
    content = files("espalier.dashboard").joinpath("static", name).read_bytes()
    return web.Response(body=content, content_type=_TYPES[name.rpartition(".")[2]], charset="utf-8")


def plain(title: str, message: str, status: int) -> web.Response:
    """A page that says one thing."""
    return web.Response(text=frames.plain(title, message), status=status, content_type="text/html")


async def _send(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(SEND_WITHIN):
        await response.write(data)


def _event(changes: Changes) -> bytes:
    data = msgspec.json.encode({"put": changes.put, "removed": changes.removed})
    return b"id: %d\nevent: changes\ndata: %b\n\n" % (changes.number, data)


def _html(text: str) -> web.Response:
    return web.Response(text=text, content_type="text/html")
