"""The storage of the member's state: a SQLite file, or memory.

One transaction of SQLite stores what changed since the last one, so many requests share an fsync. With WAL and
`synchronous=FULL` a committed transaction survives a kill and a power cut, and an incomplete one has no effect.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import apsw

from espalier.etcd.bbolt.reading import Database
from espalier.etcd.database.backend import NEVER_COMPACTED, Record, State, read_records, read_state
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.simulator.etcd.state.core import Batch, Identity, Stored
from espalier.simulator.etcd.state.mvcc import Store

FORMAT = 1
"""The version of the file's format; a file of a later one is refused, and left unchanged."""
FILE_NAME = "etcd.sqlite"

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS records (
        main INTEGER NOT NULL, sub INTEGER NOT NULL, tombstone INTEGER NOT NULL, kv BLOB NOT NULL,
        PRIMARY KEY (main, sub)
    ) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS leases (id INTEGER PRIMARY KEY, ttl INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS alarms (name TEXT PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""


class Unusable(Exception):
    """The data can't be read or written, and is left unchanged. The message names the file and the reason."""


class Storage(Protocol):
    """Stores batches durably. Methods may block; they are called one at a time."""

    blocks: bool
    """False if calls return at once and need no thread."""

    def open(self, rng: random.Random) -> Stored:
        """The stored state; a new identity if there is none. Raises `Unusable`."""

    def commit(self, batch: Batch) -> None:
        """Store a batch, durably. Raises `Unusable`."""

    def shrink(self) -> None:
        """Free unused space. Raises `Unusable`."""

    def close(self) -> None:
        """Close files; idempotent."""


class MemoryStorage:
    """Keeps batches in memory: in simulations, a killed member restarts from it."""

    blocks = False

    def __init__(self) -> None:
        self._records: dict[tuple[int, int], Record] = {}
        self._stored: Stored | None = None

    def open(self, rng: random.Random) -> Stored:
        """The stored state."""
        stored = self._stored or Stored(Identity.new(rng))
        self._stored = replace(stored, term=stored.term + 1)
        return replace(self._stored, records=list(self._records.values()))

    def commit(self, batch: Batch) -> None:
        """Store a batch."""
        if self._stored is None:
            raise Unusable("the storage in memory was not opened")
        self._records |= {(record.main, record.sub): record for record in batch.records}
        for revision in batch.removed:
            del self._records[revision]
        self._stored = replace(
            self._stored,
            compacted=batch.compacted,
            leases={id_: ttl for id_, ttl in {**self._stored.leases, **batch.leases}.items() if ttl},
            alarms=batch.alarms,
            index=batch.index,
        )

    def copy(self) -> MemoryStorage:
        """A copy of the storage."""
        copy = MemoryStorage()
        copy._records, copy._stored = dict(self._records), self._stored
        return copy

    def shrink(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class SqliteStorage:
    """Keeps batches in one file of a folder. One process at a time may have it open."""

    blocks = True

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._connection: apsw.Connection | None = None

    def open(self, rng: random.Random) -> Stored:
        """The stored state."""
        try:
            self._path.touch(mode=0o600)  # SQLite gives the files beside it the mode of this one
            connection = self._connection = apsw.Connection(str(self._path))
            for name, value in (("locking_mode", "EXCLUSIVE"), ("journal_mode", "WAL"), ("synchronous", "FULL")):
                connection.pragma(name, value)
            with connection:
                stored = _load(connection, self._path, rng)
        except (apsw.Error, OSError) as error:
            self.close()
            raise Unusable(f"{self._path} {_reason(error)}") from error
        except BaseException:
            self.close()
            raise
        return stored

    def commit(self, batch: Batch) -> None:
        """Store a batch."""
        with self._open_connection() as connection, connection:
            connection.executemany(
                "INSERT INTO records VALUES (?, ?, ?, ?)",
                [
                    (record.main, record.sub, record.tombstone, record.kv.SerializeToString())
                    for record in batch.records
                ],
            )
            connection.executemany("DELETE FROM records WHERE main = ? AND sub = ?", batch.removed)
            connection.executemany(
                "INSERT OR REPLACE INTO leases VALUES (?, ?)", [(id_, ttl) for id_, ttl in batch.leases.items() if ttl]
            )
            connection.executemany(
                "DELETE FROM leases WHERE id = ?", [(id_,) for id_, ttl in batch.leases.items() if not ttl]
            )
            connection.execute("DELETE FROM alarms")
            connection.executemany("INSERT INTO alarms VALUES (?)", [(name,) for name in sorted(batch.alarms)])
            connection.executemany(
                "UPDATE state SET value = ? WHERE name = ?", [(batch.compacted, "compacted"), (batch.index, "index")]
            )

    def shrink(self) -> None:
        """Rewrite the file."""
        with self._open_connection() as connection:
            connection.execute("VACUUM")

    def close(self) -> None:
        """Close the file."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextlib.contextmanager
    def _open_connection(self) -> Iterator[apsw.Connection]:
        if self._connection is None:
            raise Unusable(f"{self._path} is closed")
        try:
            yield self._connection
        except (apsw.Error, OSError) as error:
            raise Unusable(f"{self._path} {_reason(error)}") from error


def restore(storage: Storage, database: Database, rng: random.Random) -> None:
    """Fill an empty storage, as `etcdutl snapshot restore` fills a data directory: a new member with the same data.

    Blocks. Raises `Unusable`, and `Damaged` for the database.
    """
    fill(storage, read_records(database), read_state(database), rng)


def fill(storage: Storage, records: Iterable[Record], state: State, rng: random.Random) -> None:
    """Fill an empty storage with records and leases, as `restore` does; alarms are not restored.

    Blocks. Raises `Unusable`, and exceptions of `records`.
    """
    stored = storage.open(rng)
    try:
        if stored.index != Stored(stored.identity).index:
            raise Unusable("the data directory already has data; restore a snapshot into an empty one")
        # A record without key stands for skipped revisions.
        store = Store(record for record in records if record.kv.key)
        store.revision = max(store.revision, state.revision)
        if state.compacted > 0:
            store.compact(state.compacted)  # the compaction may only have been scheduled when the snapshot was taken
        index = max(state.index, stored.index + 1)
        leases = dict(state.leases)
        storage.commit(Batch(store.records, compacted=state.compacted, leases=leases, index=index))
    finally:
        storage.close()


def _load(connection: apsw.Connection, path: Path, rng: random.Random) -> Stored:
    connection.execute(_SCHEMA)
    new = Stored(Identity.new(rng))
    connection.executemany(
        "INSERT OR IGNORE INTO state VALUES (?, ?)",
        [
            ("format", FORMAT),
            ("cluster_id", new.identity.cluster_id),
            ("member_id", new.identity.member_id),
            ("compacted", NEVER_COMPACTED),
            ("index", new.index),
            ("term", 1),
        ],
    )
    state: dict[str, int] = dict(connection.execute("SELECT name, value FROM state"))
    if state["format"] > FORMAT:
        raise Unusable(f"{path} has format {state['format']}; this release reads up to {FORMAT}: use a later release")
    connection.execute("UPDATE state SET value = value + 1 WHERE name = 'term'")
    rows = connection.execute("SELECT main, sub, tombstone, kv FROM records ORDER BY main, sub")
    return Stored(
        Identity(state["cluster_id"], state["member_id"]),
        [Record(main, sub, bool(tombstone), rpc.KeyValue.FromString(kv)) for main, sub, tombstone, kv in rows],
        state["compacted"],
        dict(connection.execute("SELECT id, ttl FROM leases ORDER BY id")),
        frozenset(name for (name,) in connection.execute("SELECT name FROM alarms")),
        state["index"],
        state["term"] + 1,
    )


def _reason(error: apsw.Error | OSError) -> str:
    match error:
        case apsw.NotADBError():
            return "is not a database of this program"
        case apsw.CorruptError():
            return f"is damaged ({error})"
        case apsw.BusyError():
            return "is open in another process; stop it first"
        case apsw.FullError():
            return "can't be written, no space is left on its disk"
        case OSError():
            return f"can't be opened: {error.strerror}"
    return f"can't be used: {error}"
