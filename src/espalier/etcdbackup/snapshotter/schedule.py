"""The times of snapshots. Defaults, and rules at start, are those of etcd-backup-restore.

All times of day are UTC.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from espalier.etcdbackup.snapshots.sets import SnapshotSet

_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule. Raises `ValueError` for invalid values."""

    full: str = "0 */1 * * *"
    """Cron expression of full snapshots."""
    delta_period: float = 20.0
    """Seconds within which an event is stored, as long as the store is available; less than 1: no deltas."""
    delta_memory: int = 10 << 20
    """Bytes of events (as JSON) at which a delta is stored early."""
    full_window: timedelta = timedelta(hours=24)
    """At start, no deltas are added to a full snapshot that is older than this."""
    defragmentation: str = "0 0 */3 * *"
    """Cron expression; empty: never."""
    collection_period: float = 60.0
    """Seconds between two runs of retention; less than 1: never."""

    def __post_init__(self) -> None:
        following(self.full, datetime.now(UTC))
        if self.defragmentation:
            following(self.defragmentation, datetime.now(UTC), name="defragmentation schedule")
        if self.delta_memory < 1:
            raise ValueError(f"memory of deltas: found {self.delta_memory}, allowed is 1 byte or more")

    @property
    def takes_deltas(self) -> bool:
        """False if only full snapshots are taken."""
        return self.delta_period >= 1


def following(expression: str, now: datetime, *, name: str = "schedule") -> datetime:
    """The next time of a cron expression. Raises `ValueError` if there is none."""
    try:
        return next(CronSim(_for_cronsim(expression), now.astimezone(UTC)))
    except (CronSimError, StopIteration) as error:
        raise ValueError(
            f"{name}: found {expression!r}, allowed is a cron expression of five fields such as 0 */1 * * * "
            f"({str(error) or 'it never occurs'})"
        ) from None


def _for_cronsim(expression: str) -> str:
    """The expression with steps of days as ranges, which Debian's cron reads as Kubernetes' cron does.

    A day must match either of two restricted fields. To Debian's cron, and cronsim, `*/2` is no restriction.
    """
    fields = expression.split()
    if len(fields) < _FIELDS:
        return expression
    for place, days in ((-3, "1-31"), (-1, "0-6")):
        parts = fields[place].split(",")
        is_unrestricted = not {"*", "*/1"}.isdisjoint(parts)
        ranges = ",".join(days + part[1:] if part.startswith("*/") else part for part in parts)
        fields[place] = "*" if is_unrestricted else ranges
    return " ".join(fields)


def full_first(schedule: Schedule, latest: SnapshotSet | None, now: datetime) -> str | None:
    """The reason why an agent starts with a full snapshot; None if deltas continue the latest set."""
    if latest is None:
        return "there is none yet"
    if not schedule.takes_deltas:
        return "there are no deltas"
    if latest.full.snapshot.is_final:
        return "the latest one is final"
    if now - latest.full.snapshot.time > schedule.full_window:
        return "the latest one is too old"
    faults = [finding.message for finding in latest.findings() if finding.is_fault]
    return faults[0] if faults else None
