"""The components of the image, and their paths on the host during the upgrade.

In the image: `/upgrader/contents.json` and the files it lists, below `/upgrader/components/`. On the host: the work
directory of a version, with the same files below `components/`, and backups of the files they replace below `backup/`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from .host import StepFailed

IMAGE_FOLDER = "upgrader"
CONTENTS = "contents.json"
COMPONENTS = "components"
BACKUP = "backup"
WORK = "/var/lib/espalier-upgrade"


class Version(NamedTuple):
    """A Kubernetes version, without the suffix of a distribution."""

    major: int
    minor: int
    patch: int

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}"


def find_version(text: str) -> Version | None:
    """The first version in a text: `v1.36.3-eks-1-36-2` and `Kubernetes v1.36.3` are both 1.36.3."""
    match = re.search(r"v?(\d+)\.(\d+)\.(\d+)", text)
    return Version(*map(int, match.groups())) if match else None


def parse_version(text: str, source: str) -> Version:
    """The version in a text. Raises `StepFailed`, with `source` as the origin of the text."""
    version = find_version(text)
    if version is None:
        raise StepFailed(f"{source} says {text.strip()!r}, which is not a Kubernetes version such as v1.36.3")
    return version


@dataclass(frozen=True)
class ImageFile:
    """One file for the host."""

    checksum: str
    """SHA-256."""
    size: int


@dataclass(frozen=True)
class Contents:
    """The contents of an image."""

    version: str
    """The Kubernetes version, such as `v1.36.3-eks-1-36-2`."""
    machine: str
    """The architecture, as in `uname -m`."""
    versions: Mapping[str, str]
    """Component (`containerd`, `cni-plugins`) -> its version."""
    files: Mapping[str, ImageFile]
    """`component/program` -> the file."""

    @property
    def kubernetes(self) -> Version:
        """The Kubernetes version, parsed. Raises `StepFailed` if it is invalid."""
        return parse_version(self.version, "the upgrader image")

    @property
    def work(self) -> str:
        """The work directory on the host."""
        return f"{WORK}/{self.version}"

    def programs(self, component: str) -> Mapping[str, ImageFile]:
        """Program -> its file, of one component."""
        prefix = f"{component}/"
        return {name.removeprefix(prefix): file for name, file in self.files.items() if name.startswith(prefix)}

    def copied(self, name: str) -> str:
        """Path of a file in the work directory."""
        return f"{self.work}/{COMPONENTS}/{name}"

    def backup(self, path: str) -> str:
        """Path of the backup of a file of the host."""
        return f"{self.work}/{BACKUP}{path}"


def read(folder: Path) -> Contents:
    """Read `contents.json` of an image from its directory. Raises `StepFailed` if they are invalid."""
    path = folder / CONTENTS
    try:
        tree = json.loads(path.read_bytes())
        return Contents(
            tree["kubernetesVersion"],
            tree["machine"],
            tree["versions"],
            {name: ImageFile(file["sha256"], file["size"]) for name, file in tree["files"].items()},
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise StepFailed(
            f"this image is not an upgrader image: {path} can't be read ({type(error).__name__}: {error}); "
            "use the upgrader image of the Kubernetes version"
        ) from error


def dump(contents: Contents) -> str:
    """The text of `contents.json`."""
    tree = {
        "kubernetesVersion": contents.version,
        "machine": contents.machine,
        "versions": dict(contents.versions),
        "files": {name: {"sha256": file.checksum, "size": file.size} for name, file in contents.files.items()},
    }
    return json.dumps(tree, indent=2, sort_keys=True) + "\n"
