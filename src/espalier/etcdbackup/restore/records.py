"""Events of deltas as records of etcd's database, with their original revisions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.etcd.database.backend import revision_key
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcdbackup.snapshots.deltas import DELETE, Event, KeyValue
from espalier.etcdbackup.snapshots.malformed import Malformed


class History:
    """The records after a revision. Events up to it are left out, because deltas may overlap."""

    def __init__(self, revision: int) -> None:
        self.revision = revision
        """The revision of the last record."""
        self.events = 0
        """The number of events that were turned into records."""
        self._sub = 0
        self._leased: dict[bytes, int] = {}

    @property
    def leases(self) -> set[int]:
        """Leases of keys that these records leave behind."""
        return set(self._leased.values())

    def records(self, events: Sequence[Event]) -> Iterator[tuple[bytes, bytes]]:
        """The records of events in the order of their revisions, with all events of a revision together.

        Raises `Malformed` for a missing revision, because each change of etcd has the next revision; and for an event
        that etcd never makes.
        """
        last_revision = self.revision
        for event in events:
            revision = event.revision
            if revision <= last_revision:
                continue
            if revision == self.revision:
                self._sub += 1
            elif revision == self.revision + 1:
                self.revision, self._sub = revision, 0
            else:
                raise Malformed(
                    f"an event has revision {revision} after {self.revision}: the revisions between are missing"
                )
            yield self._record(event)
            self.events += 1

    def _record(self, event: Event) -> tuple[bytes, bytes]:
        kv = event.etcd_event.kv
        if kv is None or not kv.key:
            raise Malformed(f"an event of revision {self.revision} has no key")
        if event.etcd_event.type == DELETE:
            self._leased.pop(kv.key, None)
            value = rpc.KeyValue(key=kv.key)
            return revision_key(self.revision, self._sub, tombstone=True), value.SerializeToString()
        self._check(kv)
        if kv.lease:
            self._leased[kv.key] = kv.lease
        elif self._leased:
            self._leased.pop(kv.key, None)
        value = rpc.KeyValue(
            key=kv.key,
            create_revision=kv.create_revision,
            mod_revision=kv.mod_revision,
            version=kv.version,
            value=kv.value,
            lease=kv.lease,
        )
        return revision_key(self.revision, self._sub), value.SerializeToString()

    def _check(self, kv: KeyValue) -> None:
        if not (0 < kv.create_revision <= kv.mod_revision and kv.version > 0):
            counters = f"create revision {kv.create_revision} and version {kv.version}"
            raise Malformed(f"an event of revision {kv.mod_revision} has {counters}, which etcd never assigns")
