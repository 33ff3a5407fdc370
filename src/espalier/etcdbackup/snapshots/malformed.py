"""The error of content that is not what a snapshot has. Whoever knows which object it is says so."""

from __future__ import annotations


class Malformed(Exception):
    """Bytes that are no snapshot, or not the one that its name says. The message says in which way."""
