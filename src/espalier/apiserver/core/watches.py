"""Watches: each reads the history of its table at its own pace, so a slow reader costs no memory.

A watch that falls behind the history ends with 410, like one that starts from a version that is too old.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import datetime

from espalier.apiserver.builtin.tables import Form, form_of
from espalier.apiserver.core.core import raw_in_served_version
from espalier.apiserver.core.reading import revision_of
from espalier.apiserver.requests.requests import RequestInfo
from espalier.apiserver.requests.selectors import selector_of
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.storage.store import Change, Store
from espalier.apiserver.wire import failures, options
from espalier.apiserver.wire.content import status_tree
from espalier.kube.errors import ApiError, Expired
from espalier.kube.objects import Object, encode_json

INITIAL_END = "k8s.io/initial-events-end"

_EVENT = b'{"type":"%s","object":%s}'


class Watch:
    """A running watch: a `kube.transports.wire.Stream` of encoded events."""

    def __init__(self, store: Store, info: RequestInfo, now: Callable[[], datetime]) -> None:
        """Start at the request's resource version. Raises `ServerFailure` for an invalid one.

        As in kube-apiserver, changes up to a version in the future are not sent, because the client claims to have
        them. With `sendInitialEvents` such a version is an error in the stream.
        """
        self.kind: ServedKind = info.kind
        self._store = store
        self._table = store.table(info.kind.table)
        self._namespace = info.namespace or None
        self._selector = selector_of(info.kind, info.query)
        self._form: Form | None = form_of(info.request.headers.get("accept", ""), info.query)
        self._now = now
        self._bookmarks = info.flag("allowWatchBookmarks")
        self._bookmark_due = False
        self._ended = False
        self._wake = asyncio.Event()
        self._ready: deque[bytes] = deque()
        self._initial: Iterator[Object] = iter(())
        self._initial_end = 0
        self._place = 0
        self._minimum_revision = 0
        """Changes up to this revision are skipped."""
        self._begin(info)
        self._table.wakers[self] = self._wake.set
        self._timer: asyncio.TimerHandle | None = None
        if (seconds := options.number(info.query, "timeoutSeconds") or 0) > 0:
            self._timer = asyncio.get_running_loop().call_later(seconds, self.end)

    def _begin(self, info: RequestInfo) -> None:
        version = info.query.get("resourceVersion", "")
        listed = info.flag("sendInitialEvents")
        wanted = revision_of(version) if version else 0
        if wanted > self._store.revision and listed:
            self._fail(failures.too_large(wanted, self._store.revision))
            return
        if wanted and not listed:
            self._minimum_revision = wanted
            try:
                self._place = self._table.after(wanted)
            except Expired as error:
                self._fail(error)
            return
        durable = self._store.durable
        self._place = self._table.after(durable)
        if info.query.get("sendInitialEvents") in (None, "", "true", "1"):
            items = self._table.as_of(durable, self._namespace)
            self._initial = iter([item for item in items if self._selector.selects(item)])
        if listed:
            self._initial_end = durable

    @property
    def is_released(self) -> bool:
        """True once the watch has ended, and nothing more is sent."""
        return self not in self._table.wakers

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while True:
            event = self._next()
            if event is not None:
                return event
            if self._ended:
                self._release()
                raise StopAsyncIteration
            self._wake.clear()
            await self._wake.wait()

    async def close(self) -> None:
        """Stop at once."""
        self._ready.clear()
        self._initial = iter(())
        self._bookmarks = False
        self._place = self._table.dropped + len(self._table.history)
        self.end()
        self._release()

    def end(self) -> None:
        """End after the pending events."""
        if not self._ended:
            self._ended = True
            self._bookmark_due = True
            self._wake.set()

    def bookmark(self) -> None:
        """Send a bookmark."""
        self._bookmark_due = True
        self._wake.set()

    def _release(self) -> None:
        self._table.wakers.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def _fail(self, error: ApiError) -> None:
        self._ready.append(_EVENT % (b"ERROR", encode_json(status_tree(error.status))))
        self._ended, self._bookmarks = True, False

    def _next(self) -> bytes | None:
        """The next pending event."""
        if self._ready:
            return self._ready.popleft()
        for item in self._initial:
            return self._event(b"ADDED", item)
        if self._initial_end:
            revision, self._initial_end = self._initial_end, 0
            if self._bookmarks:
                return self._bookmark(revision, {INITIAL_END: "true"})
        while (change := self._next_change()) is not None:
            self._place += 1
            event = self._event_of(change)
            if event is not None:
                return event
        if self._ready:
            return self._ready.popleft()
        if self._bookmark_due:
            self._bookmark_due = False
            if self._bookmarks and self._store.durable >= self._minimum_revision:
                return self._bookmark(self._store.durable, {})
        return None

    def _next_change(self) -> Change | None:
        """The next durable change of the table."""
        index = self._place - self._table.dropped
        if index < 0:
            if not self._ended:
                self._fail(failures.expired("The resourceVersion for the provided watch is too old."))
            return None
        if index >= len(self._table.history):
            return None
        change = self._table.history[index]
        return change if change.revision <= self._store.durable else None

    def _event_of(self, change: Change) -> bytes | None:
        """The event of a change for this watch: objects enter and leave the selection."""
        if change.revision <= self._minimum_revision:
            return None
        if self._namespace is not None and change.key.namespace != self._namespace:
            return None
        selected = self._selector
        if selected.everything:
            before, after = change.before is not None, not change.deleted
        else:
            before = change.before is not None and selected.selects(change.before)
            after = not change.deleted and selected.selects(change.after)
        if after:
            return self._event(b"MODIFIED" if before else b"ADDED", change.after)
        if not before:
            return None
        if change.deleted or change.before is None:
            return self._event(b"DELETED", change.after)
        return self._event(b"DELETED", _at_revision(change.before, change.revision))

    def _event(self, type_: bytes, item: Object) -> bytes:
        raw = raw_in_served_version(item.raw, self.kind)
        if self._form is not None:
            raw = self._form.object(self.kind, raw, self._now())
        return _EVENT % (type_, raw)

    def _bookmark(self, revision: int, annotations: dict[str, str]) -> bytes:
        metadata = {"resourceVersion": str(revision), **({"annotations": annotations} if annotations else {})}
        resource = self.kind.resource
        raw = encode_json({"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata})
        if self._form is not None:
            raw = self._form.object(self.kind, raw, self._now())
        return _EVENT % (b"BOOKMARK", raw)


def _at_revision(item: Object, revision: int) -> Object:
    tree = item.tree
    tree["metadata"]["resourceVersion"] = str(revision)
    return Object(encode_json(tree))
