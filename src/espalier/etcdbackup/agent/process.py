"""The agent as a process: it backs up one etcd and answers over HTTP until it is stopped."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass

from aiohttp import web

from espalier.etcd.client import connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.results import Member
from espalier.etcdbackup.agent.backups import Backups, Settings
from espalier.etcdbackup.agent.http import application
from espalier.etcdbackup.agent.serving import ServerFiles, secured
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock
from espalier.runtime.servers.serving import HttpServer


@dataclass(frozen=True, slots=True)
class Options:
    """Which etcd to back up, and where to listen."""

    etcd: str
    """The endpoint of the member beside which the agent runs."""
    tls: TlsFiles | None
    host: str
    port: int
    server: ServerFiles | None
    settings: Settings
    snapshot_timeout: float = 900.0
    """Seconds after which a snapshot that was requested over HTTP is no longer waited for."""
    routes: Callable[[web.Application, Store], None] = lambda _application, _store: None
    """Adds further routes."""


async def run(
    options: Options, store: Store, clock: Clock, stop: asyncio.Event, listening: Callable[[int], None]
) -> None:
    """Run until `stop` is set. `listening` receives the port. Raises `OSError`, `ValueError` if it can't start."""
    measures = Measures()
    async with connect(options.etcd, tls=options.tls) as etcd:
        backups = Backups(
            etcd, lambda member: connect(*_clients(member), tls=options.tls), store, clock, options.settings, measures
        )
        answers = application(backups, store, measures, lambda: backups.trouble, timeout=options.snapshot_timeout)
        options.routes(answers, store)
        context = secured(answers, options.server)
        server = HttpServer(answers, options.host, options.port, context=context)
        await server.start()
        try:
            listening(server.port)
            await until_stopped(stop, backups.run(), *reloading(options.server, context))
        finally:
            await server.stop()


def _clients(member: Member) -> tuple[str, ...]:
    """The client URLs of another member. Raises `ValueError` if the member has not published them yet."""
    if not member.client_urls:
        raise ValueError(f"member {member.id:x} of etcd has not started")
    return member.client_urls


def reloading(files: ServerFiles | None, context: ssl.SSLContext | None) -> list[Coroutine[object, object, object]]:
    """The task that reloads a certificate, if any."""
    return [files.reloading(context)] if files is not None and context is not None else []


async def until_stopped(stop: asyncio.Event, *work: Coroutine[object, object, object]) -> None:
    """Run all tasks until `stop` is set. Raises the error of a task that ends early."""
    tasks = [asyncio.create_task(coroutine) for coroutine in work]
    stopping = asyncio.create_task(stop.wait())
    try:
        done, _ = await asyncio.wait((*tasks, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in (*tasks, stopping):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
