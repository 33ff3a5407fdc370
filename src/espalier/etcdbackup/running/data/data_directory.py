"""The data directory on a volume, with a note of where its data come from."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from pathlib import Path

import msgspec

from espalier.api.trees import json_trees
from espalier.etcd.bbolt.checking import check
from espalier.etcd.bbolt.reading import Damaged, Database
from espalier.etcdbackup.restore import wal_checking
from espalier.etcdbackup.restore.data_directory import DATABASE, WAL, flush_folder
from espalier.etcdbackup.restore.errors import NotWritten
from espalier.etcdbackup.restore.members import Membership
from espalier.etcdbackup.restore.restorer import LEASE_TTL, Options, restore
from espalier.etcdbackup.running.parts import Origin
from espalier.etcdbackup.snapshots.reading import Progress, silent
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.stores.store import Store

NOTE = Path("member/espalier-origin.json")
"""The note's name in a data directory. etcd ignores it."""
_LONGEST_NOTE = 4096


class DataDirectory:
    """`Data` in the folder of etcd's `--data-dir`. `members` are those with which etcd is started.

    `needs_log`: without a write-ahead log there are no data. etcd would begin a new cluster with what is there.
    """

    def __init__(
        self,
        folder: Path,
        members: Membership,
        *,
        lease_ttl: int = LEASE_TTL,
        progress: Progress = silent,
        needs_log: bool = False,
    ) -> None:
        self._folder = folder
        self._members = members
        self._lease_ttl = lease_ttl
        self._progress = progress
        self._needs_log = needs_log

    async def is_present(self) -> bool:
        """See `Data`. Anything but the note and empty folders counts as data."""
        if self._needs_log:
            return await asyncio.to_thread((self._folder / WAL).is_dir)
        return await asyncio.to_thread(_has_data, self._folder)

    async def origin(self) -> Origin | None:
        """See `Data`."""
        return await asyncio.to_thread(_origin, self._folder)

    async def damage(self) -> str:
        """See `Data`."""
        return await asyncio.to_thread(_damage, self._folder)

    async def create_empty(self, origin: Origin) -> None:
        """See `Data`. Raises `OSError`, `NotWritten`."""
        await asyncio.to_thread(_create_empty, self._folder, origin)

    async def restore(self, store: Store, inventory: Inventory, bump: int, origin: Origin) -> None:
        """See `Data`. Data that an earlier restore of this cluster moved aside are deleted first: only one such copy is
        kept."""
        await asyncio.to_thread(_clear, self._folder, origin.cluster)
        options = Options(self._members, replace=True, bump=bump, lease_ttl=self._lease_ttl)
        notes = {NOTE: msgspec.json.encode(origin)}
        await restore(store, self._folder, options, self._progress, inventory=inventory, notes=notes)


def _has_data(folder: Path) -> bool:
    for at, _folders, files in os.walk(folder):
        if any(Path(at, name).relative_to(folder) != NOTE for name in files):
            return True
    return False


def _origin(folder: Path) -> Origin | None:
    try:
        with (folder / NOTE).open("rb") as file:
            return json_trees.decode(file.read(_LONGEST_NOTE), Origin)
    except (OSError, msgspec.MsgspecError):
        return None


def _damage(folder: Path) -> str:
    database = folder / DATABASE
    if not (folder / WAL).exists():
        return ""  # no write-ahead log to check
    if torn := wal_checking.damage(folder / WAL):
        return torn
    if not database.exists():
        return f"{database} is missing"
    try:
        with Database.open(database) as opened:
            check(opened)
    except Damaged as error:
        return str(error)
    return ""


def _create_empty(folder: Path, origin: Origin) -> None:
    _clear(folder, origin.cluster)
    if _has_data(folder):
        folder.rename(folder.with_name(f"{folder.name}.replaced"))
        flush_folder(folder.parent)
    note = folder / NOTE
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.parent.mkdir(mode=0o700, exist_ok=True)
    part = note.with_suffix(".part")
    with os.fdopen(os.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600), "wb") as file:
        file.write(msgspec.json.encode(origin))
        file.flush()
        os.fsync(file.fileno())
    part.rename(note)
    flush_folder(note.parent)


def _clear(folder: Path, cluster: str) -> None:
    """Delete the data that were replaced before if they are this cluster's, and a folder with at most a note."""
    replaced = folder.with_name(f"{folder.name}.replaced")
    origin = _origin(replaced)
    try:
        if origin is not None and origin.cluster == cluster:
            shutil.rmtree(replaced)
        if folder.is_dir() and not _has_data(folder):
            with contextlib.suppress(FileNotFoundError):
                (folder / NOTE).unlink()
            for at, _folders, _files in os.walk(folder, topdown=False):
                if Path(at) != folder:
                    Path(at).rmdir()
    except OSError as error:
        raise NotWritten(f"{error.filename}: {error.strerror}; nothing was restored") from error
