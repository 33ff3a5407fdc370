"""The error of content that is not that of a snapshot. Callers that know the object add its name."""

from __future__ import annotations


class Malformed(Exception):
    """The bytes are not a snapshot, or not the one in the name. The message says why."""
