"""The Warning header: warnings quote clients' input, which must be escaped."""

from __future__ import annotations

from collections.abc import Sequence

MAX_BYTES = 4096
"""Of all warnings of an answer; kube-apiserver counts characters, but clients count bytes, and give up at 8 KiB."""

MAX_SHORTENED = 256
"""Characters of each warning when all of them would be too long."""


def header(texts: Sequence[str]) -> str:
    """As many header lines as warnings, which one line may stand for (RFC 9110 §5.3)."""
    value = ", ".join(map(_warning, texts))
    if len(value.encode()) <= MAX_BYTES:
        return value
    parts, size = [], 0
    for text in texts:
        part = _warning(text if len(text) <= MAX_SHORTENED else f"{text[:MAX_SHORTENED]}…")
        size += len(part.encode()) + 2
        if size > MAX_BYTES:
            break
        parts.append(part)
    return ", ".join(parts)


def clean(text: str) -> str:
    """A text with non-printable characters escaped and line breaks replaced by spaces."""
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return " " if char in "\r\n\t" else f"\\u{ord(char):04x}"


def _warning(text: str) -> str:
    quoted = clean(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{quoted}"'
