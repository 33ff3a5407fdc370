"""The upgrader images of the releases for real nodes: made from the bases of nodes when a node asks for one.

Here `upgrader`, which says what an upgrader image is, meets `realnodes/nspawn`, whose registry nodes pull from.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from espalier.assets.base import MissingAssets, find_base
from espalier.assets.processes import BuildFailed
from espalier.cli.kit.printing.output import say
from espalier.cli.local.images import image
from espalier.cli.local.images.registry_blobs import store_image
from espalier.cli.local.images.upgrader_images import versions_by_image
from espalier.realnodes.nspawn.bases import plain_version
from espalier.realnodes.nspawn.system.registry import ImageBuild
from espalier.releases import Releases
from espalier.upgrader import image as upgrader

ENTRY = "espalier.cli.upgrader_archives"
"""The module that runs `main`: stored by local environments, so its name stays."""


def built_images(releases: Releases, place: Path) -> dict[str, ImageBuild]:
    """Builders of the upgrader images of the releases below `place`, by name."""
    versions = {}
    for name, version in versions_by_image(releases).items():
        folder = place / _name(version, name)
        versions[name] = ImageBuild(folder, (sys.executable, "-m", ENTRY, version, name, str(folder)))
    return versions


def main(version: str, name: str, folder: str) -> int:
    """Make one; says what is in the way on standard error."""
    try:
        base = find_base(plain_version(version))
        store_image(Path(folder), lambda archive: image.write(base, version, name, archive)[0])
    except (MissingAssets, BuildFailed, OSError) as error:
        say(str(error), stderr=True)
        return 1
    return 0


def _name(version: str, name: str) -> str:
    """A folder for exactly this content: another base, or another program, makes another image."""
    try:
        base = find_base(plain_version(version)).home.name
    except MissingAssets:
        base = ""
    content = hashlib.sha256(f"{base} {name}".encode())
    for path, source in upgrader.sources().items():
        content.update(path.encode())
        content.update(source.read_bytes() if source else b"")
    return f"upgrader-{version}-{content.hexdigest()[:12]}"
