"""Keeps a mirror true: list, then watch, and both again for ever, whatever the network does.

As client-go's reflector: a broken watch is resumed where it stopped; a resource version that the server no longer
remembers (410) means a new list; failures are retried with growing, jittered pauses.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import aclosing
from typing import Protocol

import msgspec

from espalier.api.resource import Resource
from espalier.kube.client import Client
from espalier.kube.errors import Expired, KubeError
from espalier.kube.objects import Object
from espalier.kube.watching import EventType

WATCH_SECONDS = 300
"""A watch is asked to end after this long, or up to twice as long: that spreads watches over API servers."""

_GRACE = 30.0
_AT_ONCE = 1.0  # a watch that ends that early without a word is a failure
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 30.0


class Source(msgspec.Struct, frozen=True):
    """What is mirrored: a collection, whole or by namespaces and selectors. No namespaces are all of them."""

    resource: Resource
    namespaces: tuple[str, ...] = ()
    labels: str = ""
    fields: str = ""

    @property
    def shares(self) -> tuple[str | None, ...]:
        """What is followed by itself: each namespace, or None for all at once."""
        return self.namespaces or (None,)


class Mirror(Protocol):
    """What follows the source."""

    def begin_list(self) -> None:
        """A list is about to be asked for; it shows everything that was written before."""

    def listed(self, objects: Sequence[Object]) -> None:
        """A page of the list."""

    def end_list(self, resource_version: str) -> None:
        """The list is complete as of this moment: what it did not name does not exist."""

    def happened(self, type: EventType, object: Object) -> None:
        """One event of the watch."""


class Reflector:
    """Follows one source for one mirror."""

    def __init__(
        self, client: Client, source: Source, mirror: Mirror, entropy: random.Random, namespace: str | None = None
    ) -> None:
        self._client = client
        self.source = source
        self._namespace = namespace
        self._mirror = mirror
        self._entropy = entropy
        self._position = ""  # the resource version to watch from; empty: list first
        self._page = 500
        self._failures = 0
        self.silent_since: float | None = None
        """When (by the loop's clock) it failed first since the server was heard last; None while all is well."""
        self.trouble: KubeError | TimeoutError | None = None
        """What it failed with last since the server was heard, if the server or the way to it said anything."""
        self._told = ""

    async def run(self) -> None:
        """Follow until cancelled."""
        while True:
            try:
                if not self._position:
                    await self._list()
                await self._watch()
            except Expired as error:
                # While listing: the moment of the pages was compacted away, so ask for all in one piece.
                self._page = 500 if self._position else 0
                self._position = ""
                await self._pause(error)
            except (KubeError, TimeoutError) as error:
                await self._pause(error)

    async def _list(self) -> None:
        source = self.source
        self._mirror.begin_list()
        resource_version = ""
        pages = self._client.pages(
            source.resource, self._namespace, labels=source.labels, fields=source.fields, limit=self._page
        )
        async with aclosing(pages):
            async for page in pages:
                self._mirror.listed(page.items)
                resource_version = page.resource_version
        self._mirror.end_list(resource_version)
        self._position, self._page = resource_version, 500
        self._heard()

    async def _watch(self) -> None:
        source, begun_from = self.source, self._position
        seconds = int(WATCH_SECONDS * (1 + self._entropy.random()))
        loop = asyncio.get_running_loop()
        started = loop.time()
        events = self._client.watch(
            source.resource,
            self._namespace,
            resource_version=begun_from,
            labels=source.labels,
            fields=source.fields,
            timeout_seconds=seconds,
            opened=self._heard,
        )
        happened = self._mirror.happened
        try:
            # The server ends the watch in time; if it does not, the connection is dead and nobody told us.
            async with asyncio.timeout(seconds + _GRACE), aclosing(events):
                async for event in events:
                    happened(event.type, event.object)
                    self._position = event.object.resource_version
        finally:
            lived = self._position != begun_from or loop.time() - started >= _AT_ONCE
            if lived:
                self._failures = 0
        if not lived:
            await self._pause(None)

    def _heard(self) -> None:
        self.silent_since = self.trouble = None
        self._told = ""

    async def _pause(self, error: KubeError | TimeoutError | None) -> None:
        pause = min(_FIRST_PAUSE * 2.0**self._failures, _LONGEST_PAUSE) * (0.5 + self._entropy.random())
        self._failures = min(self._failures + 1, 16)
        if self.silent_since is None:
            self.silent_since = asyncio.get_running_loop().time()
        import structlog  # noqa: PLC0415  whoever fills caches by hand need not load it

        why = (str(error) or "no answer in time") if error else "the server ended the watch at once"
        logger = structlog.get_logger("espalier.cache")
        # What stays as it is, is said once: it may last for days.
        (logger.debug if why == self._told else logger.warning)(
            "watch interrupted",
            resource=self.source.resource.group_resource,
            error=why,
            retry_in_seconds=round(pause, 3),
        )
        self.trouble, self._told = error, why
        await asyncio.sleep(pause)
