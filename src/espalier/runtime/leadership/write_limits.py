"""A limit for writes that revert each other: repeated writes of the same content are slowed down.

Two writers that disagree about a field revert each other's writes, as fast as the API server allows. Such a loop
repeats the same content, while progress writes something new each time. So each object has a budget of repeated writes
per field manager. Once it is used up, repetitions are refused before they are sent, for a pause that doubles with each
further one, up to a minute. After a time without attempts, the account is reset.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec
import structlog

from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import decode_head
from espalier.kube.transports.wire import SAFE_METHODS, Request, Response, Stream, Transport
from espalier.runtime.leadership.fencing import with_transport

_log = structlog.get_logger("espalier.write_limits")

BURST = 100
"""Repeated writes of one object by one field manager that are allowed at once: repeated changes by a user, or an
unstable machine, are not a conflict of writers."""

REFILL = 4.0
"""Seconds after which one more is allowed; this rate is allowed for ever."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

_RESET_AFTER = BURST * REFILL

REPEAT_THRESHOLD = 5
"""How often the same content is written until it counts as repeated, then with all of these writes: two events of a
replaced machine may look alike, while a conflict of writers does not end."""

MAX_CONTENTS = 256
"""The number of contents of one object to remember: so many different writes in between mean progress."""

_VOLATILE_FIELDS = re.compile(
    rb'"(?:'  # common to all, so that the search skips what has no quote
    rb'(?<!"leaseExpiration":")\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]{0,16}"'  # a time, except that of a lease
    rb'|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"'  # a uid, which differs for a new object
    rb'|resourceVersion":"[^"]*"'
    rb'|\w*[gG]eneration":\d+'
    rb")"
)
"""Fields that differ in writes of the same content."""

_UNLIMITED = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
"""Kinds without a limit."""


OnLimited: TypeAlias = Callable[[str], None]
"""Called with the resource of a refused write."""


def ignored(_resource: str) -> None:
    """Ignore a refused write."""


class TooManyWrites(KubeError):
    """A write was not sent because it repeats too many earlier ones; the next is allowed `after` so many seconds."""

    def __init__(self, path: str, after: float) -> None:
        super().__init__(
            f"{path} is written too often: another writer reverts it each time, or two controllers of ours disagree; "
            f"retrying within {LONGEST_PAUSE:g} s. Its metadata.managedFields (kubectl get --show-managed-fields) name "
            "all writers"
        )
        self.after = after


@dataclass(slots=True)
class _Account:
    """The account of one object and field manager. `pause` is 0 until the budget is used up."""

    seen: float
    used: float = 0.0
    pause: float = 0.0
    until: float = 0.0
    counted: float = 0.0
    """The time of the last counted write, sent or not."""
    written: OrderedDict[bytes, tuple[int, float]] = field(default_factory=OrderedDict)
    """How often each content was sent, and when last; the latest last."""

    def times(self, content: bytes, now: float) -> int:
        """The number of writes of this content, including this one."""
        count, last = self.written.get(content, (0, now))
        return count + 1 if now - last <= _RESET_AFTER else 1

    def wrote(self, content: bytes, times: int, now: float) -> None:
        """Remember a write."""
        self.written[content] = (times, now)
        self.written.move_to_end(content)
        if len(self.written) > MAX_CONTENTS:
            self.written.popitem(last=False)


class WriteLimit:
    """The budgets of one API server. `on_limited` is called with the resource of each refused write."""

    def __init__(self, on_limited: OnLimited = ignored) -> None:
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._on_limited = on_limited

    def check(self, path: str, manager: str, content: bytes, now: float) -> None:
        """Count a write of an object, or of its subresource, if it repeats earlier ones. Raises `TooManyWrites`."""
        account = self._account((path, manager), now)
        account.used = max(0.0, account.used - (now - account.seen) / REFILL)
        account.seen = now
        times = account.times(content, now)
        if times < REPEAT_THRESHOLD:
            account.wrote(content, times, now)
            return
        if now - account.counted > _RESET_AFTER:
            account.pause = 0.0
        account.counted = now
        cost = REPEAT_THRESHOLD if times == REPEAT_THRESHOLD else 1
        if now < account.until:
            self._on_limited(_resource(path))
            raise TooManyWrites(path, account.until - now)
        if account.pause or account.used + cost > BURST:
            if not account.pause:
                _log.warning("slowing down repeated writes", path=path, field_manager=manager)
            account.pause = min(max(account.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            account.until = now + account.pause
        else:
            account.used += cost
        account.wrote(content, times, now)

    def _account(self, key: tuple[str, str], now: float) -> _Account:
        accounts = self._accounts
        while accounts and now - next(iter(accounts.values())).seen > _RESET_AFTER:
            accounts.popitem(last=False)
        account = accounts.setdefault(key, _Account(now))
        accounts.move_to_end(key)
        return account


class LimitedTransport:
    """Passes requests on, writes only while their object has a budget. Closing it closes the inner transport."""

    def __init__(self, transport: Transport, limit: WriteLimit) -> None:
        self._transport = transport
        self._limit = limit

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `TooManyWrites`."""
        if request.method not in SAFE_METHODS and request.query.get("dryRun") is None:
            path = _object(request)
            if path:
                manager = request.query.get("fieldManager", "")
                self._limit.check(path, manager, _content(request), asyncio.get_running_loop().time())
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport.stream(request)

    async def close(self) -> None:
        """Close all connections."""
        await self._transport.close()


def limited(client: Client, limit: WriteLimit | None = None) -> Client:
    """A copy of the client behind a limit, with the same connections."""
    return with_transport(client, LimitedTransport(client.transport, limit or WriteLimit()))


def _object(request: Request) -> str:
    """The path of the written object; empty if it has no limit or no name."""
    if _resource(request.path) in _UNLIMITED:
        return ""
    if request.method != "POST":
        return request.path
    try:
        name = decode_head(request.body).metadata.name
    except msgspec.MsgspecError:
        return ""
    return f"{request.path}/{name}" if name else ""


def _content(request: Request) -> bytes:
    """A digest of what is written, without fields that change in every write."""
    stable = _VOLATILE_FIELDS.sub(b"", request.body)
    return hashlib.blake2b(request.method.encode() + b" " + stable, digest_size=16).digest()


def _resource(path: str) -> str:
    """The plural in a path: `/api/v1/…` or `/apis/group/v1/…`, in a namespace or not."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return parts[0] if parts else ""
