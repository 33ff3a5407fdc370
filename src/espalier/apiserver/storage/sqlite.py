"""The durable store: a log of changes in one SQLite file.

One row for each version of an object that may still be read: the current one, and those in the history for watches.
Writes of one turn of the event loop, and those that arrive while the disk is busy, go into one transaction on a worker
thread. One connection does everything: SQLite then needs no locks and no retries.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import apsw

from espalier.api.resource import Key
from espalier.apiserver.storage.encryption import PREFIX as ENCRYPTED
from espalier.apiserver.storage.encryption import CannotDecrypt, Encryption, require_unencrypted
from espalier.apiserver.storage.store import Change, Store
from espalier.apiserver.wire.failures import Full
from espalier.kube.objects import Object

E = TypeVar("E", bound=Exception)

FORMAT = 1
"""The format of the file; a file of a later format is not changed."""

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS log (
        revision INTEGER PRIMARY KEY, "table" TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
        deleted INTEGER NOT NULL, body BLOB NOT NULL
    );
    CREATE TABLE IF NOT EXISTS state (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_NEW = (("format", FORMAT), ("revision", 1), ("compacted", 0))


_SCRUB = "scrub"
"""The row of `state` that exists while free pages of the file may have objects in an earlier form."""

_MIN_SPACE = 64 * 1024
"""Free bytes that SQLite needs to open a database."""


class Unusable(Exception):
    """The file of a store can't be used, and was not changed. The message names the file and the reason."""


class NoSpace(Unusable):
    """No space is left on the disk of the file."""


class UnknownFormat(Unusable):
    """The file was written by a later release."""


class _Row(NamedTuple):
    revision: int
    table: str
    namespace: str
    name: str
    deleted: bool
    body: bytes


class SqliteStore(Store):
    """Keeps objects in the file `path`, which is created if missing, and in memory.

    When the file can't be written any more (the disk is full), unacknowledged writes are rolled back, and the store
    becomes read-only: writes raise `Full`.

    With an `encryption`, objects are encrypted in the file; those that are stored unencrypted or with an earlier key
    are encrypted again at the start.
    """

    def __init__(self, path: Path, encryption: Encryption | None = None) -> None:
        super().__init__()
        self._path = path
        self._encryption = encryption
        self._connection: apsw.Connection | None = None
        self._pending: list[Change] = []
        self._garbage: list[int] = []
        self._writing: list[Change] = []
        self._flushing: asyncio.Task[None] | None = None
        self._next_flush: asyncio.Future[None] | None = None
        self._failure = ""

    async def start(self) -> None:
        """Open the file and read it. Raises `Unusable`, and then creates no file."""
        state, rows = await asyncio.to_thread(self._open_or_explain)
        self._compacted = state["compacted"]
        self.revision = self.durable = max(state["revision"], rows[-1].revision if rows else 0)
        for row in rows:
            self._load(row)

    async def close(self) -> None:
        """Finish writes in progress and close the file."""
        while self._flushing is not None:
            await asyncio.wait((self._flushing,))
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.to_thread(connection.close)

    async def flushed(self, revision: int) -> None:
        """Return when a revision is durable."""
        while revision > self.durable:
            self._check_writable()
            if self._next_flush is None:
                self._next_flush = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._next_flush)

    def _open_or_explain(self) -> tuple[dict[str, int], list[_Row]]:
        is_new = False
        try:
            is_new = not self._path.exists()
            self._path.touch(mode=0o600)  # SQLite gives the files beside it the mode of this one
            self._path.chmod(0o600)
            if not is_new:
                _check(self._path)
            return self._open()
        except (apsw.Error, OSError) as error:
            if is_new:
                for suffix in ("", "-wal", "-shm"):
                    with suppress(OSError):
                        self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
            cause = _before_rollback(error)
            if _is_full(self._path, cause):
                raise NoSpace(f"{self._path} can't be written, no space is left on its disk") from error
            raise Unusable(f"{self._path} {_why(cause)}") from error

    def _open(self) -> tuple[dict[str, int], list[_Row]]:
        connection = apsw.Connection(str(self._path))
        try:
            for setting in ("journal_mode=WAL", "synchronous=FULL", "wal_autocheckpoint=1000"):
                connection.execute(
                    f"PRAGMA {setting}"
                ).fetchall()  # of several in one statement, those after a row wait for that row
            with connection:
                connection.execute(_SCHEMA)
                connection.executemany("INSERT OR IGNORE INTO state VALUES (?, ?)", _NEW)
            state = dict(connection.execute("SELECT name, value FROM state"))
            query = 'SELECT revision, "table", namespace, name, deleted, body FROM log ORDER BY revision'
            rows = self._decrypt(connection, [_Row(*row) for row in connection.execute(query)])
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return state, rows

    def _decrypt(self, connection: apsw.Connection, rows: list[_Row]) -> list[_Row]:
        """Rows with decrypted objects. Raises `Unusable`."""
        try:
            if self._encryption is None:
                for row in rows:
                    if row.body.startswith(ENCRYPTED):
                        require_unencrypted(_path(row), row.body)
                return rows
            return self._reencrypt(self._encryption, connection, rows)
        except CannotDecrypt as error:
            raise Unusable(f"{self._path} can't be read: {error}") from error

    def _reencrypt(self, encryption: Encryption, connection: apsw.Connection, rows: list[_Row]) -> list[_Row]:
        clear = [row._replace(body=encryption.decrypt(row.table, _path(row), row.body)) for row in rows]
        stale = [
            decrypted for row, decrypted in zip(rows, clear, strict=True) if encryption.is_stale(row.table, row.body)
        ]
        if stale:
            with connection:
                connection.executemany(
                    "UPDATE log SET body = ? WHERE revision = ?",
                    [(encryption.encrypt(row.table, _path(row), row.body), row.revision) for row in stale],
                )
                connection.execute("INSERT OR REPLACE INTO state VALUES (?, 1)", (_SCRUB,))
        if connection.execute("SELECT 1 FROM state WHERE name = ?", (_SCRUB,)).get:
            connection.execute("VACUUM")  # earlier versions are still in free parts of pages
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute("DELETE FROM state WHERE name = ?", (_SCRUB,))
        return clear

    def _load(self, row: _Row) -> None:
        table, key = self.table(row.table), Key(row.namespace, row.name)
        before = table.objects.get(key)
        change = Change(row.revision, row.table, key, before, Object(row.body), bool(row.deleted))
        if not (row.deleted and before is None):
            table.record(change)
            if row.revision <= self._compacted:
                table.drop(1)
                self._garbage += _superseded(change)
        else:
            self._garbage.append(row.revision)

    def _check_writable(self) -> None:
        if self._failure:
            raise Full.of(self._failure)

    def _persist(self, change: Change) -> None:
        self._pending.append(change)
        if self._flushing is None:
            self._flushing = asyncio.ensure_future(self._flush())

    def _forget(self, changes: Sequence[Change]) -> None:
        super()._forget(changes)
        for change in changes:
            self._garbage += _superseded(change)

    async def _flush(self) -> None:
        loop = asyncio.get_running_loop()
        while self._pending and not self._failure:
            self._writing, self._pending = self._pending, []
            garbage, self._garbage = self._garbage, []
            try:
                await loop.run_in_executor(None, self._commit, self._writing, garbage, self._compacted)
            except (apsw.Error, OSError, RuntimeError) as error:
                self._fail(_before_rollback(error))
            else:
                done, self._writing = self._writing, []
                self._publish(done)
            next_flush, self._next_flush = self._next_flush, None
            if next_flush is not None:
                next_flush.set_result(None)
        # Here and not in a callback of the task: a write may come between the end of a task and its callbacks.
        self._flushing = None

    def _commit(self, changes: Sequence[Change], garbage: Sequence[int], compacted: int) -> None:
        connection = self._connection
        if connection is None:
            raise apsw.MisuseError("the store is closed")
        with connection:
            connection.executemany(
                "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (change.revision, change.table, *change.key, change.deleted, self._encoded_body(change))
                    for change in changes
                ],
            )
            if garbage:
                connection.executemany("DELETE FROM log WHERE revision = ?", [(revision,) for revision in garbage])
            connection.executemany(
                "UPDATE state SET value = ? WHERE name = ?",
                [(changes[-1].revision, "revision"), (compacted, "compacted")],
            )

    def _encoded_body(self, change: Change) -> bytes:
        raw = change.after.raw
        if self._encryption is None:
            return raw
        row = _Row(change.revision, change.table, *change.key, change.deleted, raw)
        return self._encryption.encrypt(change.table, _path(row), raw)

    def _fail(self, error: Exception) -> None:
        """Roll back unacknowledged writes."""
        self._failure = (
            f"the server's storage {self._path.name} can't be written ({error}); it serves only reads until there "
            "is space and it is restarted"
        )
        for change in reversed(self._writing + self._pending):
            self._tables[change.table].undo(change)
        self._writing, self._pending = [], []
        self.revision = self.durable


def _path(row: _Row) -> bytes:
    """The path of an object, which encryption is bound to."""
    return "/".join(("/registry", row.table, *filter(None, (row.namespace, row.name)))).encode()


def _check(path: Path) -> None:
    """Raise `Unusable` for a file that is not a complete store. Read-only."""
    if path.stat().st_size == 0:
        raise Unusable(f"{path} is empty, although it was written before")
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        if (verdict := connection.execute("PRAGMA quick_check(1)").get) != "ok":
            raise Unusable(f"{path} is damaged ({' '.join(str(verdict).split())})")
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        if not tables:
            return  # made, and nothing was written yet
        format_ = None
        if {"log", "state"} <= tables:
            with suppress(apsw.SQLError):  # tables of these names, and others
                format_ = connection.execute("SELECT value FROM state WHERE name = 'format'").get
        if not isinstance(format_, int):
            raise Unusable(f"{path} is a database of another program")
        if format_ > FORMAT:
            raise UnknownFormat(f"{path} has format {format_}; this release reads up to {FORMAT}: use a later release")
    finally:
        connection.close()


def _before_rollback(error: E) -> E | apsw.Error:
    """The error that ended a transaction. SQLite itself rolls back when the disk is full; apsw then fails to do so."""
    context = error.__context__
    return context if isinstance(error, apsw.SQLError) and isinstance(context, apsw.Error) else error


def _is_full(path: Path, error: apsw.Error | OSError) -> bool:
    """A precise error for files beside the database, for which SQLite only reports a failed write."""
    if isinstance(error, apsw.IOError | apsw.CantOpenError):
        disk = os.statvfs(path.parent)
        return disk.f_bavail * disk.f_frsize < _MIN_SPACE
    return isinstance(error, apsw.FullError) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)


def _why(error: apsw.Error | OSError) -> str:
    match error:
        case apsw.NotADBError():
            return "is not a database of this program"
        case apsw.CorruptError():
            return f"is damaged ({error})"
        case OSError():
            return f"can't be opened: {error.strerror}"
    return f"can't be opened: {error}"


def _superseded(change: Change) -> list[int]:
    """The rows that are obsolete once a change leaves the history."""
    rows = [] if change.before is None else [int(change.before.resource_version)]
    return [*rows, change.revision] if change.deleted else rows
