"""The image of the manager, built once for the tests of this run."""

from __future__ import annotations

import io
import json
import platform
import subprocess
import sys
import tarfile
from functools import cache
from pathlib import Path
from typing import Any

from espalier.assets.debian import MIRROR, mirrors
from espalier.cli.kit import distribution

TAG = f"espalier.local/manager:v{distribution.version()}"
USER = 65532
OWN = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
"""This machine's architecture, as images name it."""
PROGRAMS = {"usr/bin/python3", "usr/bin/python3.13", "usr/local/bin/espalier"}


@cache
def why_not() -> str:
    """The parts missing for building it; empty when nothing is."""
    if platform.system() != "Linux" or not OWN:
        return "images are built on Linux, amd64 or arm64"
    return "" if mirrors() else f"no mirror of Debian is known: set {MIRROR}"


def build(archive: Path, *platforms: str) -> str:
    """`espalier image build manager`, for this machine's platform unless others are named; returns what it prints."""
    command = [sys.executable, "-m", "espalier.cli", "image", "build", "manager", "--output", str(archive)]
    for name in platforms or (f"linux/{OWN}",):
        command += ["--platform", name]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    return made.stdout


class Archive:
    """An archive of images."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self.index: list[dict[str, Any]] = json.loads(self.file("index.json"))["manifests"]

    def file(self, name: str) -> bytes:
        """The content of a file."""
        with tarfile.open(self._place) as tar:
            file = tar.extractfile(name)
            assert file is not None
            return file.read()

    def blob(self, descriptor: dict[str, Any]) -> bytes:
        """The content that a descriptor leads to."""
        return self.file(f"blobs/{descriptor['digest'].replace(':', '/')}")

    def manifest(self, architecture: str = OWN) -> dict[str, Any]:
        """The manifest of an image."""
        images = json.loads(self.blob(self.index[0]))["manifests"]
        (image,) = [image for image in images if image["platform"]["architecture"] == architecture]
        manifest: dict[str, Any] = json.loads(self.blob(image))
        return {**manifest, "digest": image["digest"]}

    def settings(self, architecture: str = OWN) -> dict[str, Any]:
        """How the image is run."""
        settings: dict[str, Any] = json.loads(self.blob(self.manifest(architecture)["config"]))["config"]
        return settings

    def statement(self, media_type: str, architecture: str = OWN) -> Any:
        """The statement of a type on an image."""
        digest = self.manifest(architecture)["digest"]
        manifests = [json.loads(self.blob(item)) for item in self.index if item.get("artifactType") == media_type]
        (element,) = [manifest for manifest in manifests if manifest["subject"]["digest"] == digest]
        return json.loads(self.blob(element["layers"][0]))

    def unpack(self, root: Path, architecture: str = OWN) -> list[str]:
        """Make the root of a container; returns the paths of all its files."""
        names = []
        for layer in self.manifest(architecture)["layers"]:
            with tarfile.open(fileobj=io.BytesIO(self.blob(layer))) as tar:
                names += [entry.name for entry in tar if not entry.isdir()]
                tar.extractall(root, filter="fully_trusted")
        return names
