"""A brake on writes that undo each other: what is written again and again is written ever less often.

Two writers that do not agree about a field each see the other's write and correct it, as fast as the API server allows.
Nothing tells such a loop from work but its rate: so each object has a budget of writes by field manager. Who has used
it up is refused, before anything is sent, until a pause is over that doubles with each further write, up to a minute.
A while without an attempt, and all is forgotten.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import structlog

from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import decode_head
from espalier.kube.wire import Request, Response, Stream, Transport
from espalier.runtime.fencing import READS, through

_log = structlog.get_logger("espalier.brakes")

BURST = 100
"""Writes of one object, by one field manager, that are let through at once: to make a cluster takes fewer than twenty,
and its status changes with each of its machines."""

REFILL = 4.0
"""Seconds after which one more is: as many as this allows may go on for ever."""

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0

_FORGOTTEN_AFTER = BURST * REFILL

_BESIDE = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
"""What has a pace of its own, or changes nothing."""


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


class Brake:
    """The budgets of one API server. `on_braked` is told the resource of each write that is refused."""

    def __init__(self, on_braked: Callable[[str], None] = lambda _resource: None) -> None:
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()
        self._on_braked = on_braked

    def check(self, path: str, manager: str, now: float) -> None:
        """Count a write of an object, or of its subresource. Raises `TooManyWrites`."""
        account = self._account((path, manager), now)
        account.used = max(0.0, account.used - (now - account.seen) / REFILL)
        account.seen = now
        if now < account.until:
            self._on_braked(_resource(path))
            raise TooManyWrites(path, account.until - now)
        if account.pause or account.used + 1 > BURST:
            if not account.pause:
                _log.warning("written too often; from now on with growing pauses", path=path, field_manager=manager)
            account.pause = min(max(account.pause * 2, FIRST_PAUSE), LONGEST_PAUSE)
            account.until = now + account.pause
        else:
            account.used += 1

    def _account(self, key: tuple[str, str], now: float) -> _Account:
        accounts = self._accounts
        while accounts and now - next(iter(accounts.values())).seen > _FORGOTTEN_AFTER:
            accounts.popitem(last=False)
        account = accounts.setdefault(key, _Account(now))
        accounts.move_to_end(key)
        return account


class BrakedTransport:
    """Passes requests on; writes while their object has a budget. Closing it closes the transport behind."""

    def __init__(self, transport: Transport, brake: Brake) -> None:
        self._transport = transport
        self._brake = brake

    async def request(self, request: Request) -> Response:
        """Send one request. Raises `TooManyWrites`."""
        if request.method not in READS and request.query.get("dryRun") is None:
            path = _object(request)
            if path:
                manager = request.query.get("fieldManager", "")
                self._brake.check(path, manager, asyncio.get_running_loop().time())
        return await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        """Start a watch."""
        return await self._transport.stream(request)

    async def close(self) -> None:
        """Give up connections."""
        await self._transport.close()


def braked(client: Client, brake: Brake | None = None) -> Client:
    """The same client behind a brake; they share the connection."""
    return through(client, BrakedTransport(client.transport, brake or Brake()))


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


def _resource(path: str) -> str:
    """The plural in a path: `/api/v1/…` or `/apis/group/v1/…`, in a namespace or not."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if len(parts) > 2 and parts[0] == "namespaces":
        parts = parts[2:]
    return parts[0] if parts else ""
