"""Implementations of etcd's protocol that one contract suite runs on. A new one is a line in `IMPLEMENTATIONS`."""

from __future__ import annotations

import contextlib
import random
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD, ETCD_BEFORE
from espalier.etcd.client import Client, connect
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import PROGRESS_INTERVAL, Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.server import serving
from espalier.simulator.etcd.state.core import DEFAULT_QUOTA
from espalier.simulator.etcd.storage import MemoryStorage, SqliteStorage, Storage
from tests.support.etcd.real_etcd import built, real_etcd


@dataclass(frozen=True)
class Limits:
    """Limits with which an etcd is started, where a test needs other than the usual."""

    quota: int = 0
    """Bytes of the database; 0: etcd's 2 GiB."""
    progress_interval: float = 0.0
    """Seconds after which a quiet watch gets a sign of progress; 0: etcd's ten minutes."""


Clients = Callable[[], Client]
"""Makes a client of one running etcd, to be closed. Each has connections of its own, where there are connections."""


@dataclass(frozen=True)
class Implementation:
    """One implementation."""

    name: str
    run: Callable[[Path, Limits], AbstractAsyncContextManager[Clients]]
    """Run it with an empty folder of its own, until the context is left."""
    lacks: Callable[[], str] = lambda: ""
    """Why it can't run on this machine, as a sentence; empty if it can."""
    real: bool = False

    def __str__(self) -> str:
        return self.name


def _real(name: str, component: Component) -> Implementation:
    minor = component.version.rpartition(".")[0]

    @contextlib.asynccontextmanager
    async def run(folder: Path, limits: Limits) -> AsyncIterator[Clients]:
        programs = built(component)
        assert programs is not None
        flags = {}
        if limits.quota:
            flags["quota-backend-bytes"] = str(limits.quota)
        if limits.progress_interval:
            flag = "watch-progress-notify-interval"
            prefix = "experimental-" if minor == "3.5" else ""
            flags[prefix + flag] = f"{limits.progress_interval}s"
        async with real_etcd(programs, folder, flags) as etcd:
            yield lambda: connect(etcd.endpoint)

    def lacks() -> str:
        return "" if built(component) else f"etcd {component.version} was not built: run make real-assets"

    return Implementation(name, run, lacks, real=True)


def _member(storage: Storage, limits: Limits) -> Member:
    return Member(
        storage,
        SystemClock(),
        random.Random(1),
        quota=limits.quota or DEFAULT_QUOTA,
        progress_interval=limits.progress_interval or PROGRESS_INTERVAL,
    )


@contextlib.asynccontextmanager
async def _embedded(folder: Path, limits: Limits) -> AsyncIterator[Clients]:
    """Ours over gRPC on a unix socket, with its data in a file."""
    member = _member(SqliteStorage(folder), limits)
    await member.start()
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(member.close)
        with tempfile.TemporaryDirectory(prefix="etcd") as short:  # a socket's path has at most 107 bytes
            url = await stack.enter_async_context(serving(member, f"unix://{short}/etcd.sock"))
            yield lambda: connect(url)


@contextlib.asynccontextmanager
async def _in_memory(folder: Path, limits: Limits) -> AsyncIterator[Clients]:
    """Ours, called in this process, that keeps nothing."""
    member = _member(MemoryStorage(), limits)
    await member.start()
    try:
        yield lambda: Client(MemoryTransport(member))
    finally:
        await member.close()


EMBEDDED = Implementation("embedded", _embedded)
IN_MEMORY = Implementation("in-memory", _in_memory)
ETCD_BEFORE_IT, NEWEST_ETCD = _real("etcd-before", ETCD_BEFORE), _real("etcd", ETCD)
IMPLEMENTATIONS = (IN_MEMORY, EMBEDDED, ETCD_BEFORE_IT, NEWEST_ETCD)
