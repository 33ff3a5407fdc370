"""An OCI image layout of images for several architectures, written so that the same input gives the same bytes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from espalier.api.trees.json_trees import decode
from espalier.assets.archive import SEARCH_PATH, Layer

Descriptor = Mapping[str, Any]
"""Media type, digest and size of a blob, as OCI has them."""

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
EMPTY = "application/vnd.oci.empty.v1+json"
BLOBS = "blobs/sha256"
NAME = "io.containerd.image.name"
"""Annotation by which containerd and Docker name an image when they import an archive."""
REFERENCE = "org.opencontainers.image.ref.name"


@dataclass(frozen=True)
class PackedLayer:
    """A layer in a layout."""

    descriptor: Descriptor
    diff_id: str
    """Digest before compression."""
    content: str
    """Its words in reports: `Python`."""
    size: int
    """Bytes before compression."""


@dataclass
class Layout:
    """A layout being written below a folder."""

    folder: Path
    compress: Callable[[Path, Path], None]
    _packed: dict[str, PackedLayer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the folders."""
        (self.folder / BLOBS).mkdir(parents=True)

    def layer(self, content: str, layer: Layer) -> PackedLayer:
        """Add a layer; one with the same bytes is compressed once. Raises `BuildFailed` and `OSError`."""
        plain, packed = self.folder / "layer.tar", self.folder / "layer.tar.gz"
        with plain.open("w+b") as file:
            layer.write(file)
            size = file.tell()
            file.seek(0)
            diff_id = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
        if diff_id not in self._packed:
            self.compress(plain, packed)
            with packed.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            descriptor = {"mediaType": LAYER, "digest": f"sha256:{digest}", "size": packed.stat().st_size}
            packed.rename(self.folder / BLOBS / digest)
            self._packed[diff_id] = PackedLayer(descriptor, diff_id, content, size)
        plain.unlink()
        return self._packed[diff_id]

    def image(self, architecture: str, layers: Sequence[PackedLayer], settings: Mapping[str, Any]) -> Descriptor:
        """Add an image, and return its descriptor with its platform."""
        config = {
            "architecture": architecture,
            "os": "linux",
            "config": {"Env": [SEARCH_PATH], **settings},
            "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": self.document(CONFIG, config),
            "layers": [layer.descriptor for layer in layers],
        }
        return {**self.document(MANIFEST, manifest), "platform": {"architecture": architecture, "os": "linux"}}

    def statement(self, artifact_type: str, text: bytes, subject: Descriptor) -> Descriptor:
        """Add a document about an image as an artifact that refers to it, and return the artifact's descriptor."""
        about = {key: subject[key] for key in ("mediaType", "digest", "size")}
        manifest = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": artifact_type,
            "config": self._blob(EMPTY, b"{}"),
            "layers": [self._blob(artifact_type, text)],
            "subject": about,
        }
        return {**self.document(MANIFEST, manifest), "artifactType": artifact_type}

    def document(self, media_type: str, tree: Mapping[str, Any]) -> Descriptor:
        """Add a JSON document."""
        return self._blob(media_type, dump(tree))

    def _blob(self, media_type: str, content: bytes) -> Descriptor:
        digest = hashlib.sha256(content).hexdigest()
        (self.folder / BLOBS / digest).write_bytes(content)
        return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}

    def archive(self, target: Path, tag: str, image: Descriptor, own: Descriptor, others: Iterable[Descriptor]) -> None:
        """Write the layout as a tar: `image` has the name `tag`, `own` is what `docker load` takes, `others` are there
        besides. Nothing is there under the target's name until all of it is. Raises `OSError`."""
        named = {**image, "annotations": {NAME: tag, REFERENCE: tag.rpartition(":")[2]}}
        manifest = decode((self.folder / BLOBS / _hex(own)).read_bytes())
        loaded = {
            "Config": f"{BLOBS}/{_hex(manifest['config'])}",
            "RepoTags": [tag],
            "Layers": [f"{BLOBS}/{_hex(layer)}" for layer in manifest["layers"]],
        }
        documents = {
            "oci-layout": {"imageLayoutVersion": "1.0.0"},
            "index.json": {"schemaVersion": 2, "mediaType": INDEX, "manifests": [named, *others]},
            "manifest.json": [loaded],
        }
        staged = target.with_name(f".{target.name}.new")
        try:
            with tarfile.open(staged, "w", format=tarfile.PAX_FORMAT) as tar:
                for path, tree in documents.items():
                    content = dump(tree)
                    tar.addfile(_entry(path, len(content)), io.BytesIO(content))
                for blob in sorted((self.folder / BLOBS).iterdir()):
                    with blob.open("rb") as file:
                        tar.addfile(_entry(f"{BLOBS}/{blob.name}", blob.stat().st_size), file)
            staged.replace(target)
        finally:
            staged.unlink(missing_ok=True)


def dump(tree: Any) -> bytes:
    """JSON with the same bytes for the same content."""
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()


def _hex(descriptor: Descriptor) -> str:
    return str(descriptor["digest"]).removeprefix("sha256:")


def _entry(path: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(path)
    entry.size = size
    return entry
