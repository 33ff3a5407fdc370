"""Garbage collection: deletes snapshots that the retention policy does not keep."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NoReturn

import structlog

from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.retention import Exponential, Policy, deletable
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.stores.errors import StoreError, Unavailable
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Retention:
    """The policy."""

    policy: Policy = field(default_factory=Exponential)
    deltas: timedelta = timedelta()
    """How long deltas of earlier sets are kept."""


async def collect(
    store: Store, clock: Clock, retention: Retention, measures: Measures, may_delete: Callable[[], bool]
) -> int:
    """Delete what is not needed, while that is allowed; return the number of deleted objects. Raises `StoreError` if
    the store can't be listed.

    An object that can't be deleted, such as an object under a lock, is left to the next run. So is the full snapshot
    of a delta that was left, because the delta needs it.
    """
    deleted, is_delta_left = 0, False
    for stored in deletable(
        await read_inventory(store), retention.policy, clock.now(), delta_retention=retention.deltas
    ):
        if not may_delete():
            break
        kind = stored.snapshot.kind if isinstance(stored, StoredSnapshot) else stored.chunk.snapshot.kind
        if kind is Kind.FULL and is_delta_left:
            is_delta_left = False
            continue
        try:
            await store.delete(stored.key)
        except Unavailable as error:
            measures.record_collected(kind, False)
            log.warning("retention stops: the store is unreachable", key=stored.key, error=str(error))
            break
        except StoreError as error:
            measures.record_collected(kind, False)
            is_delta_left = is_delta_left or kind is Kind.DELTA
            log.warning("a snapshot could not be deleted", key=stored.key, error=str(error))
            continue
        measures.record_collected(kind, True)
        deleted += 1
    return deleted


async def collect_periodically(
    store: Store,
    clock: Clock,
    retention: Retention,
    measures: Measures,
    may_delete: Callable[[], bool],
    period: float,
) -> NoReturn:
    """Collect every `period` seconds, while `may_delete` allows it, until cancelled."""
    while True:
        await asyncio.sleep(period)
        if not may_delete():
            continue
        try:
            if deleted := await collect(store, clock, retention, measures, may_delete):
                log.info("deleted snapshots that are no longer needed", count=deleted)
        except StoreError as error:
            log.warning("retention could not list the store", error=str(error))
