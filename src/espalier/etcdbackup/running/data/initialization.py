"""The requests of etcd-wrapper before it starts etcd: `initialization/start` and `status` of etcd-backup-restore.

Unlike the agent of an epoch, this does not know whether clients ever wrote: if there are neither data nor backups, etcd
starts empty. Damaged data without a backup are left alone.
"""

from __future__ import annotations

import asyncio
from enum import StrEnum
from pathlib import Path

import structlog
from aiohttp import web

from espalier.etcdbackup.restore.errors import RestoreError
from espalier.etcdbackup.restore.members import Membership
from espalier.etcdbackup.restore.restorer import Options, restore
from espalier.etcdbackup.running.data.data_directory import DataDirectory
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.stores.errors import StoreError
from espalier.etcdbackup.stores.store import Store

log = structlog.get_logger(__name__)
MODES = ("full", "sanity")
"""The modes of etcd-backup-restore. Both check everything here: the time depends on the database, not on the mode."""


class Outcome(StrEnum):
    """The state of an initialization."""

    NEW = "New"
    PROGRESS = "Progress"
    SUCCESSFUL = "Successful"
    FAILED = "Failed"


class Initialization:
    """Prepares a data directory for etcd, once for each request."""

    def __init__(self, store: Store, folder: Path, members: Membership) -> None:
        self.trouble = ""
        """The reason why the last initialization failed."""
        self._store = store
        self._folder = folder
        self._members = members
        self._data = DataDirectory(folder, members)
        self._outcome = Outcome.NEW
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start, unless an initialization runs or the last result was not read yet."""
        if self._outcome is Outcome.NEW:
            self._outcome, self.trouble = Outcome.PROGRESS, ""
            self._work = asyncio.create_task(self._run(), name="initialization of etcd's data")

    def status(self) -> Outcome:
        """The state. A result is reported once: then the next initialization may start."""
        outcome = self._outcome
        if outcome in (Outcome.SUCCESSFUL, Outcome.FAILED):
            self._outcome = Outcome.NEW
        return outcome

    async def close(self) -> None:
        """Cancel a running initialization."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.gather(self._work, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._initialize()
        except (StoreError, RestoreError, OSError, ValueError) as error:
            self.trouble = str(error)
            log.warning("etcd can't start with its data", error=self.trouble)
            self._outcome = Outcome.FAILED
        else:
            self._outcome = Outcome.SUCCESSFUL

    async def _initialize(self) -> None:
        is_present = await self._data.is_present()
        damage = await self._data.damage() if is_present else ""
        if is_present and not damage:
            return
        inventory = await read_inventory(self._store)
        if inventory.latest is None:
            if damage:
                raise ValueError(f"{damage}, and {self._store.where} has no full snapshot to restore")
            return
        done = await restore(self._store, self._folder, Options(self._members, replace=True), inventory=inventory)
        log.info("restored etcd's data", revision=done.contents.revision, damage=damage)


def add_initialization(application: web.Application, initialization: Initialization) -> None:
    """`/initialization/start?mode=full|sanity` and `/initialization/status`, for etcd-wrapper."""

    async def start(request: web.Request) -> web.Response:
        mode = request.query.get("mode", MODES[0])
        if mode not in MODES:
            raise web.HTTPBadRequest(text=f"mode: found {mode[:64]!r}, allowed are {' and '.join(MODES)}\n")
        initialization.start()
        return web.Response()

    async def status(_request: web.Request) -> web.Response:
        return web.Response(text=initialization.status().value)

    application.router.add_get("/initialization/start", start, allow_head=False)
    application.router.add_post("/initialization/start", start)
    application.router.add_get("/initialization/status", status, allow_head=False)
