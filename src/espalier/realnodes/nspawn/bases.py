"""Bases of nodes, as this package needs them; assets build them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

_RELEASE = re.compile(r"v?(\d+\.\d+\.\d+)")


class NodeBase(Protocol):
    """A file system that many nodes share, and a store of images that is cheap to clone."""

    @property
    def version(self) -> str:
        """Kubernetes, without a leading v."""

    @property
    def lower(self) -> str:
        """The option `lowerdir` of an overlay mount."""

    @property
    def store(self) -> Path:
        """The image store: a /var/lib/containerd that nobody writes to."""

    @property
    def images(self) -> Mapping[str, str]:
        """Full names of the images in the store, and their digests."""

    def clone_store(self, target: Path) -> None:
        """Make a /var/lib/containerd with all images. Blocks; raises `OSError`."""


class NodeBases(Protocol):
    """All that were built."""

    def find(self, version: str) -> NodeBase:
        """The base of a Kubernetes version like 1.35.4. Raises what says what to do about a missing one."""

    def all(self) -> Sequence[NodeBase]:
        """Every base."""


def plain_version(version: str) -> str:
    """The version of Kubernetes that a distribution's version stands for: 1.35.4 of v1.35.4-eks-1-35-1.

    Raises `ValueError` when it is none.
    """
    found = _RELEASE.match(version)
    if found is None:
        raise ValueError(f"Kubernetes version {version!r}: allowed is one like v1.35.4")
    return found[1]
