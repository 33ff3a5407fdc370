"""Semantic versions as Kubernetes (`v1.36.3-eks-1-36-1`) and releases (`v0.26.0`) write them. The one parser.

The program on a node imports nothing of this: it looks for numbers in what other programs print.
"""

from __future__ import annotations

import semver


def parsed(text: str) -> semver.Version | None:
    """A version; None for an invalid text. The `v` may be omitted."""
    try:
        return semver.Version.parse(text.removeprefix("v"))
    except ValueError:
        return None


def numbers_of(text: str) -> str:
    """The numbers of a version, `1.36.3` for `v1.36.3-eks-1-36-1`; an invalid text is returned unchanged."""
    version = parsed(text)
    return str(version.finalize_version()) if version else text
