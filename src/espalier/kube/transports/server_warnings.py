"""Warnings of the API server (`Warning` headers, RFC 7234 §5.5): deprecated versions, admission's advice."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_WARNING = re.compile(r'\b299\s+\S+\s+"((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")
_REMEMBERED = 1000


def warnings_of(headers: Mapping[str, str]) -> Iterator[str]:
    """The texts of the warnings in a response; several headers of one name arrive joined by commas."""
    value = headers.get("warning")
    if value:
        for match in _WARNING.finditer(value):
            yield _ESCAPED.sub(r"\1", match[1])


class WarningLog:
    """Logs each text once, so that a controller that repeats a request does not repeat its warning."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def __call__(self, text: str) -> None:
        """Log `text` unless it was logged before."""
        if text not in self._seen and len(self._seen) < _REMEMBERED:
            self._seen.add(text)
            import structlog  # noqa: PLC0415  it takes long to load, and warnings are rare

            structlog.get_logger("espalier.kube").warning("the API server warns", text=text)
