"""Keys and prefixes that every store supports: S3, GCS, Azure, and file systems."""

from __future__ import annotations

import re

LONGEST = 1024
"""The largest length of a key with its prefix, in bytes: the limit of S3, GCS and Azure."""
_STEERING = re.compile(r"[\x00-\x1f\x7f\\]")


def checked(key: str, what: str = "key") -> str:
    """The key itself. Raises `ValueError` if it has empty segments, `.` or `..`, or characters that file names can't
    have."""
    if not key or any(segment in ("", ".", "..") for segment in key.split("/")):
        raise ValueError(f"{what}: found {key!r}, allowed are names separated by single slashes, but not . and ..")
    if _STEERING.search(key) or len(key.encode(errors="surrogatepass")) > LONGEST:
        raise ValueError(f"{what}: found {key[:80]!r}, allowed are {LONGEST} bytes without control characters and \\")
    return key
