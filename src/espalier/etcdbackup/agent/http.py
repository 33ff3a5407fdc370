"""The agent over HTTP, with the paths of etcd-backup-restore (its pkg/server/httpAPI.go).

Requests that change something are accepted as GET as well, because etcd-backup-restore's callers send GET. The server
runs without etcd: a request that needs etcd is answered with 503 and the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

import msgspec
from aiohttp import web

from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.names import Compression, Kind
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.requests import Inactive
from espalier.etcdbackup.stores.errors import StoreError
from espalier.etcdbackup.stores.store import Store

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
PROBE_HOLD = 1.0
"""Seconds for which the answer to a probe is held back while it would be a failure: kubelets ask each second, so no
time passes between readiness and their next question. Less than the timeout of probes."""
_PROBE_POLL = 0.05
_YES, _NO = ("1", "t", "true"), ("", "0", "f", "false")


class SnapshotTaker(Protocol):
    """The component that takes snapshots."""

    async def full(self, *, is_final: bool = False) -> StoredSnapshot:
        """See `Snapshotter`."""

    async def delta(self) -> StoredSnapshot | None:
        """See `Snapshotter`."""


class SnapshotFacts(msgspec.Struct, frozen=True, rename="camel"):
    """A snapshot in an answer; keys as etcd-backup-restore writes them (its pkg/types/snapstore.go)."""

    created_on: str
    kind: str
    snap_dir: str
    snap_name: str
    prefix: str
    compression_suffix: str
    start_revision: int
    last_revision: int
    is_chunk: bool = False
    is_final: bool = False


class LatestSnapshots(msgspec.Struct, frozen=True, rename="camel"):
    """The latest set in an answer."""

    full_snapshot: SnapshotFacts | None
    delta_snapshots: tuple[SnapshotFacts, ...]


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The answer of a probe."""

    health: bool
    message: str = ""


def application(
    snapshot_taker: SnapshotTaker,
    store: Store,
    measures: Measures,
    trouble: Callable[[], str],
    *,
    timeout: float,
    hold: float = 0.0,
    warning: Callable[[], str] = lambda: "",
) -> web.Application:
    """Snapshots, health and metrics. `timeout`: seconds after which a requested snapshot is given up. `hold`: seconds
    for which a failing probe is held back. `warning`: text that a passing probe reports."""

    async def full(request: web.Request) -> web.Response:
        is_final = _flag(request, "final")
        return _snapshot(await snapshot_taker.full(is_final=is_final))

    async def delta(_request: web.Request) -> web.Response:
        return _snapshot(await snapshot_taker.delta())

    async def latest(_request: web.Request) -> web.Response:
        newest = (await read_inventory(store)).latest
        if newest is None:
            return json_response(LatestSnapshots(None, ()))
        return json_response(LatestSnapshots(_facts(newest.full), tuple(map(_facts, newest.deltas))))

    async def health(_request: web.Request) -> web.Response:
        await becomes_ready(lambda: not trouble(), hold)
        problem = trouble()
        return json_response(Health(not problem, problem or warning()), 503 if problem else 200)

    async def metrics(_request: web.Request) -> web.Response:
        kind = "text/plain; version=1.0.0; charset=utf-8"
        return web.Response(body=measures.exposition(), headers={"content-type": kind})

    app = web.Application(middlewares=[_translate_errors], client_max_size=1 << 16)
    for path, handler in (("full", full), ("delta", delta)):
        limited = _with_timeout(handler, timeout)
        app.router.add_get(f"/snapshot/{path}", limited, allow_head=False)
        app.router.add_post(f"/snapshot/{path}", limited)
    app.router.add_get("/snapshot/latest", _with_timeout(latest, timeout))
    app.router.add_get("/healthz", health)
    app.router.add_get("/metrics", metrics)
    return app


async def becomes_ready(is_ready: Callable[[], bool], seconds: float) -> None:
    """Return once it is ready, or after these seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not is_ready() and loop.time() < end:  # noqa: ASYNC110  it follows from deadlines, which are no events
        await asyncio.sleep(_PROBE_POLL)


def _with_timeout(handler: Handler, timeout: float) -> Handler:
    async def limited(request: web.Request) -> web.StreamResponse:
        try:
            async with asyncio.timeout(timeout):
                return await handler(request)
        except TimeoutError:
            raise web.HTTPGatewayTimeout(
                text=f"it did not finish within {timeout:g} s; it may still finish\n"
            ) from None

    return limited


@web.middleware
async def _translate_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn errors of etcd and of the store into responses with their messages."""
    try:
        return await handler(request)
    except Inactive as error:
        raise web.HTTPServiceUnavailable(text=f"{error}\n") from None
    except (EtcdError, StoreError, Malformed) as error:
        raise web.HTTPInternalServerError(text=f"{error}\n") from None


def _flag(request: web.Request, name: str) -> bool:
    value = request.query.get(name, "").lower()
    if value not in (*_YES, *_NO):
        raise web.HTTPBadRequest(text=f"{name}: found {value[:64]!r}, allowed are true and false\n")
    return value in _YES


def _snapshot(stored: StoredSnapshot | None) -> web.Response:
    return json_response(_facts(stored) if stored is not None else None)


def _facts(stored: StoredSnapshot) -> SnapshotFacts:
    snapshot = stored.snapshot
    folder, _, name = stored.key.rpartition("/")
    return SnapshotFacts(
        created_on=f"{snapshot.time:%Y-%m-%dT%H:%M:%SZ}",
        kind="Full" if snapshot.kind is Kind.FULL else "Incr",
        snap_dir="" if folder.startswith("v2") else folder,
        snap_name=name,
        prefix=folder,
        compression_suffix=Compression(snapshot.compression).value,
        start_revision=snapshot.start,
        last_revision=snapshot.last,
        is_final=snapshot.is_final,
    )


def json_response(value: object, status: int = 200) -> web.Response:
    """A response with a value as JSON."""
    return web.Response(body=msgspec.json.encode(value), status=status, content_type="application/json")
