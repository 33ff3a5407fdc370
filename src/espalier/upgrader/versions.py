"""Versions of Kubernetes, compared by their numbers: what a distributor appends does not order them."""

from __future__ import annotations

import re
from typing import NamedTuple

from .failures import StepFailed


class Version(NamedTuple):
    """Numbers of a version."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"


def find(text: str) -> Version | None:
    """The first version in a text: `v1.36.3-eks-1-36-2` and `Kubernetes v1.36.3` are both 1.36.3."""
    found = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return Version(*map(int, found.groups())) if found else None


def parse(text: str, whose: str) -> Version:
    """The version in a text; `whose` says in the `StepFailed` where it was read."""
    found = find(text)
    if found is None:
        raise StepFailed(f"{whose} says {text.strip()!r}, which is not a Kubernetes version such as v1.36.3")
    return found
