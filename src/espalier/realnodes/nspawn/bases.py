"""The interface to bases of nodes, which `assets` builds."""

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
        """The image store: a read-only /var/lib/containerd."""

    @property
    def images(self) -> Mapping[str, str]:
        """Full names of the images in the store, and their digests."""

    def clone_store(self, target: Path) -> None:
        """Create a /var/lib/containerd with all images. Blocks; raises `OSError`."""


class NodeBases(Protocol):
    """All that were built."""

    def find(self, version: str) -> NodeBase:
        """The base of a Kubernetes version like 1.35.4. The error for a missing one says what to do."""

    def all(self) -> Sequence[NodeBase]:
        """Every base."""


def plain_version(version: str) -> str:
    """The Kubernetes version of a distribution's version: 1.35.4 of v1.35.4-eks-1-35-1.

    Raises `ValueError` for an invalid one.
    """
    match = _RELEASE.match(version)
    if match is None:
        raise ValueError(f"Kubernetes version {version!r}: allowed is a version like v1.35.4")
    return match[1]
