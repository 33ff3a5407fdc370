"""Errors of stores, one class for each that callers treat differently. Each message names bucket and key.

StoreError
├── NotFound      no object of this key, in a store that answered
├── Refused       credentials, permissions, bucket, or a request that the store does not take: trying again is no use
├── Unavailable   no answer in time, or a failure of the store: a write may have happened or not
├── Conflict      a conditional put lost: the object is there, or is another than expected
└── Corrupt       what was read is not what was written, or not as long as the store said
"""

from __future__ import annotations


class StoreError(Exception):
    """A request to a store failed."""

    def __init__(self, where: str, finding: str, advice: str = "") -> None:
        super().__init__(f"{where}: {finding}" + (f"; {advice}" if advice else ""))
        self.where = where
        """URL of the object, or of the store."""


class NotFound(StoreError):
    """There is no object with this key."""


class Refused(StoreError):
    """The store refuses the request, and will refuse it again."""


class Unavailable(StoreError):
    """No answer in time, or a failure of the store. A write may have happened or not."""


class Conflict(StoreError):
    """The object exists already, or has changed since it was read. Nothing was written."""


class Corrupt(StoreError):
    """The bytes are not those that were written."""
