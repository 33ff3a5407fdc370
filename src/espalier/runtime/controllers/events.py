"""Events, which `kubectl describe` shows under an object.

Recording never waits: events are queued and written in the background, by a task that exists only while there is
something to write. A repeated event raises the count of the previous one; floods are dropped (client-go's rules).
"""

from __future__ import annotations

import asyncio
import random
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import structlog

from espalier.api.conditions import timestamp
from espalier.api.core import CORE_EVENT
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock

EventType = Literal["Normal", "Warning"]

BURST, REFILL_SECONDS = 25, 300.0
"""The most events of an object at once; after that, one more is allowed every five minutes."""

REMEMBERED = 4096
"""The number of recent events and objects to remember, to raise counts and to drop floods."""

FORGOTTEN_AFTER = 600.0
"""Seconds after which a repeated event counts as a new one."""

_PENDING = 1000
_LONGEST_MESSAGE = 1024

_log = structlog.get_logger("espalier.events")


class _EventText(NamedTuple):
    """The identity of an event."""

    uid: str
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class _Entry:
    """An event that was or will be written. The API has this `count` once nothing is pending."""

    body: dict[str, Any]
    last: float
    count: int = 1
    written: bool = False


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class Recorder:
    """Records events as `component`. It needs only the rights to create and patch events."""

    def __init__(
        self,
        client: Client,
        *,
        component: str,
        clock: Clock,
        rng: random.Random,
        instance: str = "",
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._clock = clock
        self._rng = rng
        self._entries: OrderedDict[_EventText, _Entry] = OrderedDict()
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()
        self._pending: OrderedDict[_EventText, None] = OrderedDict()
        self._writer: asyncio.Task[None] | None = None

    def event(self, object_: Object, type: EventType, reason: str, message: str) -> None:
        """Record an event of an object. `reason` is CamelCase and stable; `message` must not contain secrets."""
        now = self._clock.monotonic()
        if not self._allowed(object_.metadata.uid, now) or len(self._pending) >= _PENDING:
            return
        message = message[:_LONGEST_MESSAGE]
        text = _EventText(object_.metadata.uid, type, reason, message)
        entry = self._entries.get(text)
        if entry is not None and now - entry.last < FORGOTTEN_AFTER:
            entry.count += 1
            entry.last = now
            self._entries.move_to_end(text)
        else:
            self._entries[text] = _Entry(self._body(object_, text), now)
            self._entries.move_to_end(text)
            while len(self._entries) > REMEMBERED:
                oldest, _ = self._entries.popitem(last=False)
                self._pending.pop(oldest, None)
        self._pending[text] = None
        if self._writer is None:
            self._writer = asyncio.get_running_loop().create_task(self._write_all(), name="events")

    async def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        if self._writer is not None:
            await asyncio.wait([self._writer])

    async def close(self) -> None:
        """Drop events that are not written yet."""
        self._pending.clear()
        if self._writer is not None:
            self._writer.cancel()
            await asyncio.wait([self._writer])

    def _allowed(self, uid: str, now: float) -> bool:
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = _Bucket(BURST, now)
            if len(self._buckets) > REMEMBERED:
                self._buckets.popitem(last=False)
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        self._buckets.move_to_end(uid)
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _body(self, object_: Object, text: _EventText) -> dict[str, Any]:
        now = timestamp(self._clock.now())
        # Events of cluster-scoped objects are in "default", as those of nodes.
        namespace = object_.namespace or "default"
        return {
            "metadata": {"name": f"{object_.name[:200]}.{self._rng.getrandbits(64):016x}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": object_.head.api_version,
                "kind": object_.kind,
                "name": object_.name,
                "namespace": object_.namespace,
                "uid": text.uid,
                "resourceVersion": object_.resource_version,
            },
            "type": text.type,
            "reason": text.reason,
            "message": text.message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    async def _write_all(self) -> None:
        try:
            while self._pending:
                text, _ = self._pending.popitem(last=False)
                entry = self._entries[text]
                try:
                    await self._write(entry)
                except KubeError as error:
                    _log.warning("could not write an event", reason=text.reason, error=str(error))
        finally:
            self._writer = None

    async def _write(self, entry: _Entry) -> None:
        metadata, count = entry.body["metadata"], entry.count
        change = {"count": count, "lastTimestamp": timestamp(self._clock.now())}
        if entry.written:
            try:
                await self._client.patch(
                    CORE_EVENT, metadata["name"], metadata["namespace"], patch=change, type=PatchType.MERGE
                )
                return
            except NotFound:  # events expire after an hour
                entry.count = change["count"] = 1
        try:
            await self._client.create(CORE_EVENT, entry.body | change)
        except AlreadyExists:
            _log.debug("an event had been written without a response", name=metadata["name"])
        entry.written = True
