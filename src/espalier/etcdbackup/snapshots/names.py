"""Names of snapshots, as in etcd-backup-restore (its pkg/snapstore/snapshot.go and pkg/types/snapstore.go).

`v2/Full-00000000-00009002-1565021494.gz.final`: kind, first and last revision, seconds since 1970, compression, and
whether etcd took no writes after it. Nothing else is known of a snapshot before it is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

LAYOUT, LEGACY_LAYOUT = "v2", "v1"
"""Folders below the prefix of a store. In the legacy layout, which is only read, each set has a folder
`Backup-<seconds>`."""
LAST_REVISION = 2**63 - 1
LAST_SECOND = 253_402_300_799
"""9999-12-31, the last date that Python can represent."""


class Kind(StrEnum):
    """Kinds of snapshots, as in names."""

    FULL = "Full"
    DELTA = "Incr"


class Compression(StrEnum):
    """How the content is compressed; the suffix of the name."""

    NONE = ""
    GZIP = ".gz"
    ZLIB = ".zlib"
    LZW = ".Z"

    @property
    def word(self) -> str:
        """The name for people, and for the flag of etcd-backup-restore."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot as described by its name."""

    kind: Kind
    start: int
    """First revision; 0 for a full snapshot."""
    last: int
    """Last revision."""
    created: int
    """Seconds since 1970."""
    compression: Compression = Compression.NONE
    is_final: bool = False
    """etcd took no writes after it: another agent may own the data now."""

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.last <= LAST_REVISION:
            raise ValueError(f"revisions: found {self.start} to {self.last}, allowed is a range from 0 to 2^63-1")
        if self.kind is Kind.FULL and self.start:
            raise ValueError(f"first revision of a full snapshot: found {self.start}, allowed is 0")
        if not 0 <= self.created <= LAST_SECOND:
            raise ValueError(f"time: found {self.created}, allowed are seconds since 1970, up to the year 9999")

    def __str__(self) -> str:
        final = ".final" if self.is_final else ""
        return f"{self.kind}-{self.start:08d}-{self.last:08d}-{self.created}{self.compression}{final}"

    @property
    def key(self) -> str:
        """Key in a store."""
        return f"{LAYOUT}/{self}"

    @property
    def time(self) -> datetime:
        """The time of the snapshot, by the clock of the agent that took it."""
        return datetime.fromtimestamp(self.created, UTC)

    def without_final(self) -> Snapshot:
        """The same snapshot as a copy in another store is named."""
        return replace(self, is_final=False)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a snapshot that a store without multipart uploads keeps beside it until the parts are combined."""

    snapshot: Snapshot
    number: int


_NAME = re.compile(
    r"(?P<kind>Full|Incr)-(?P<start>\d{8,19})-(?P<last>\d{8,19})-(?P<created>\d{1,12})"
    r"(?P<compression>\.gz|\.zlib|\.Z)?(?P<final>\.final)?",
    re.ASCII,
)
_CHUNK = re.compile(r"\d{10}", re.ASCII)
_LEGACY_FOLDER = re.compile(r"Backup-\d{1,12}", re.ASCII)


def parse(name: str) -> Snapshot | None:
    """Parse a snapshot's name; None for another string: `str()` of the result is the name."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        snapshot = Snapshot(
            Kind(match["kind"]),
            int(match["start"]),
            int(match["last"]),
            int(match["created"]),
            Compression(match["compression"] or ""),
            match["final"] is not None,
        )
    except ValueError:
        return None
    return snapshot if str(snapshot) == name else None


def parse_key(key: str) -> Snapshot | Chunk | None:
    """Parse a key below the prefix of a store: a snapshot, a chunk of a snapshot, or None for anything else."""
    layout, *path = key.split("/")
    if layout == LEGACY_LAYOUT and path and _LEGACY_FOLDER.fullmatch(path[0]):
        path = path[1:]
    elif layout != LAYOUT:
        return None
    snapshot = parse(path[0]) if path else None
    if snapshot is None or len(path) == 1:
        return snapshot
    if len(path) == 2 and _CHUNK.fullmatch(path[1]):
        return Chunk(snapshot, int(path[1]))
    return None
