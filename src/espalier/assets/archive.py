"""OCI image archives, written so that the same content gives the same bytes, whoever writes them and when.

Entries are sorted, belong to root and have no times; layers are not compressed, so that no library's version shows.
An archive is what `ctr images import` reads: an OCI layout in a tar, each manifest annotated with the image's name.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

SEARCH_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Layer:
    """Files of an image: path without a leading slash -> a file of this machine, or the text of a link."""

    files: Mapping[str, Path | str]
    folders: Mapping[str, int] = field(default_factory=dict)
    """Path -> mode, for folders that no file names, or that need another mode than 0755."""

    @property
    def size(self) -> int:
        """Bytes of the layer's files."""
        return sum(file.stat().st_size for file in self.files.values() if isinstance(file, Path))

    def write(self, target: BinaryIO) -> None:
        """Write the layer as a tar: folders before what lies in them, all sorted."""
        folders = {str(parent): 0o755 for path in self.files for parent in Path(path).parents} | dict(self.folders)
        folders.pop(".", None)
        entries: dict[str, Path | str | int] = {**folders, **self.files}
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(entries):
                _add(tar, path, entries[path])


@dataclass(frozen=True)
class Image:
    """One image: its names, what it is made of, and what it runs."""

    names: tuple[str, ...]
    """Full names with tags."""
    layers: tuple[Layer, ...]
    entrypoint: tuple[str, ...]
    user: str = ""


def write_archive(images: Sequence[Image], target: Path, *, docker: bool = False) -> dict[str, str]:
    """Write an archive of the images; a layer that several share (the same object) is there once.

    With `docker` it is an archive for `docker load` as well, of the same blobs. Returns the digest of the manifest by
    image name. Raises `OSError` for a file that can't be read or written.
    """
    digests: dict[str, str] = {}
    with target.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as tar:
        blobs = _Blobs(tar)
        _text(tar, "oci-layout", {"imageLayoutVersion": "1.0.0"})
        layers = {id(layer): blobs.layer(layer, target) for layer in _unique(images)}
        index = []
        loaded = []
        for image in images:
            manifest = blobs.manifest(image, [layers[id(layer)] for layer in image.layers])
            places = [_place(layers[id(layer)]["digest"]) for layer in image.layers]
            loaded.append({"Config": _place(blobs.config), "RepoTags": list(image.names), "Layers": places})
            for name in image.names:
                digests[name] = manifest["digest"]
                index.append({**manifest, "annotations": {"io.containerd.image.name": name}})
        _text(tar, "index.json", {"schemaVersion": 2, "manifests": index})
        if docker:
            _text(tar, "manifest.json", loaded)
    return digests


class _Blobs:
    """The blobs of an archive by digest; each is written once."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar
        self._written: set[str] = set()
        self.config = ""
        """Digest of the configuration of the manifest that was written last."""

    def layer(self, layer: Layer, beside: Path) -> dict[str, Any]:
        scratch = beside.with_name(f".{beside.name}.layer")
        try:
            with scratch.open("w+b") as file:
                layer.write(file)
                size = file.tell()
                file.seek(0)
                digest = f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
                file.seek(0)
                self._write(digest, size, file)
        finally:
            scratch.unlink(missing_ok=True)
        return {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size}

    def manifest(self, image: Image, layers: list[dict[str, Any]]) -> dict[str, Any]:
        settings: dict[str, Any] = {"Env": [SEARCH_PATH], "Entrypoint": list(image.entrypoint)}
        if image.user:
            settings["User"] = image.user
        machine = os.uname().machine
        config = {
            "architecture": ARCHITECTURES.get(machine, machine),
            "os": "linux",
            "config": settings,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        described = self._json("application/vnd.oci.image.config.v1+json", config)
        self.config = described["digest"]
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": described,
            "layers": layers,
        }
        return self._json(str(manifest["mediaType"]), manifest)

    def _json(self, media_type: str, tree: Any) -> dict[str, Any]:
        content = _dump(tree)
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self._write(digest, len(content), io.BytesIO(content))
        return {"mediaType": media_type, "digest": digest, "size": len(content)}

    def _write(self, digest: str, size: int, content: BinaryIO) -> None:
        if digest in self._written:
            return
        self._written.add(digest)
        entry = tarfile.TarInfo(_place(digest))
        entry.size = size
        self._tar.addfile(entry, content)


def _place(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _add(tar: tarfile.TarFile, path: str, source: Path | str | int) -> None:
    entry = tarfile.TarInfo(path)
    if isinstance(source, int):
        entry.type, entry.mode = tarfile.DIRTYPE, source
        tar.addfile(entry)
    elif isinstance(source, str):
        entry.type, entry.mode, entry.linkname = tarfile.SYMTYPE, 0o777, source
        tar.addfile(entry)
    else:
        status = source.stat()
        entry.size, entry.mode = status.st_size, stat.S_IMODE(status.st_mode)
        with source.open("rb") as file:
            tar.addfile(entry, file)


def _unique(images: Sequence[Image]) -> Iterable[Layer]:
    return {id(layer): layer for image in images for layer in image.layers}.values()


def _text(tar: tarfile.TarFile, path: str, tree: Any) -> None:
    content = _dump(tree)
    entry = tarfile.TarInfo(path)
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def _dump(tree: Any) -> bytes:
    return json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
