"""Agents and copies of an election as processes, until they are stopped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from espalier.etcd.client import connect
from espalier.etcdbackup.agent.http import PROBE_HOLD, application
from espalier.etcdbackup.agent.process import Options, reloading, until_stopped
from espalier.etcdbackup.agent.serving import ServerFiles, secured
from espalier.etcdbackup.election import agent, copier
from espalier.etcdbackup.restore.members import Membership
from espalier.etcdbackup.running.agent import AgentRun
from espalier.etcdbackup.running.copier import CopierRun, CopyParts
from espalier.etcdbackup.running.data.data_directory import DataDirectory
from espalier.etcdbackup.running.guard import GuardClient
from espalier.etcdbackup.running.http import add_copy_operations, copier_application
from espalier.etcdbackup.running.members import Members
from espalier.etcdbackup.running.parts import Parts
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock
from espalier.runtime.servers.serving import HttpServer


@dataclass(frozen=True, slots=True)
class Ownership:
    """The owner of an etcd, and where its guard and its data are."""

    settings: agent.Settings
    guard: Path
    data: Path
    members: Membership
    """Those with which etcd begins: it alone."""
    peers: Members | None = None
    """None: the etcd has one member."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address for HTTP."""

    host: str
    port: int
    server: ServerFiles | None = None


async def run_agent(
    options: Options,
    ownership: Ownership,
    store: Store,
    clock: Clock,
    stop: asyncio.Event,
    listening: Callable[[int], None],
) -> None:
    """Run until `stop` is set; etcd then continues, and its proxy shuts by itself. `listening` receives the port.

    Raises `OSError`, `ValueError` if it can't start.
    """
    measures = Measures()
    async with connect(options.etcd, tls=options.tls) as etcd:
        guard = GuardClient(ownership.guard, etcd)
        data = DataDirectory(ownership.data, ownership.members, needs_log=ownership.peers is not None)
        parts = Parts(store, guard, data, etcd, options.settings, ownership.peers)
        run = AgentRun(ownership.settings, parts, clock, random.SystemRandom(), measures=measures)
        measures.of_store(lambda: run.store_unreadable, lambda: run.deactivates_in)
        routes = application(
            run.backups,
            store,
            measures,
            lambda: run.trouble and (guard.trouble or run.trouble),
            timeout=options.snapshot_timeout,
            hold=PROBE_HOLD,
            warning=lambda: run.warning,
        )
        add_copy_operations(routes, run)
        address = Address(options.host, options.port, options.server)
        await _serve(routes, address, stop, listening, guard.run(), run.run())


async def run_copier(
    settings: copier.Settings,
    parts: CopyParts,
    address: Address,
    clock: Clock,
    stop: asyncio.Event,
    listening: Callable[[int], None],
) -> None:
    """Run until `stop` is set, also once all is copied. `listening` receives the port. Raises `OSError`,
    `ValueError`."""
    run = CopierRun(settings, parts, clock, random.SystemRandom())
    await _serve(copier_application(run), address, stop, listening, run.run())


async def _serve(
    routes: web.Application, address: Address, stop: asyncio.Event, listening: Callable[[int], None], *work: object
) -> None:
    context = secured(routes, address.server)
    server = HttpServer(routes, address.host, address.port, context=context)
    await server.start()
    try:
        listening(server.port)
        await until_stopped(stop, *work, *reloading(address.server, context))  # type: ignore[arg-type]
    finally:
        await server.stop()
