"""A folder with images, as the OCI image layout has them: content by digest, and an index with their names.

Content is written to a partial file and renamed when its digest is right; an image enters the index when all of it is
there. So a command that ends anywhere leaves no image that is incomplete, and goes on where it ended.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from espalier.api.trees import json_trees
from espalier.cli.clusters.airgap.registries import Blob, Manifest, RegistryError, Traversal, listed
from espalier.cli.kit.connecting.home import naming
from espalier.cli.kit.failures import Failure

NAME = "org.opencontainers.image.ref.name"
_PIECE = 1024**2


class ImageLayout:
    """Images in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._index = folder / "index.json"

    def create(self) -> None:
        """Make the folder, unless it is there. Raises `Failure` for a folder with something else."""
        marker = self.folder / "oci-layout"
        if self.folder.exists() and not marker.exists() and any(self.folder.iterdir()):
            raise Failure(f"-o: found {self.folder}, which has other files; allowed is a new folder, or one of images")
        (self.folder / "blobs" / "sha256").mkdir(parents=True, exist_ok=True)
        if not marker.exists():
            self._write(marker, {"imageLayoutVersion": "1.0.0"})

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keep other commands from writing into the folder. Raises `Failure` if one is writing now."""
        with open(self.folder / "oci-layout", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                advice = "wait for it, or give another folder"
                raise Failure(f"-o: found {self.folder}, which is being written by another command: {advice}") from None
            yield

    def check(self) -> None:
        """Raises `Failure` if the folder has no images."""
        if not (self.folder / "oci-layout").exists() or not self._index.exists():
            raise Failure(f"-i: found {self.folder}, which has no images; allowed is a folder of `download images`")

    def names(self) -> dict[str, Blob]:
        """The images in the index, by name. Raises `Failure` for an index that can't be read."""
        if not self._index.exists():
            return {}
        try:
            tree = json_trees.decode(self._index.read_bytes())
            entries = [(_name(entry), Blob.of(entry)) for entry in listed(tree, "manifests")]
            return dict(entries)
        except (msgspec.MsgspecError, ValueError) as error:
            raise Failure(f"{self._index}: it can't be read ({error}): remove it; the content is found again") from None

    def path(self, digest: str) -> Path:
        """The file with the content of a digest."""
        return self.folder / "blobs" / "sha256" / digest.removeprefix("sha256:")

    def partial(self, digest: str) -> Path:
        """The file that becomes it."""
        return self.path(digest).with_name(f".{digest.removeprefix('sha256:')}.partial")

    def has(self, blob: Blob) -> bool:
        """True if content is there, judged by its size."""
        path = self.path(blob.digest)
        return path.is_file() and path.stat().st_size == blob.size

    def complete(self, blob: Blob) -> None:
        """Take a partial file over. Raises `RegistryError`, and removes the file, if its digest is another."""
        partial = self.partial(blob.digest)
        if (actual := digest_of(partial)) != blob.digest:
            partial.unlink()
            raise RegistryError(f"content of {blob.digest} has digest {actual}: it was changed on its way")
        partial.replace(self.path(blob.digest))

    def add(self, manifest: Manifest) -> None:
        """Add a manifest to the content."""
        path, partial = self.path(manifest.digest), self.partial(manifest.digest)
        with naming(path):
            partial.write_bytes(manifest.content)
        partial.replace(path)

    def manifest(self, blob: Blob) -> Manifest:
        """A manifest of the content. Raises `RegistryError` if it is missing or damaged, or has another size."""
        path = self.path(blob.digest)
        try:
            manifest = Manifest(path.read_bytes(), blob.media_type)
        except FileNotFoundError:
            raise RegistryError(f"{path} is missing: download the images again into this folder") from None
        if manifest.digest != blob.digest:
            raise RegistryError(f"{path} is damaged (its digest is {manifest.digest}): remove it, and download again")
        manifest.check_size(blob)
        return manifest

    def enter(self, name: str, manifest: Manifest) -> None:
        """Add an image to the index, of which all content is there."""
        entries = self.names() | {name: Blob(manifest.digest, len(manifest.content), manifest.media_type)}
        manifests = [
            {"mediaType": blob.media_type, "digest": blob.digest, "size": blob.size, "annotations": {NAME: name}}
            for name, blob in sorted(entries.items())
        ]
        self._write(self._index, {"schemaVersion": 2, "manifests": manifests})

    def is_complete(self, root: Blob) -> bool:
        """True if all content of an image is there."""
        try:
            return all(self.has(blob) for blob in self.content(root))
        except RegistryError:
            return False

    def content(self, root: Blob) -> Iterator[Blob]:
        """All content of an image, parts before what names them. Raises `RegistryError` for a damaged manifest, and for
        one below too many indexes.
        """
        yield from self._content(root, Traversal(), 0)

    def _content(self, root: Blob, read: Traversal, depth: int) -> Iterator[Blob]:
        if not read.enters(root, depth):
            return
        manifests, blobs = self.manifest(root).parts
        for part in manifests:
            yield from self._content(part, read, depth + 1)
        yield from blobs
        yield root

    def _write(self, path: Path, tree: Any) -> None:
        partial = path.with_name(f".{path.name}.partial")
        with naming(path), open(partial, "w", encoding="utf-8") as file:
            json.dump(tree, file)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)


def _name(entry: Any) -> str:
    """The name of an image in the index. Raises `ValueError`, which says what is wrong."""
    annotations = entry.get("annotations") if isinstance(entry, dict) else None
    name = annotations.get(NAME) if isinstance(annotations, dict) else None
    if not isinstance(name, str):
        raise ValueError(f"found {json.dumps(entry)[:100]}, allowed is a descriptor with annotation {NAME}")
    return name


def digest_of(path: Path) -> str:
    """The digest of a file."""
    hashed = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return f"sha256:{hashed.hexdigest()}"
