"""Metrics of an agent under the names of etcd-backup-restore, so that its dashboards and alerts work."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, generate_latest

from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import Inventory, StoredSnapshot
from espalier.kube.measures import Measure

_SECONDS = (0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 900, 1800)
_BY_KIND, _BY_RESULT = ("kind",), ("kind", "succeeded")

LATEST_REVISION = Measure(
    "etcdbr_snapshot_latest_revision", "gauge", "Last revision of the newest snapshot that was stored.", _BY_KIND
)
LATEST_TIMESTAMP = Measure(
    "etcdbr_snapshot_latest_timestamp",
    "gauge",
    "Seconds since 1970 at which the newest snapshot was taken.",
    _BY_KIND,
    to_do="if `Full` is older than two periods, see `/healthz` and the log",
)
REQUIRED = Measure(
    "etcdbr_snapshot_required",
    "gauge",
    "1 while a snapshot is due and not stored.",
    _BY_KIND,
    to_do="if it is 1 for longer than a snapshot takes, a lost disk loses writes; the log has the error of the store "
    "or etcd",
)
DURATION = Measure(
    "etcdbr_snapshot_duration_seconds", "histogram", "Time to take and store a snapshot.", _BY_RESULT, _SECONDS
)
DELTAS = Measure("etcdbr_snapstore_latest_deltas_total", "gauge", "Deltas of the latest set.")
DELTA_REVISIONS = Measure(
    "etcdbr_snapstore_latest_deltas_revisions_total",
    "gauge",
    "Revisions in the deltas of the latest set.",
    to_do="above a million, restores are slow: take full snapshots more often",
)
COLLECTED = Measure(
    "etcdbr_snapshot_gc", "counter", "Snapshots that retention deleted or failed to delete.", _BY_RESULT
)
DEFRAGMENTATION = Measure(
    "etcdbr_defragmentation_duration_seconds", "histogram", "Duration of defragmentations.", ("succeeded",), _SECONDS
)

STORE_UNREADABLE = Measure(
    "espalier_etcd_store_unreadable_seconds",
    "gauge",
    "Seconds since the agent of an epoch could last read its store; 0 while it can.",
    to_do="if above 0, see `/healthz` for the reason and when etcd stops serving clients",
)
DEACTIVATION = Measure(
    "espalier_etcd_deactivation_seconds",
    "gauge",
    "Seconds until etcd stops serving clients unless its store can be read again; 0 while it does not serve.",
    to_do="it counts down from `validity` while the store can't be read: restore the store before it reaches 0; "
    "after that, etcd serves again once the store is back",
)

MEASURES: tuple[Measure, ...] = (
    LATEST_REVISION,
    LATEST_TIMESTAMP,
    REQUIRED,
    DURATION,
    DELTAS,
    DELTA_REVISIONS,
    COLLECTED,
    DEFRAGMENTATION,
    STORE_UNREADABLE,
    DEACTIVATION,
)


class Measures:
    """All metrics of one agent."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry(auto_describe=False)
        self._latest_revision = LATEST_REVISION.gauge(registry)
        self._latest_timestamp = LATEST_TIMESTAMP.gauge(registry)
        self._required = REQUIRED.gauge(registry)
        self._duration = DURATION.histogram(registry)
        self._deltas = DELTAS.gauge(registry)
        self._delta_revisions = DELTA_REVISIONS.gauge(registry)
        self._collected = COLLECTED.counter(registry)
        self._defragmentation = DEFRAGMENTATION.histogram(registry)

    def of_store(self, unreadable: Callable[[], float], deactivation: Callable[[], float]) -> None:
        """Report on an epoch's store as well, with the results of these functions at each scrape."""
        STORE_UNREADABLE.gauge(self.registry).set_function(unreadable)
        DEACTIVATION.gauge(self.registry).set_function(deactivation)

    def record_inventory(self, inventory: Inventory) -> None:
        """Record the content of the store at start."""
        latest = inventory.latest
        if latest is None:
            return
        for stored in latest.members:
            self._record_newest(stored)
        self._deltas.set(len(latest.deltas))
        self._delta_revisions.set(max(0, latest.last - latest.full.snapshot.last))

    def record_stored(self, stored: StoredSnapshot, seconds: float) -> None:
        """Record a stored snapshot, and the seconds that it took."""
        self._record_newest(stored)
        self._duration.labels(stored.snapshot.kind.value, "true").observe(seconds)
        if stored.snapshot.kind is Kind.FULL:
            self._deltas.set(0)
            self._delta_revisions.set(0)
        else:
            self._deltas.inc()
            self._delta_revisions.inc(stored.snapshot.last - stored.snapshot.start + 1)

    def record_failed(self, kind: Kind, seconds: float) -> None:
        """Record a failed snapshot, and the seconds until it failed."""
        self._duration.labels(kind.value, "false").observe(seconds)

    def record_required(self, kind: Kind, is_due: bool) -> None:
        """Record that a snapshot is due, or no longer is."""
        self._required.labels(kind.value).set(is_due)

    def record_collected(self, kind: Kind, succeeded: bool) -> None:
        """Record that retention deleted a snapshot, or failed to."""
        self._collected.labels(kind.value, _word(succeeded)).inc()

    def record_defragmentation(self, seconds: float, succeeded: bool) -> None:
        """Record a defragmentation of a member: its seconds, and the result."""
        self._defragmentation.labels(_word(succeeded)).observe(seconds)

    def exposition(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self.registry)

    def _record_newest(self, stored: StoredSnapshot) -> None:
        snapshot = stored.snapshot
        self._latest_revision.labels(snapshot.kind.value).set(snapshot.last)
        self._latest_timestamp.labels(snapshot.kind.value).set(snapshot.created)


def _word(succeeded: bool) -> str:
    return "true" if succeeded else "false"
