"""A limit for writes that undo each other: what is written again and again is written ever less often.

Two writers that do not agree about a field each see the other's write and correct it, as fast as the API server allows.
Such a loop writes the same again and again, where work writes something new each time. So each object has a budget of
repeated writes by field manager. Who has used it up is refused, before a repetition is sent, until a pause is over that
doubles with each further one, up to a minute. A while without an attempt, and all is forgotten.
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
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.runtime.fencing import READS, through

_log = structlog.get_logger("espalier.write_limits")

BURST = 100
"""Repeated writes of one object, by one field manager, that are let through at once: a
user who changes his mind, or a machine that comes and goes, is no fight."""

REFILL = 4.0
"""Seconds after which one more is: as many as this allows may go on for ever."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

_FORGOTTEN_AFTER = BURST * REFILL

REPEATED = 5
"""How often the same is written until it counts, and then all of these writes do: of a machine that is replaced two
events may look alike, and a fight does not end."""

MOST_CONTENTS = 256
"""Contents of one object that are remembered: whoever writes so many others in between makes progress."""

_CHANGES_BY_ITSELF = re.compile(
    rb'(?<!"leaseExpiration":)"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^"]{0,16}"'  # a time, but for a lease: that is new
    rb'|"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"'  # a uid, another one when it was made anew
    rb'|"resourceVersion":"[^"]*"'
    rb'|"\w*[gG]eneration":\d+'
)
"""The fields that differ in every write, though the same content is written."""

_BESIDE = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
"""Kinds that are written at their own pace."""


OnLimited: TypeAlias = Callable[[str], None]
"""Told the resource of a write that is refused."""


def ignored(_resource: str) -> None:
    """Nobody counts the writes that are refused."""


class TooManyWrites(KubeError):
    """A write was not sent: the object was written too often. `after` so many seconds the next one may be."""

    def __init__(self, what: str, after: float) -> None:
        super().__init__(
            f"{what} is written too often: somebody else changes what is written here each time; it is tried again "
            f"within {LONGEST_PAUSE:g} s. Its metadata.managedFields (kubectl get --show-managed-fields) name who does"
        )
        self.after = after


@dataclass(slots=True)
class _Account:
    """Of one object and field manager. `pause` is 0 until the budget is used up."""

    seen: float
    used: float = 0.0
    pause: float = 0.0
    until: float = 0.0
    counted: float = 0.0
    """Time of the last counted write, let through or not."""
    written: OrderedDict[bytes, tuple[int, float]] = field(default_factory=OrderedDict)
    """How often each content was let through, and when last; the latest last."""

    def times(self, content: bytes, now: float) -> int:
        """Number of writes, this one included."""
        count, last = self.written.get(content, (0, now))
        return count + 1 if now - last <= _FORGOTTEN_AFTER else 1

    def wrote(self, content: bytes, times: int, now: float) -> None:
        """Remember what is written."""
        self.written[content] = (times, now)
        self.written.move_to_end(content)
        if len(self.written) > MOST_CONTENTS:
            self.written.popitem(last=False)


class WriteLimit:
    """The budgets of one API server. `on_limited` is told the resource of each write that is refused."""

    def __init__(self, on_limited: OnLimited = ignored) -> None:
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._on_limited = on_limited

    def check(self, path: str, manager: str, content: bytes, now: float) -> None:
        """Count a write of an object, or of its subresource, if it repeats earlier ones. Raises `TooManyWrites`."""
        account = self._account((path, manager), now)
        account.used = max(0.0, account.used - (now - account.seen) / REFILL)
        account.seen = now
        times = account.times(content, now)
        if times < REPEATED:
            account.wrote(content, times, now)
            return
        if now - account.counted > _FORGOTTEN_AFTER:
            account.pause = 0.0
        account.counted = now
        cost = REPEATED if times == REPEATED else 1
        if now < account.until:
            self._on_limited(_resource(path))
            raise TooManyWrites(path, account.until - now)
        if account.pause or account.used + cost > BURST:
            if not account.pause:
                _log.warning("written too often; from now on with growing pauses", path=path, field_manager=manager)
            account.pause = min(max(account.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            account.until = now + account.pause
        else:
            account.used += cost
        account.wrote(content, times, now)

    def _account(self, key: tuple[str, str], now: float) -> _Account:
        accounts = self._accounts
        while accounts and now - next(iter(accounts.values())).seen > _FORGOTTEN_AFTER:
            accounts.popitem(last=False)
        account = accounts.setdefault(key, _Account(now))
        accounts.move_to_end(key)
        return account


class LimitedTransport:
    """Passes requests on; writes while their object has a budget. Closing it closes the transport behind."""

    def __init__(self, transport: Transport, limit: WriteLimit) -> None:
        self._transport = transport
        self._limit = limit

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `TooManyWrites`."""
        if request.method not in READS and request.query.get("dryRun") is None:
            path = _object(request)
            if path:
                manager = request.query.get("fieldManager", "")
                self._limit.check(path, manager, _content(request), asyncio.get_running_loop().time())
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport.stream(request)

    async def close(self) -> None:
        """Give up connections."""
        await self._transport.close()


def limited(client: Client, limit: WriteLimit | None = None) -> Client:
    """The same client behind a limit; they share the connection."""
    return through(client, LimitedTransport(client.transport, limit or WriteLimit()))


def _object(request: Request) -> str:
    """The path of what is written; empty for what is not an object that stays."""
    if _resource(request.path) in _BESIDE:
        return ""
    if request.method != "POST":
        return request.path
    try:
        name = decode_head(request.body).metadata.name
    except msgspec.MsgspecError:
        return ""
    return f"{request.path}/{name}" if name else ""


def _content(request: Request) -> bytes:
    """A digest of what is written: equal for writes that say the same, whenever they say it."""
    same = _CHANGES_BY_ITSELF.sub(b"", request.body)
    return hashlib.blake2b(request.method.encode() + b" " + same, digest_size=16).digest()


def _resource(path: str) -> str:
    """The plural in a path: `/api/v1/…` or `/apis/group/v1/…`, in a namespace or not."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return parts[0] if parts else ""
