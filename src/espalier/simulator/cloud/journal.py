"""The journal of a cloud: a file with one line of JSON for each executed or refused request."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from espalier.simulator.cloud.request_log import Entry


class JournalBroken(Exception):
    """The file is not a valid journal; the message names file and line."""


class Journal:
    """A file to which each entry is added, and flushed to the disk, before the request is answered."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def read(self) -> list[Entry]:
        """All entries, oldest first. Raises `JournalBroken`.

        A last line that a crash cut off is removed from the file: its request was never answered.
        """
        if not self._file.exists():
            return []
        lines = self._file.read_bytes().split(b"\n")
        complete, incomplete = lines[:-1], lines[-1]
        if incomplete:
            with self._file.open("r+b") as stream:
                stream.truncate(sum(len(line) + 1 for line in complete))
        return [self._decoded(line, number) for number, line in enumerate(complete, 1)]

    def add(self, entry: Entry) -> None:
        """Add an entry; it is on the disk when this returns."""
        descriptor = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "ab") as stream:
            stream.write(msgspec.json.encode(entry) + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _decoded(self, line: bytes, number: int) -> Entry:
        try:
            return msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError as error:
            raise JournalBroken(f"{self._file}, line {number}: {error}; move the file away to start over") from None
