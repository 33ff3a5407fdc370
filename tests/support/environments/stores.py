"""Worlds to start from again: the objects of embedded API servers as they are, for each test a copy of its own."""

from __future__ import annotations

from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.simulator.workload_clusters.stores import MemoryStores


def copied(store: Store) -> MemoryStore:
    """The same objects at the same revision; of the changes before, nobody knows any more."""
    copy = MemoryStore()
    copy.revision = copy.durable = store.revision
    copy._compacted = store.revision
    for name, table in store.tables():
        same = copy.table(name)
        same.objects, same.keys, same.compacted = dict(table.objects), list(table.keys), store.revision
    return copy


class CopiedStores(MemoryStores):
    """Those that were there, copied."""

    def __init__(self, stores: MemoryStores) -> None:
        super().__init__()
        self._stores = {key: copied(store) for key, store in stores._stores.items()}
