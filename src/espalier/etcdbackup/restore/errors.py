"""Reasons why a data directory was not restored. It is unchanged in each case."""

from __future__ import annotations


class RestoreError(Exception):
    """Nothing was restored."""


class NothingToRestore(RestoreError):
    """There is no full snapshot, or it has no revision."""


class Incomplete(RestoreError):
    """The store can't be restored up to the last revision that its names mention."""


class Occupied(RestoreError):
    """There are data that may not be replaced, or that are in use."""


class NotWritten(RestoreError):
    """The file system failed: it is full, or refused the write."""
