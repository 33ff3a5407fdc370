"""Archives of images that are read: OCI layouts in a tar."""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import msgspec

from espalier.api.text.printable import quoted
from espalier.api.trees.json_trees import decode
from espalier.cli.clusters.airgap.registries import DEEPEST
from espalier.cli.local.images.layout import INDEX, NAME

LARGEST_DOCUMENT = 4 * 2**20
"""Bytes of a manifest, as registries limit them."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
PIECE = 2**20


class BadArchive(Exception):
    """A file is not an archive of images, or lacks a part. The message says which, and what to do."""


class Blob(msgspec.Struct, frozen=True, rename="camel"):
    """A descriptor in a document of the archive."""

    media_type: str
    digest: str
    size: int
    artifact_type: str = ""
    annotations: dict[str, str] = {}


class _Document(msgspec.Struct, rename="camel"):
    config: Blob | None = None
    layers: list[Blob] = []
    manifests: list[Blob] = []
    subject: Blob | None = None


@dataclass(frozen=True)
class Manifest:
    """A document to be stored by digest, after what it leads to."""

    blob: Blob
    content: bytes
    blobs: tuple[Blob, ...]
    """The blobs that it names."""
    subject: str = ""
    """Digest of the manifest that it is a statement on."""


@dataclass(frozen=True)
class Contents:
    """The parts of an archive that are pushed."""

    name: str
    top: Blob
    manifests: tuple[Manifest, ...]
    """Those of images, each after those that it leads to; the last is `top`."""
    statements: tuple[Manifest, ...]


class Archive:
    """An open archive."""

    def __init__(self, place: Path, tar: tarfile.TarFile) -> None:
        self.place = place
        self._tar = tar
        self._entries = {entry.name.removeprefix("./"): entry for entry in tar if entry.isfile()}

    def contents(self) -> Contents:
        """The one image that the archive names, of one platform or several. Raises `BadArchive`."""
        index = self._document("index.json", self._read("index.json"))
        named = [blob for blob in index.manifests if NAME in blob.annotations]
        if len({blob.digest for blob in named}) != 1:
            names = ", ".join(quoted(blob.annotations[NAME], 200) for blob in named) or "none"
            raise BadArchive(f"{self.place} names several images or none ({names}); allowed: one")
        top = named[0]
        manifests: dict[str, Manifest] = {}
        self._collect(top, manifests)
        others = [blob for blob in index.manifests if NAME not in blob.annotations]
        statements = [manifest for blob in others if (manifest := self._manifest(blob)).subject in manifests]
        return Contents(top.annotations[NAME], top, tuple(manifests.values()), tuple(statements))

    @contextmanager
    def open(self, blob: Blob) -> Iterator[IO[bytes]]:
        """The content of a blob. Raises `BadArchive` for one that is not there, or has another size."""
        with self._opened(_path(self.place, blob), blob.size) as file:
            yield file

    def verify(self, blob: Blob) -> None:
        """Read a blob. Raises `BadArchive` if it is not what its digest says."""
        with self.open(blob) as file:
            digest = hashlib.sha256()
            while piece := file.read(PIECE):
                digest.update(piece)
        if f"sha256:{digest.hexdigest()}" != blob.digest:
            raise BadArchive(f"{self.place} is damaged: {blob.digest} has other content; build it again")

    def _collect(self, blob: Blob, manifests: dict[str, Manifest], depth: int = 0) -> None:
        if blob.digest in manifests:
            return
        if depth > DEEPEST:
            raise BadArchive(f"{self.place}: {blob.digest} is below more than {DEEPEST} indexes")
        manifest = self._manifest(blob)
        if blob.media_type == INDEX:
            images = self._document(blob.digest, manifest.content).manifests
            if not images:
                raise BadArchive(f"{self.place}: the index {blob.digest} has no platform in it; build it again")
            for image in images:
                self._collect(image, manifests, depth + 1)
        manifests[blob.digest] = manifest

    def _manifest(self, blob: Blob) -> Manifest:
        if blob.size > LARGEST_DOCUMENT:
            raise BadArchive(
                f"{self.place}: the manifest {blob.digest} has {blob.size} bytes; allowed: {LARGEST_DOCUMENT}"
            )
        self.verify(blob)
        with self.open(blob) as file:
            content = file.read()
        document = self._document(blob.digest, content)
        config = [document.config] if document.config else []
        subject = document.subject.digest if document.subject else ""
        return Manifest(blob, content, (*config, *document.layers), subject)

    def _read(self, path: str) -> bytes:
        with self._opened(path) as file:
            return file.read(LARGEST_DOCUMENT)

    def _document(self, name: str, content: bytes) -> _Document:
        try:
            return decode(content, _Document)
        except msgspec.MsgspecError as error:
            raise BadArchive(f"{self.place}: {name} is not a document of an image layout ({error})") from None

    @contextmanager
    def _opened(self, path: str, size: int | None = None) -> Iterator[IO[bytes]]:
        entry = self._entries.get(path)
        file = self._tar.extractfile(entry) if entry else None
        if entry is None or file is None:
            raise BadArchive(
                f"{self.place} has no {path}: it is not an OCI archive of an image, or was cut off; build it with"
                " `espalier image build`"
            )
        if size is not None and entry.size != size:
            raise BadArchive(
                f"{self.place} is damaged: {path} has {entry.size} bytes instead of {size}; build it again"
            )
        with file:
            yield file


@contextmanager
def opened(place: Path) -> Iterator[Archive]:
    """Open an archive. Raises `BadArchive` and `OSError`."""
    try:
        with tarfile.open(place) as tar:
            yield Archive(place, tar)
    except (tarfile.TarError, EOFError) as error:
        reason = str(error)
        words = f" ({reason})" if reason and "\n" not in reason else ""  # else what each decompressor says
        raise BadArchive(f"{place} is not an OCI archive of an image, or was cut off{words}") from error


def _path(place: Path, blob: Blob) -> str:
    if not DIGEST.fullmatch(blob.digest):
        raise BadArchive(f"{place}: found digest {quoted(blob.digest, 200)}; allowed: sha256:, and 64 digits")
    return f"blobs/{blob.digest.replace(':', '/')}"
