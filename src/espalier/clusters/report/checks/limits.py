"""Limits of a session with the API of an infrastructure, whose server may be hostile."""

from __future__ import annotations

from espalier.clusters.report.checks.questions import UNEXPECTED, LookUpError

CONNECT = 10.0
"""Timeout in seconds for connecting, and for each read of a response."""
LONGEST = 60.0
"""Timeout in seconds for a whole session."""
LARGEST = 64 * 1024 * 1024
"""The maximum bytes that a session reads."""
MOST_SHOWN = 5
"""The maximum names in a problem."""


class Received:
    """Counts the bytes that a server sends in a session."""

    def __init__(self, server: str, most: int) -> None:
        self._server = server
        self._most = most
        self._left = most

    def add(self, count: int) -> None:
        """Raises `LookUpError` if these are too many."""
        self._left -= count
        if self._left < 0:
            raise LookUpError(UNEXPECTED, f"{self._server} sent more than {self._most >> 20} MiB")
