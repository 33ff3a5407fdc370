"""Semantic versions as Kubernetes (`v1.36.3-eks-1-36-1`) and releases (`v0.26.0`) write them. The one parser."""

from __future__ import annotations

import semver


def parsed(text: str) -> semver.Version | None:
    """A version, None for a text that is none. The `v` may be left out."""
    try:
        return semver.Version.parse(text.removeprefix("v"))
    except ValueError:
        return None
