"""The log of requests with caller, time and result, as evidence of what controllers did."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from msgspec import Struct, field

from espalier.api.cloud import WRITES, AnyCall, Create, Delete, ListItems, Refusal, SetRecord


class Entry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A request of `caller` with the credentials of `account`; `refusal` is None if it was executed."""

    at: datetime
    account: str
    caller: str
    call: AnyCall
    refusal: Refusal | None = None

    def __str__(self) -> str:
        match self.call:
            case Create(item):
                action = f"create {type(item).__name__} {item.name}"
            case Delete(kind, id_):
                action = f"delete {kind} {id_}"
            case SetRecord(record):
                action = f"set Record {record.name} {','.join(record.values)}"
            case ListItems(kind, _):
                action = f"list {kind}"
        result = f": {self.refusal}" if self.refusal else ""
        return f"{self.at:%H:%M:%S.%f} {self.caller}: {action}{result}"


class RequestLog(Struct):
    """All requests, oldest first."""

    entries: list[Entry] = field(default_factory=list)

    def add(self, entry: Entry) -> None:
        """Log a request."""
        self.entries.append(entry)

    def writes(self, since: datetime | None = None, caller: str = "") -> Iterator[Entry]:
        """The requests for changes, executed or refused; `since` and `caller` select as in `of`."""
        for entry in self.of(since, caller):
            if isinstance(entry.call, WRITES):
                yield entry

    def of(self, since: datetime | None = None, caller: str = "") -> Iterator[Entry]:
        """The requests at `since` or later, by callers whose name begins with `caller`."""
        for entry in self.entries:
            if (since is None or entry.at >= since) and entry.caller.startswith(caller):
                yield entry
