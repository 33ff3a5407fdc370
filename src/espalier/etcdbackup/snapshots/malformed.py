"""The error for content that is not a snapshot. Callers that know the object add its name."""

from __future__ import annotations


class Malformed(Exception):
    """The bytes are not a snapshot, or not the snapshot in the name. The message says why."""
