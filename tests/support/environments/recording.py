"""The content of an environment at every moment of its life: another environment can begin from any of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial

from espalier.apiserver.storage.store import Change, MemoryStore, Store
from espalier.runtime.clock import Clock
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.upgraders import GARDEN


@dataclass(frozen=True)
class EnvironmentState:
    """The stores of an environment with one workload cluster, at a moment. The content is copied, never written."""

    management: Store
    workload: Store
    at: datetime

    @staticmethod
    def of(store: Store, stores: MemoryStores, clock: Clock) -> EnvironmentState:
        """As they are now."""
        return EnvironmentState(copied(store, MemoryStore()), copied(stores.open(GARDEN), MemoryStore()), clock.now())

    def opened(self) -> tuple[Store, MemoryStores]:
        """Stores for an environment that begins from here."""
        stores = MemoryStores()
        copied(self.workload, stores.open(GARDEN))
        return copied(self.management, MemoryStore()), stores


@dataclass(frozen=True)
class Write:
    """A write to one of the stores, by anybody, with its time."""

    is_far: bool
    """True if it was written to the workload cluster."""
    change: Change
    at: datetime

    def __str__(self) -> str:
        how = "deleted" if self.change.deleted else "made" if self.change.before is None else "changed"
        return f"{self.change.after.kind} {self.change.key} was {how}"


class Recording:
    """All writes to the stores of an environment from now on."""

    def __init__(self, store: Store, stores: MemoryStores, clock: Clock) -> None:
        self.writes: list[Write] = []
        self.marked: dict[int, None] = {0: None}
        """After how many writes somebody found it worth to begin from."""
        self._clock = clock
        self._began = EnvironmentState.of(store, stores, clock)
        store.follow(partial(self._wrote, False))
        stores.open(GARDEN).follow(partial(self._wrote, True))

    def _wrote(self, is_far: bool, change: Change) -> None:
        self.writes.append(Write(is_far, change, self._clock.now()))

    def mark(self) -> None:
        """Note the present moment."""
        self.marked[len(self.writes)] = None

    def after(self, count: int) -> EnvironmentState:
        """The content after so many writes."""
        near, far = copied(self._began.management, MemoryStore()), copied(self._began.workload, MemoryStore())
        for write in self.writes[:count]:
            _repeat(write.change, far if write.is_far else near)
        return EnvironmentState(near, far, self.writes[count - 1].at if count else self._began.at)


def copied(source: Store, target: Store) -> Store:
    """Have a new store hold the same objects at the same revision; of changes before that it knows nothing."""
    results = [
        (int(item.resource_version), table, key, item)
        for table, content in source.tables()
        for key, item in content.objects.items()
    ]
    for revision, table, key, item in sorted(results, key=lambda entry: entry[0]):
        target.revision = revision - 1
        target.put(table, key, item)
    target.revision = target.durable = source.revision
    target.compact(source.revision)
    return target


def _repeat(change: Change, target: Store) -> None:
    target.revision = change.revision - 1
    target.put(change.table, change.key, change.after, deleted=change.deleted)
