"""A restore into records instead of a data directory: for etcds in memory, on virtual time."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace

from espalier.etcd.backend import Record, State, read_records, read_state
from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcdbackup.restore import plan
from espalier.etcdbackup.restore.errors import NothingToRestore
from espalier.etcdbackup.restore.records import History
from espalier.etcdbackup.restore.restorer import LEASE_TTL
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.reading import content, corrupt, events
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.stores.store import Store


async def restored(store: Store, stock: Inventory, *, bump: int) -> tuple[list[Record], State]:
    """Restore records and state from the latest of these snapshots, `bump` revisions later.

    Raises `StoreError`, `RestoreError`, `Malformed`.
    """
    full = plan.full_snapshots(stock, where=store.where)[0]
    async with aclosing(content(store, full)) as pieces:
        database = Database.of(b"".join([piece async for piece in pieces]), full.name)
    try:
        records, state = list(read_records(database)), read_state(database)
    except Damaged as error:
        raise corrupt(store, full, Malformed(str(error))) from None
    history = History(state.revision)
    for delta in plan.path(full, state.revision, stock).deltas:
        async with aclosing(events(store, delta)) as batches:
            async for batch in batches:
                records += [Record.decode(key, value) for key, value in history.records(batch)]
    if history.revision <= 1:
        raise NothingToRestore(f"{full.name} is a snapshot of an empty etcd")
    leases = {**dict.fromkeys(history.leases, LEASE_TTL), **state.leases}
    served = history.revision + bump
    compacted = served if bump else state.compacted
    return records, replace(state, revision=served, compacted=compacted, leases=leases)
