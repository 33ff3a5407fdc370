"""Why a data directory was not restored. In each case it is as it was before."""

from __future__ import annotations


class RestoreError(Exception):
    """Nothing was restored."""


class NothingToRestore(RestoreError):
    """There is no full snapshot, or no revision in it."""


class Incomplete(RestoreError):
    """The store does not lead to the last revision that it has names of."""


class Occupied(RestoreError):
    """There are data that nobody said may be replaced, or somebody uses them."""


class NotWritten(RestoreError):
    """The file system failed: it is full, or does not allow it."""
