"""Restores a data directory, with which etcd can start, from a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TypeVar

from espalier.api.version_matrix import etcd_minors_for
from espalier.etcd.bbolt.reading import Damaged
from espalier.etcd.database.backend import State
from espalier.etcdbackup.restore import plan, wal
from espalier.etcdbackup.restore.data_directory import DATABASE, WAL, SideFolder, side_folder
from espalier.etcdbackup.restore.database import Contents, complete, state_of
from espalier.etcdbackup.restore.errors import NothingToRestore
from espalier.etcdbackup.restore.members import Membership, membership
from espalier.etcdbackup.snapshots.deltas import Event
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.reading import Progress, corrupt, download, events, read_inventory, silent
from espalier.etcdbackup.snapshots.sets import Inventory, StoredSnapshot
from espalier.etcdbackup.stores.errors import Corrupt, NotFound
from espalier.etcdbackup.stores.store import Store

T = TypeVar("T")

LEASE_TTL = 3600
"""Seconds of leases that no snapshot has: as long as API servers keep events by default, which is longer than any other
lease of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a store is restored. `members` are those with which etcd will be started."""

    members: Membership = field(default_factory=membership)
    replace: bool = False
    """Existing data are moved aside."""
    partial: bool = False
    """Restore as far as possible if something is missing or damaged."""
    bump: int | None = None
    """Revisions to skip; None: `plan.BUMP`, unless the newest snapshot is final and everything was restored."""
    lease_ttl: int = LEASE_TTL


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of a restore."""

    full: StoredSnapshot
    deltas: tuple[StoredSnapshot, ...]
    """Deltas that were applied."""
    contents: Contents
    is_complete: bool
    """True if the result has the last revision of the store."""
    replaced: Path | None
    """The new path of the data that were there before."""
    passed_over: tuple[str, ...]
    """Damaged objects that were not needed, or were given up (`partial`)."""
    etcd: tuple[str, ...]
    """Minor versions of etcd that start with it; empty if the snapshot does not say from which it is."""


async def restore(
    store: Store,
    folder: Path,
    options: Options,
    progress: Progress = silent,
    *,
    inventory: Inventory | None = None,
    notes: Mapping[Path, bytes] = MappingProxyType({}),
) -> Restored:
    """Restore the newest data that a store has. Whatever is raised, `folder` is unchanged.

    `inventory`: the objects of the store that may be used; None: all. `notes`: small files to write beside the data.

    Raises `StoreError` (`Corrupt` names a damaged object), `RestoreError`, and `ValueError` if so many revisions can't
    be skipped.
    """
    inventory = await read_inventory(store) if inventory is None else inventory
    candidates = plan.full_snapshots(inventory, partial=options.partial, where=store.where)
    with side_folder(folder, replace=options.replace) as side:
        run = _Restore(store, inventory, side, options, progress)
        full, state = await run.full(candidates)
        path = plan.path(full, state.revision, inventory, partial=options.partial)
        contents = await run.apply(path, state)
        if contents.revision <= 1:
            raise NothingToRestore(f"{full.name} is a snapshot of an empty etcd; start from an empty data directory")
        await asyncio.to_thread(side.write, WAL / wal.SEGMENT, wal.segment(options.members))
        taken = DATABASE.with_name(wal.snapshot_name(options.members))
        await asyncio.to_thread(side.write, taken, wal.snapshot(options.members))
        for name, note in notes.items():
            await asyncio.to_thread(side.write, name, note)
        replaced = await _uninterrupted(side.put_in_place)
    is_complete = contents.revision >= plan.target(inventory)
    versions = etcd_minors_for(state.cluster_version, state.version)
    return Restored(full, tuple(run.applied), contents, is_complete, replaced, tuple(run.passed_over), versions)


class _Restore:
    """One restore, into a folder beside the target."""

    def __init__(
        self, store: Store, inventory: Inventory, side: SideFolder, options: Options, progress: Progress
    ) -> None:
        self._store = store
        self._stock = inventory
        self._side = side
        self._options = options
        self._progress = progress
        self._reached = 0
        self._current = inventory.snapshots[0]
        self.applied: list[StoredSnapshot] = []
        self.passed_over: list[str] = []

    async def full(self, candidates: tuple[StoredSnapshot, ...]) -> tuple[StoredSnapshot, State]:
        """Download the first full snapshot that is intact."""
        first: Corrupt | None = None
        for full in candidates:
            try:
                await download(self._store, full, self._side.database, self._progress)
                return full, await asyncio.to_thread(state_of, self._side.database)
            except NotFound as error:
                failed = Corrupt(error.where, "it was listed but no longer exists")
            except Damaged as error:
                self._side.database.unlink()
                failed = corrupt(self._store, full, Malformed(str(error)))
            except Corrupt as error:
                failed = error
            first = first or failed
            self.passed_over.append(str(failed))
        if first is None:
            raise NothingToRestore(f"no full snapshot found in {self._store.where}")
        raise first

    async def apply(self, path: plan.Path, state: State) -> Contents:
        """Write deltas and everything else into the database."""
        options = self._options
        self._reached = state.revision
        self._current = path.full

        def work(batches: Iterator[list[Event]]) -> Contents:
            return complete(
                self._side.database, state, batches, options.members, bump=self._bump, lease_ttl=options.lease_ttl
            )

        try:
            async with aclosing(self._events(path.deltas)) as batches:
                return await _with_batches(batches, work)
        except Malformed as error:
            raise corrupt(self._store, self._current, error) from None

    def _bump(self) -> int:
        """Revisions to skip: none, if it is proven that no acknowledged write is missing."""
        if self._options.bump is not None:
            return self._options.bump
        return 0 if plan.is_final(self._stock) and self._reached >= plan.target(self._stock) else plan.BUMP

    async def _events(self, deltas: tuple[StoredSnapshot, ...]) -> AsyncGenerator[list[Event], None]:
        for stored in deltas:
            self._current = stored
            try:
                async with aclosing(events(self._store, stored, self._progress)) as batches:
                    async for batch in batches:
                        yield batch
                        self._reached = max(self._reached, batch[-1].revision)
            except (Corrupt, NotFound) as error:
                if not self._options.partial:
                    raise
                self.passed_over.append(str(error))
                return
            self.applied.append(stored)


async def _with_batches(batches: AsyncIterator[T], work: Callable[[Iterator[T]], Contents]) -> Contents:
    """Do blocking work in a thread that reads what this coroutine sends. When cancelled, it waits for the thread."""
    loop = asyncio.get_running_loop()
    pending: Future[T] | None = None
    is_stopped = False

    async def following() -> T:
        return await anext(batches)

    def pulled() -> Iterator[T]:
        nonlocal pending
        while not is_stopped:
            pending = asyncio.run_coroutine_threadsafe(following(), loop)
            if is_stopped:
                pending.cancel()
            try:
                yield pending.result()
            except StopAsyncIteration:
                return
        raise CancelledError

    working = asyncio.ensure_future(asyncio.to_thread(lambda: work(pulled())))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        is_stopped = True
        if pending is not None:
            pending.cancel()
        await asyncio.wait([working])
        raise


async def _uninterrupted(work: Callable[[], T]) -> T:
    """Do blocking work in a thread; cancellation waits for its end."""
    working = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        raise
