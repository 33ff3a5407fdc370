"""Runs the copier of a destination. When it is done, the destination's epoch may start."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import NoReturn

import structlog

from espalier.api.etcd.calls import CopyOperationStatus
from espalier.api.etcd.ownership import Unreadable
from espalier.api.text.listing import first
from espalier.etcdbackup.copying.copier import Copied, Copier, Damaged
from espalier.etcdbackup.copying.plan import LATEST
from espalier.etcdbackup.election import actions, copier, events
from espalier.etcdbackup.restore.plan import target
from espalier.etcdbackup.running.event_queue import EventQueue
from espalier.etcdbackup.running.sync_objects import SyncObjects
from espalier.etcdbackup.snapshots.names import parse
from espalier.etcdbackup.snapshots.reading import Progress, read_inventory, silent
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.stores.errors import Corrupt, StoreError
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)

_WITHOUT_FINAL = (
    "it may still appear; if it is lost, let the copy continue without it, as docs/etcd-backup.md says "
    "(Release by hand)"
)
_MAX_NAMED = 3
"""The most objects that a message names."""


@dataclass(frozen=True, slots=True)
class CopyParts:
    """Source and target of the copy."""

    source: Store
    target: Store
    progress: Progress = silent


class CopierRun:
    """The copier of one epoch. `run` does everything; the other methods may be called at any time, even before it."""

    def __init__(self, settings: copier.Settings, parts: CopyParts, clock: Clock, rng: random.Random) -> None:
        timing = settings.timing
        self._settings = settings
        self._parts = parts
        self._clock = clock
        self._queue: EventQueue[events.CopierEvent] = EventQueue(clock)
        self._state: copier.Copier | None = None
        self._trouble = ""
        self._source_objects = SyncObjects(
            parts.source, settings.predecessor, settings.cluster, clock, rng, seconds=timing.store_timeout
        )
        self._target_objects = SyncObjects(
            parts.target, settings.epoch, settings.cluster, clock, rng, seconds=timing.store_timeout
        )

    @property
    def ready(self) -> bool:
        """The answer of the readiness probe: the destination's epoch may start."""
        return self._state is not None and self._state.ready

    @property
    def phase(self) -> str:
        """The phase, for people."""
        return copier.Phase.CHECKING.value if self._state is None else self._state.phase.value

    @property
    def trouble(self) -> str:
        """The reason why it is not ready; empty when it is."""
        if self.ready:
            return ""
        return self._source_objects.trouble or self._target_objects.trouble or self._trouble or f"it is {self.phase}"

    def status(self) -> CopyOperationStatus:
        """The predecessor's CopyOperation, as far as known."""
        operation = self._state.operation if self._state is not None else None
        return CopyOperationStatus(self._settings.epoch, operation is not None, operation, self.trouble)

    async def run(self) -> NoReturn:
        """Run until cancelled, also once it is ready. Raises errors of this program only."""
        try:
            state = self._state = copier.start(self._settings, self._clock.monotonic())
            while True:
                event, at = await self._queue.next(copier.due(self._settings, state))
                before = state
                self._record_event(event)
                state, next_actions = copier.step(self._settings, state, event, at)
                self._state = state
                if state.phase is not before.phase:
                    log.info("the copy's state changed", epoch=self._settings.epoch, state=state.phase.value)
                for action in next_actions:
                    self._queue.start_task(self._add_result(self._execute(action)), type(action).__name__)
        finally:
            await self._queue.stop()

    def _record_event(self, event: events.CopierEvent | events.Due) -> None:
        if not isinstance(event, events.Observed):
            return
        epoch = self._settings.predecessor
        if event.marker is None:
            self._trouble = f"epoch {epoch} has no first-start marker in {self._parts.source.where}"
        elif isinstance(event.marker, Unreadable):
            self._trouble = f"the first-start marker of epoch {epoch} is unreadable: {event.marker.why}"
        elif isinstance(event.operation, Unreadable):
            self._trouble = f"the CopyOperation of epoch {epoch} is unreadable: {event.operation.why}"
        else:
            self._trouble = ""

    async def _add_result(self, work: Awaitable[events.CopierEvent]) -> None:
        self._queue.add(await work)

    async def _execute(self, action: actions.CopierAction) -> events.CopierEvent:
        match action:
            case actions.Observe():
                return await self._source_objects.observe()
            case actions.ReadOwnMarker():
                return await self._target_objects.own_marker()
            case actions.PutOperation():
                return await self._source_objects.put_operation(action)
            case actions.PutMarker(marker=marker):
                return await self._target_objects.put_marker(marker)
            case actions.Copy(final=final):
                return await self._copy_event(final)

    async def _copy_event(self, final: str | None) -> events.Copied | events.CopyFailed:
        try:
            return events.Copied(await self._copy(final))
        except (StoreError, OSError) as error:
            self._trouble = f"the copy failed and will be retried: {error}"
            log.warning("the copy failed", epoch=self._settings.epoch, error=str(error))
            return events.CopyFailed()

    async def _copy(self, final: str | None) -> tuple[str, ...]:
        """Copy the latest set. Raises `StoreError`."""
        source = self._parts.source
        inventory = await read_inventory(source)
        latest = inventory.latest
        if final is not None:
            final = _latest_final(inventory, final)
            if latest is None or final not in {stored.name for stored in latest.members}:
                raise Corrupt(source.where, f"the final snapshot {final} is not in its latest set", _WITHOUT_FINAL)
        if latest is None:
            if await self._source_objects.served() is not None:
                finding = "no full snapshot, and clients have written to this etcd"
                raise Corrupt(source.where, finding, "find its backups: an etcd that had data never starts empty")
            return ()
        done, around = await self._copy_intact(inventory)
        names = {*done.copied, *done.present}
        wanted = parse(final) if final is not None and final not in around else None
        if wanted is not None and str(wanted.without_final()) not in names:
            raise Corrupt(source.where, f"the final snapshot {final} was not copied", "copy again")
        return tuple(sorted(names))

    async def _copy_intact(self, inventory: Inventory) -> tuple[Copied, frozenset[str]]:
        """Copy what leads to the last revision, around damaged snapshots: an older full snapshot and deltas may lead as
        far. Gives the names of the damaged snapshots, too.

        Raises `Corrupt` if nothing does: an epoch that starts from less would lose writes without consent.
        """
        source = self._parts.source
        damaged: dict[str, Damaged] = {}
        while True:
            _require_all(inventory, damaged, source.where)
            copy = Copier(source, self._parts.target, self._clock, progress=self._parts.progress)
            try:
                done = await copy.run(LATEST, is_listed=True, without=damaged)
                return done, frozenset(error.stored.name for error in damaged.values())
            except Damaged as error:
                if error.stored.key in damaged:
                    raise
                damaged[error.stored.key] = error
                log.warning("a snapshot is damaged", error=str(error))


def _latest_final(inventory: Inventory, final: str) -> str:
    """The final snapshot, or the last one if all that follow it are final as well.

    Each member's agent that was the leader's while the epoch ended may have stored one, and each of these has every
    acknowledged write; the CopyOperation names that of the agent which was the first to write it.
    """
    names = [stored.name for stored in inventory.snapshots]
    later = inventory.snapshots[names.index(final) :] if final in names else ()
    return later[-1].name if later and all(stored.snapshot.is_final for stored in later) else final


def _require_all(inventory: Inventory, damaged: Mapping[str, Damaged], where: str) -> None:
    """Raise `Corrupt` if the rest does not lead to the last revision, with the objects to delete to accept the loss."""
    latest, last = inventory.without(damaged).latest, target(inventory)
    if latest is not None and latest.reach >= last:
        return
    causes = [str(error) for error in damaged.values()]
    if latest is None:
        raise Corrupt(where, f"no intact full snapshot: {causes[0]}", "find backups of it elsewhere")
    causes += [finding.message for finding in latest.findings() if finding.is_fault]
    later = [
        stored.name for stored in inventory.snapshots if stored.snapshot.last > latest.reach or stored.key in damaged
    ]
    raise Corrupt(
        where,
        f"revision {latest.reach} can be restored, but the last one was {last}: {causes[0]}",
        f"bring back what is missing; or, if writes after revision {latest.reach} may be lost, delete "
        f"{first(later, _MAX_NAMED)} there: then the copy continues",
    )
