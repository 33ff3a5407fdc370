"""Backups of etcd as table rows, and as data for programs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from espalier.api.text.listing import counted
from espalier.api.text.spans import span
from espalier.cli.kit.printing.layout import Table
from espalier.etcdbackup.snapshots.names import Kind
from espalier.etcdbackup.snapshots.sets import FindingReason, Inventory, SnapshotSet, StoredSnapshot
from espalier.etcdbackup.snapshots.verification import Checked, Verdict

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")

SETS = Table(("Revisions", "Deltas", "Size", "Compression", "Age", "Newest", "State", "Taken", "Full"))
"""All columns, with `-o wide`; without the last two, the table fits a terminal."""
SNAPSHOTS = Table(("Name", "Kind", "Revisions", "Size", "Compression", "Taken"))
CHECKED = Table(("Name", "Content", "State"))


def set_row(snapshots: SnapshotSet, now: datetime) -> tuple[str, ...]:
    """A set in the columns of `SETS`."""
    return (
        f"{snapshots.full.snapshot.last}-{snapshots.last}" if snapshots.deltas else f"{snapshots.last}",
        str(len(snapshots.deltas)),
        size_of(snapshots.size),
        compressions(snapshots.members),
        age_of(snapshots.full.snapshot.created, now),
        age_of(snapshots.newest, now),
        state(snapshots),
        _time(snapshots.full),
        snapshots.full.name,
    )


def state(snapshots: SnapshotSet) -> str:
    """The state of a set in a word or two, from its names."""
    faults = [finding for finding in snapshots.findings() if finding.is_fault]
    if any(finding.reason is FindingReason.EMPTY for finding in faults):
        return "empty object"
    if faults:
        return f"gap after {snapshots.reach}"
    if snapshots.forks:
        return "fork?"
    return "final" if snapshots.full.snapshot.is_final and not snapshots.deltas else "complete"


def snapshot_row(stored: StoredSnapshot) -> tuple[str, ...]:
    """A snapshot in the columns of `SNAPSHOTS`."""
    snapshot = stored.snapshot
    return (
        stored.name,
        "full" if snapshot.kind is Kind.FULL else "delta",
        str(snapshot.last) if snapshot.kind is Kind.FULL else f"{snapshot.start}-{snapshot.last}",
        size_of(stored.size),
        snapshot.compression.word,
        _time(stored),
    )


def checked_row(checked: Checked) -> tuple[str, ...]:
    """A verified object, in the columns of `CHECKED`."""
    if checked.problem:
        return checked.stored.name, "", "damaged"
    content = size_of(checked.size) if checked.stored.snapshot.kind is Kind.FULL else counted(checked.events, "event")
    return checked.stored.name, content, "whole"


def compressions(members: Sequence[StoredSnapshot]) -> str:
    """Those of a set, each once."""
    return ", ".join(dict.fromkeys(stored.snapshot.compression.word for stored in members))


def inventory_facts(where: str, inventory: Inventory, now: datetime) -> dict[str, Any]:
    """The contents of a store."""
    return {
        "store": where,
        "sets": [set_facts(snapshots, now) for snapshots in inventory.sets],
        "stray": [snapshot_facts(stored) for stored in inventory.stray],
        "chunks": [stored.key for stored in inventory.chunks],
        "foreign": list(inventory.foreign),
    }


def set_facts(snapshots: SnapshotSet, now: datetime) -> dict[str, Any]:
    """A set."""
    return {
        "full": snapshot_facts(snapshots.full),
        "deltas": [snapshot_facts(stored) for stored in snapshots.deltas],
        "lastRevision": snapshots.last,
        "restorableRevision": snapshots.reach,
        "bytes": snapshots.size,
        "ageSeconds": int(now.timestamp()) - snapshots.full.snapshot.created,
        "newestAgeSeconds": int(now.timestamp()) - snapshots.newest,
        "findings": [{"reason": str(finding.reason), "message": finding.message} for finding in snapshots.findings()],
    }


def snapshot_facts(stored: StoredSnapshot) -> dict[str, Any]:
    """A snapshot, with the keys that etcd-backup-restore uses."""
    snapshot = stored.snapshot
    return {
        "snapName": stored.name,
        "kind": str(snapshot.kind),
        "startRevision": snapshot.start,
        "lastRevision": snapshot.last,
        "createdOn": f"{snapshot.time:%Y-%m-%dT%H:%M:%SZ}",
        "compressionSuffix": str(snapshot.compression),
        "isFinal": snapshot.is_final,
        "key": stored.key,
        "bytes": stored.size,
    }


def verdict_facts(verdict: Verdict, now: datetime) -> dict[str, Any]:
    """A verified set: what its names promise, and its actual content."""
    return {
        **set_facts(verdict.snapshots, now),
        "restorableRevision": verdict.reach,
        "events": sum(checked.events for checked in verdict.checked),
        "contentBytes": sum(checked.size for checked in verdict.checked),
        "problems": verdict.problems,
    }


def _time(stored: StoredSnapshot) -> str:
    return f"{stored.snapshot.time:%Y-%m-%d %H:%M:%S}"


def size_of(size: float) -> str:
    """`1.2 MiB`."""
    for unit in _UNITS:
        if size < 1024 or unit == _UNITS[-1]:
            break
        size /= 1024
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


def age_of(created: float, now: datetime) -> str:
    """`5m`, as kubectl shows ages."""
    return span(now.timestamp() - created)
