"""Keeps a mirror up to date: lists, then watches, and repeats both, whatever the network does.

As client-go's reflector, it resumes a broken watch where it stopped; a resource version that the server has compacted
(410) or does not know yet causes a new list, and so does an unreadable event; failures are retried with growing,
jittered pauses, until the connection has worked for a while.

A server whose storage was restored does not reject a watch from a future revision: it sends nothing until it reaches
that. So before a watch that ended early is resumed, the server is asked for its revision; and an event with an earlier
revision than the one before causes a new list.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec

from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import (
    ApiError,
    Expired,
    Forbidden,
    KubeError,
    NotFound,
    NotKubernetes,
    ServerFailure,
    Unreachable,
    of_the_future,
)
from espalier.kube.objects import Object
from espalier.kube.watching import EventType

WATCH_SECONDS = 300
"""The timeout of a watch is between this and twice as long, to spread watches over API servers."""

_PAGE = 500
_SMALLEST_PAGE = 25
_GRACE = 30.0
_SHORTEST_WATCH = 1.0  # a watch that ends within this time without an event is a failure
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


def earlier(version: str, other: str) -> bool:
    """True if a resource version is before another one: numbers of any length, as in Kubernetes since 1.35."""
    if not (version.isdecimal() and other.isdecimal()):
        return False
    return (len(version), version) < (len(other), other)


ABSENT = "absent"
"""The resource version of a list of a kind that is not defined, or that may not be read."""


class Source(msgspec.Struct, frozen=True):
    """The source of a mirror: a collection, limited by namespaces (none for all) and selectors."""

    resource: Resource
    namespaces: tuple[str, ...] = ()
    labels: str = ""
    fields: str = ""
    optional: bool = False
    """True if the kind may be undefined: then the mirror is empty until it is defined."""
    missed: bool = True
    """False for a kind of a product that need not be there, so that nobody is told that it isn't."""
    may_be_forbidden: bool = False
    """True if the right to read it may be missing: then the mirror is empty until it is given."""

    @property
    def shares(self) -> tuple[str | None, ...]:
        """The parts that are followed separately: each namespace, or None for all at once."""
        return self.namespaces or (None,)


class Mirror(Protocol):
    """The receiver of a source's lists and events."""

    def begin_list(self, *, restored: bool = False) -> None:
        """Begin a list, which will show all earlier writes.

        `restored`: the server was restored to an earlier state, so earlier resource versions are invalid.
        """

    def listed(self, objects: Sequence[Object]) -> None:
        """Receive a page of the list."""

    def end_list(self, resource_version: str) -> None:
        """End the list, complete as of this version: objects that it did not have do not exist."""

    def happened(self, type: EventType, object: Object) -> None:
        """Receive an event of the watch."""


class Reflector:
    """Follows one source for one mirror."""

    def __init__(
        self,
        client: Client,
        source: Source,
        mirror: Mirror,
        rng: random.Random,
        namespace: str | None = None,
        *,
        on_served: Callable[[], None] = lambda: None,
    ) -> None:
        self._client = client.without_repeats()
        self.source = source
        self._namespace = namespace
        self._mirror = mirror
        self._rng = rng
        self._on_served = on_served
        self._position = ""  # the resource version to watch from; empty: list first
        self._ended_early = False  # the last watch; the server may have been replaced since
        self._restored = False
        self._page = _PAGE
        self._failures = 0
        self.silent_since: float | None = None
        """When (by the loop's clock) the first failure since the last answer was; None while there is none."""
        self.trouble: KubeError | TimeoutError | None = None
        """The last error since the server answered, if any."""
        self.is_served = True
        """False while the API server does not define the kind. `on_served` is called when that changes."""
        self._logged = ""

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if self._position and self._ended_early:
                    await self._compare_revisions()
                if not self._position:
                    await self._list()
                await self._watch()
            except (KubeError, TimeoutError) as error:
                if isinstance(error, NotFound):
                    self._served(False)
                    if self.source.optional:
                        self._empty_mirror()
                if isinstance(error, Forbidden) and self.source.may_be_forbidden:
                    self._empty_mirror()
                self._prepare_retry(error)
                await self._pause(error)

    def _empty_mirror(self) -> None:
        """Make the mirror empty, as nothing can be read. It is requested again later."""
        self._position = ""
        self._mirror.begin_list()
        self._mirror.end_list(ABSENT)

    def _prepare_retry(self, error: KubeError | TimeoutError) -> None:
        """Decide if and how to list again after this failure."""
        match error:
            case Expired():
                # During a list: the revision of the pages was compacted, so request all in one page.
                self._page = _PAGE if self._position else 0
                self._position = ""
            case ApiError() if of_the_future(error):
                self._position, self._restored = "", True
            case NotKubernetes():
                # An unreadable event would be sent again; a list has the state after it.
                self._page = _PAGE
                self._position = ""
            case Unreachable(sent=True) | ServerFailure() | TimeoutError() if not self._position:
                # A server that is too slow for a page of large objects has been seen to fail every list of a fleet.
                self._page = max(_SMALLEST_PAGE, (self._page or _PAGE) // 4)

    async def _compare_revisions(self) -> None:
        """Forget the position if the server's revision is before it."""
        source = self.source
        pages = self._client.pages(
            source.resource, self._namespace, labels=source.labels, fields=source.fields, limit=1
        )
        async with aclosing(pages):
            now = (await anext(pages)).resource_version
        if earlier(now, self._position):
            self._position, self._restored = "", True
        self._ended_early = False

    async def _list(self) -> None:
        source = self.source
        self._mirror.begin_list(restored=self._restored)
        resource_version = ""
        pages = self._client.pages(
            source.resource, self._namespace, labels=source.labels, fields=source.fields, limit=self._page
        )
        async with aclosing(pages):
            async for page in pages:
                self._mirror.listed(page.items)
                resource_version = page.resource_version
        self._mirror.end_list(resource_version)
        self._position, self._page, self._restored = resource_version, _PAGE, False
        self._ended_early = False
        self._reset_failures()

    async def _watch(self) -> None:
        source, start_version = self.source, self._position
        seconds = int(WATCH_SECONDS * (1 + self._rng.random()))
        loop = asyncio.get_running_loop()
        opened_at = math.inf

        def opened() -> None:
            nonlocal opened_at
            opened_at = loop.time()
            self._reset_failures()

        events = self._client.watch(
            source.resource,
            self._namespace,
            resource_version=start_version,
            labels=source.labels,
            fields=source.fields,
            timeout_seconds=seconds,
            opened=opened,
        )
        happened = self._mirror.happened
        try:
            # The server ends the watch in time; otherwise the connection is dead.
            async with asyncio.timeout(seconds + _GRACE), aclosing(events):
                async for event in events:
                    if earlier(event.object.resource_version, self._position):
                        self._position, self._restored = "", True
                        break
                    happened(event.type, event.object)
                    self._position = event.object.resource_version
        except NotKubernetes:
            raise  # such an answer does not count as a working server
        except BaseException:
            self._made_progress(start_version, loop.time() - opened_at)
            raise
        finally:
            self._ended_early = loop.time() - opened_at < seconds - _SHORTEST_WATCH
        if not self._made_progress(start_version, loop.time() - opened_at):
            await self._pause(None)

    def _made_progress(self, start_version: str, seconds: float) -> bool:
        """True if a watch sent an event or lasted: only that resets the pause."""
        made_progress = self._position != start_version or seconds >= _SHORTEST_WATCH
        if made_progress:
            self._failures = 0
        return made_progress

    def _reset_failures(self) -> None:
        self.silent_since = self.trouble = None
        self._logged = ""
        self._served(True)

    def _served(self, is_served: bool) -> None:
        changed, self.is_served = is_served != self.is_served, is_served
        if changed:
            self._on_served()

    async def _pause(self, error: KubeError | TimeoutError | None) -> None:
        pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE) * (0.5 + self._rng.random())
        self._failures = min(self._failures + 1, 16)
        if self.silent_since is None:
            self.silent_since = asyncio.get_running_loop().time()
        import structlog  # noqa: PLC0415  tests that fill caches by hand need not load it

        message = (str(error) or "no answer in time") if error else "the server ended the watch at once"
        logger = structlog.get_logger("espalier.cache")
        # A repeated error is logged once, as it may last for days; kinds that are not served are logged together.
        is_known = message == self._logged or isinstance(error, NotFound)
        (logger.debug if is_known else logger.warning)(
            "watch interrupted",
            resource=self.source.resource.group_resource,
            error=message,
            retry_in_seconds=round(pause, 3),
        )
        self.trouble, self._logged = error, message
        await asyncio.sleep(pause)
