"""Archives of images that are made in an instant."""

from __future__ import annotations

import gzip
from pathlib import Path

from espalier.assets.archive import Layer
from espalier.cli.local.images.layout import INDEX, Layout


def compress(source: Path, target: Path) -> None:
    target.write_bytes(gzip.compress(source.read_bytes(), mtime=0))


def small_archive(folder: Path, name: str = "registry.example/espalier:v1") -> Path:
    """An archive of two images that share a layer, with a statement on each."""
    layout = Layout(folder / "layout", compress)
    (folder / "program").write_text("program")
    images, statements = {}, []
    for architecture in ("amd64", "arm64"):
        (folder / architecture).write_bytes(architecture.encode() * 300_000)
        layers = [
            layout.layer("Python", Layer({"python": folder / architecture})),
            layout.layer("espalier", Layer({"program": folder / "program"})),
        ]
        images[architecture] = layout.image(architecture, layers, {})
        statements.append(layout.statement("application/spdx+json", architecture.encode(), images[architecture]))
    index = layout.document(INDEX, {"schemaVersion": 2, "mediaType": INDEX, "manifests": list(images.values())})
    layout.archive(folder / "image.tar", name, index, images["amd64"], statements)
    return folder / "image.tar"
