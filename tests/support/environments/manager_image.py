"""The image of the manager, built once for the tests of this run."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path

from espalier.assets.base import MissingAssets, find_root
from espalier.cli.kit import distribution

TAG = f"espalier.local/manager:v{distribution.version()}"
USER = 65532


@cache
def why_not() -> str:
    """The parts missing for building it; empty when nothing is."""
    try:
        find_root()
    except MissingAssets as missing:
        return str(missing)
    return ""


def build(archive: Path) -> None:
    """`espalier image build manager`."""
    command = [sys.executable, "-m", "espalier.cli", "image", "build", "manager", "--output", str(archive)]
    subprocess.run(command, capture_output=True, text=True, check=True)


def configuration(archive: Path) -> dict[str, object]:
    """The image's configuration of how it is run."""
    with tarfile.open(archive) as tar:
        found: dict[str, object] = json.loads(_read(tar, _manifest(tar)["Config"]))["config"]
        return found


def unpack(archive: Path, root: Path) -> list[str]:
    """Make the root of a container; returns the paths of all its files."""
    names = []
    with tarfile.open(archive) as tar:
        for blob in _manifest(tar)["Layers"]:
            with tarfile.open(fileobj=tar.extractfile(blob)) as layer:
                names += [entry.name for entry in layer if not entry.isdir()]
                layer.extractall(root, filter="fully_trusted")
    return names


def _manifest(tar: tarfile.TarFile) -> dict[str, list[str]]:
    found: dict[str, list[str]] = json.loads(_read(tar, "manifest.json"))[0]
    return found


def _read(tar: tarfile.TarFile, name: object) -> bytes:
    file = tar.extractfile(str(name))
    assert file is not None
    return file.read()
