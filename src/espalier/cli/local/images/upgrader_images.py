"""Upgrader images of the releases for simulated nodes: the real program, and programs that only print versions.

Here `upgrader`, which says what an upgrader image is, meets `simulator`, which runs it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import sys
from pathlib import Path

from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES, ROWS, minor_of
from espalier.releases import Releases
from espalier.simulator.hosts.folder import components
from espalier.simulator.pods.runtimes.program import Program
from espalier.upgrader import contents, image
from espalier.upgrader.contents import Contents, ImageFile

LIBRARY = "upgrader-program"
START = "import sys; sys.path.insert(0, {!r}); from {}.main import main; raise SystemExit(main())"
VARIABLES = ("NODE_NAME", "KUBERNETES_VERSION")
"""Environment variables that the program reads, except HOST_ROOT, which keeps its default."""


class UpgraderImages:
    """The program of each upgrader image that the releases name (`simulator.pods.program.Programs`).

    The folders of what they hold are made below `place` when they are asked for.
    """

    def __init__(self, releases: Releases, place: Path) -> None:
        self._place = place
        self._versions = versions_by_image(releases)

    def __call__(self, image: str) -> Program | None:
        """The program of an image; None for one that is no upgrader image."""
        version = self._versions.get(image)
        return None if version is None else program(self._place, version)


def versions_by_image(releases: Releases) -> dict[str, str]:
    """The upgrader images that the releases name, and the Kubernetes version of each: v1.36.3-eks-1-36-1."""
    return {
        bundle.upgrader.upgrader.uri: releases.distro(bundle).version
        for version in releases.versions
        for bundle in releases.release(version).bundles.spec.versions_bundles
        if bundle.upgrader is not None and bundle.upgrader.upgrader is not None
    }


def program(place: Path, version: str) -> Program:
    """The upgrader for a Kubernetes version."""
    folder = place / f"upgrader-{version}"
    if not (folder / contents.CONTENTS).is_file():
        _fill(folder, version)
    library = place / LIBRARY
    _install(library)
    # Isolated, and without what is installed beside Python: nothing but these words decides what runs.
    upgrader = (sys.executable, "-I", "-S", "-c", START.format(str(library / image.LIBRARY), image.PACKAGE))
    return Program({"upgrader": upgrader}, {contents.IMAGE_FOLDER: folder}, VARIABLES)


@functools.cache
def _install(library: Path) -> None:
    """Put the program where it can be started as in its image: with no other package of the project."""
    for path, source in image.sources().items():
        place = library / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(source.read_bytes() if source else b"")


def _fill(folder: Path, version: str) -> None:
    files = {}
    row = ROWS[DEFAULT_ROW]
    known = KUBERNETES.get(minor_of(version))
    containerd = row.containerd if known is None else known.containerd
    for name, text in components(version, containerd, row.cni_plugins).items():
        place = folder / contents.COMPONENTS / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
        files[name] = ImageFile(hashlib.sha256(text.encode()).hexdigest(), len(text.encode()))
    versions = {"containerd": containerd, "cni-plugins": row.cni_plugins}
    dumped = contents.dump(Contents(version, os.uname().machine, versions, files))
    staged = folder / f".{contents.CONTENTS}.{os.getpid()}"
    staged.write_text(dumped)
    staged.replace(folder / contents.CONTENTS)
