"""Starts an etcd that clients may reach from a data directory, or from backups if there is none.

A data directory is verified by starting etcd behind its shut proxy: etcd itself replays its log. It is given up only if
etcd does not start and the data are found to be damaged, if they end at an earlier revision than the backups, or if
they are of an earlier epoch; and only for a restore that has succeeded.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace

import structlog

from espalier.api.etcd.ownership import FirstStart, Served
from espalier.api.text.listing import first
from espalier.etcdbackup.election.agent import Settings
from espalier.etcdbackup.restore.errors import NothingToRestore
from espalier.etcdbackup.restore.plan import BUMP, target
from espalier.etcdbackup.running.parts import NotStarted, Origin, Parts, Standing
from espalier.etcdbackup.running.sync_objects import SyncObjects
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.snapshotter.full import newest_revision
from espalier.etcdbackup.stores.errors import Conflict

log = structlog.get_logger(__name__)

_MAY_HAVE_WRITES = (
    "clients may have written to this etcd: find its backups, or declare its data lost (docs/etcd-backup.md)"
)
_LOST_WRITES = "their volumes were replaced by older ones; bring back the newer ones"
_NO_VOTE = "the others give it one when two of them serve, and it has their data"
SETTLE_TIMEOUT = 30.0
"""Seconds that a member that answers has to get its vote."""


def usable_snapshots(inventory: Inventory, marker: FirstStart, served: Served | None) -> Inventory:
    """The snapshots from which the etcd of an epoch may be restored: those of its predecessor that were copied by the
    list of its marker, and its own. Raises `NotStarted` if one of the list is missing."""
    if marker.predecessor is None:
        return inventory
    listed = frozenset(marker.snapshots)
    own = served.revision if served is not None else None
    usable = [
        stored
        for stored in inventory.snapshots
        if stored.name in listed or (own is not None and stored.snapshot.last >= own)
    ]
    missing = listed - {stored.name for stored in usable}
    if missing and own is None:
        names = first(sorted(missing), 3)
        raise NotStarted(
            f"{names} was copied for epoch {marker.epoch} but is not in its store: bring it back with "
            "`espalier etcd-agent copy`"
        )
    return replace(inventory, snapshots=tuple(usable))


class Starting:
    """Starts the etcd of one epoch, any number of times."""

    def __init__(self, settings: Settings, parts: Parts, objects: SyncObjects) -> None:
        self._settings = settings
        self._parts = parts
        self._objects = objects
        self._usable = Inventory()
        self._served: Served | None = None

    async def run(self, marker: FirstStart) -> None:
        """Return when etcd runs and may serve. An etcd that runs already is verified as well: an earlier agent may have
        died before it did so.

        Raises `NotStarted`, `EtcdError`, `StoreError`, `RestoreError`, `Malformed`, `OSError`; then etcd may run, and
        must not be reachable.
        """
        parts = self._parts
        self._served = await self._objects.served()
        self._usable = usable_snapshots(await read_inventory(parts.store), marker, self._served)
        if not await parts.guard.is_running():
            await self._start(marker)
        await self._get_vote()
        revision = await newest_revision(parts.etcd)
        if revision < target(self._usable):
            if parts.peers is not None:
                raise NotStarted(
                    f"the members are at revision {revision}, behind their backups, which are at "
                    f"{target(self._usable)}: {_LOST_WRITES}"
                )
            log.warning("etcd is behind its backups", revision=revision, backups=target(self._usable))
            await parts.guard.stop()
            await self._restore(marker)
            await parts.guard.start()
            revision = await newest_revision(parts.etcd)
        if self._served is None:
            try:
                await self._objects.put_served(revision)
            except Conflict:  # an earlier agent's put arrived late
                self._served = await self._objects.served()

    async def has_all_writes(self) -> bool:
        """True if the etcd that runs has all that this epoch ever acknowledged, as far as known: False if it was
        restored after clients had written, by an agent or by hand. Raises `EtcdError`."""
        origin, served = await self._parts.data.origin(), self._served
        if origin is not None and not origin.complete:
            return False
        return served is None or _has_skipped_nothing(await newest_revision(self._parts.etcd), served)

    @property
    def _location(self) -> str:
        return self._parts.store.where

    async def _start(self, marker: FirstStart) -> None:
        data, guard = self._parts.data, self._parts.guard
        if not await data.is_present() or not await self._is_of_this_epoch(marker):
            await self._provide_data(marker)
            await self._run_etcd()
            return
        try:
            if self._parts.peers is not None:
                self._parts.peers.configure()
            await self._run_etcd()
        except NotStarted as error:
            await guard.stop()  # it may hang
            damage = await data.damage()
            if not damage and await self._standing() is Standing.REMOVED:
                damage = "the other members have removed this one"
            if not damage:
                raise NotStarted(f"{error}; its data look intact and were left unchanged") from None
            log.warning("etcd does not start from its data", error=str(error), damage=damage)
            await self._provide_data(marker)
            await self._run_etcd()

    async def _run_etcd(self) -> None:
        """Start etcd. A learner answers only when it has been promoted."""
        peers, guard = self._parts.peers, self._parts.guard
        if peers is None:
            await guard.start()
            return
        settling = asyncio.create_task(peers.settle(self._parts.etcd), name="vote of an etcd member")
        try:
            while True:
                try:
                    await guard.start()
                except NotStarted:
                    if not await guard.is_running() or await self._standing() is not Standing.LEARNER:
                        raise
                    log.info("this member is still getting the data of the others")  # ended now, it would begin again
                else:
                    return
        finally:
            settling.cancel()
            await asyncio.gather(settling, return_exceptions=True)

    async def _get_vote(self) -> None:
        """Return once a member of several has its vote. Raises `NotStarted`."""
        peers = self._parts.peers
        if peers is None:
            return
        try:
            async with asyncio.timeout(SETTLE_TIMEOUT):
                await peers.settle(self._parts.etcd)
        except TimeoutError:
            raise NotStarted(f"this member got no vote within {SETTLE_TIMEOUT:g} s: {_NO_VOTE}") from None

    async def _standing(self) -> Standing:
        peers = self._parts.peers
        return await peers.standing() if peers is not None else Standing.UNKNOWN

    async def _provide_data(self, marker: FirstStart) -> None:
        """Restore the data directory. Where clients may have written to other members, those have the data: this one
        joins them, and never begins a second etcd."""
        peers, settings, served = self._parts.peers, self._settings, self._served
        if peers is None:
            await self._restore(marker)
        elif served is not None:
            complete = _has_skipped_nothing(await peers.join(), served)
            await self._parts.data.create_empty(Origin(settings.epoch, settings.cluster, complete))
        elif peers.is_first:
            await self._restore(marker)
            peers.configure(begins=True)
        else:
            raise NotStarted(f"waiting for {peers.first}, the first member, to start epoch {settings.epoch}")

    async def _is_of_this_epoch(self, marker: FirstStart) -> bool:
        """False for data that an earlier epoch of this cluster left. Raises `NotStarted` for those of another
        cluster."""
        settings, origin = self._settings, await self._parts.data.origin()
        if origin is None:
            if marker.predecessor is not None and self._served is None:
                raise NotStarted(
                    f"epoch {settings.epoch} must start from its copy, but the volume has data of unknown origin: "
                    "move them away, or use an empty volume"
                )
            return True
        if origin.cluster != settings.cluster or origin.epoch > settings.epoch:
            owner = f"epoch {origin.epoch} of {origin.cluster}"
            raise NotStarted(f"the data belong to {owner}, not to epoch {settings.epoch} of {settings.cluster}")
        return origin.epoch == settings.epoch

    async def _restore(self, marker: FirstStart) -> None:
        """Restore the data directory from backups; create an empty directory only if nothing was ever written."""
        settings, data = self._settings, self._parts.data
        is_first = self._served is None
        origin = Origin(settings.epoch, settings.cluster, is_first)
        if self._usable.latest is None:
            if not is_first or marker.snapshots:
                raise NotStarted(f"{self._location} has no full snapshot, but {_MAY_HAVE_WRITES}")
            if await data.is_present():
                raise NotStarted("etcd does not start from its data, and there are no backups to restore")
            await data.create_empty(origin)
            return
        bump = 0 if is_first and marker.lossless else BUMP
        try:
            await data.restore(self._parts.store, self._usable, bump, origin)
        except NothingToRestore:
            if bump:
                raise NotStarted(
                    f"the backups in {self._location} are of an empty etcd, but {_MAY_HAVE_WRITES}"
                ) from None
            await data.create_empty(origin)  # etcd was empty when it was handed over
        log.info("restored etcd's data", revision=target(self._usable), skipped=bump)


def _has_skipped_nothing(revision: int, served: Served) -> bool:
    """False for an etcd that was restored after clients had written: such a restore skips revisions."""
    return revision < served.revision + BUMP
