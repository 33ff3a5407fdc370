"""A registry on the bridge, for the images that a node's own base lacks: those of other Kubernetes versions.

    python -m espalier.realnodes.nspawn.system.registry SETTINGS

While a cluster is upgraded, nodes of both versions run pods of either. It offers what the stores of all bases hold, by
the names that clusters use, and nothing else; reading only (OCI distribution, pull). It is a process of its own,
standard library only: a node that starts while the local environment is down would fail otherwise for want of an image.
SETTINGS is a JSON file, read again for each request: `{"host": ..., "port": ..., "names": {...}, "stores": [...],
"makings": {name: {"folder": ..., "command": [...]}}}`. A command makes an image that is in no base, when a node asks.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

PORT = 5000
BLOBS = "io.containerd.content.v1.content/blobs/sha256"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_ASKED = re.compile(r"/v2/(?P<path>.+)/(?P<what>manifests|blobs)/(?P<reference>[^/]+)")
DIGEST = "digest"
"""The file with the digest of a created image; it is written last."""
_ONE_AT_A_TIME = threading.Lock()
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class ImageNotCreated(Exception):
    """An image can't be created; the message says why, and what to do."""


class ImageBuild(NamedTuple):
    """An image that is in no base. `command` puts its contents into `folder`, and at last its digest into `digest`."""

    folder: Path
    command: Sequence[str]

    def digest(self) -> str:
        """The digest, once the image is there. Raises `ImageNotCreated`."""
        note = self.folder / DIGEST
        with _ONE_AT_A_TIME:
            if not note.is_file():
                done = subprocess.run(self.command, capture_output=True, text=True, check=False)
                if done.returncode != 0:
                    raise ImageNotCreated(done.stderr.strip() or f"{self.command[0]} ended with {done.returncode}")
        return note.read_text()


class ServedImages:
    """Images of some stores, and created ones: digests by name, and paths of contents."""

    def __init__(
        self, names: Mapping[str, str], stores: Sequence[Path], built_images: Mapping[str, ImageBuild] | None = None
    ) -> None:
        self._names = names
        self._stores = stores
        self._makings = built_images or {}

    @classmethod
    def of_settings(cls, settings: Mapping[str, Any]) -> ServedImages:
        """Decode the images from the settings."""
        built_images = {
            name: ImageBuild(Path(build["folder"]), build["command"]) for name, build in settings["makings"].items()
        }
        return cls(settings["names"], [Path(store) for store in settings["stores"]], built_images)

    def to_settings(self) -> dict[str, Any]:
        """Encode the images for the settings."""
        built_images = {
            name: {"folder": str(build.folder), "command": list(build.command)}
            for name, build in sorted(self._makings.items())
        }
        stores = sorted(map(str, self._stores))
        return {"names": dict(sorted(self._names.items())), "stores": stores, "makings": built_images}

    def digest(self, name: str) -> str | None:
        """The digest of a full name, `host/path:tag`; the image is created if needed. Raises `ImageNotCreated`."""
        if name in self._names or name not in self._makings:
            return self._names.get(name)
        return self._makings[name].digest()

    def blob(self, digest: str) -> Path | None:
        """The file of a digest, None when it is unknown or invalid."""
        hexadecimal = _DIGEST.fullmatch(digest)
        if hexadecimal is None:
            return None
        stores = [*self._stores, *(build.folder for build in self._makings.values())]
        candidates = (store / BLOBS / hexadecimal[1] for store in stores)
        return next((path for path in candidates if path.is_file()), None)


class RegistryHandler(BaseHTTPRequestHandler):
    """One connection of a node."""

    protocol_version = "HTTP/1.1"
    settings: Path

    def do_GET(self) -> None:
        """An image's manifest, or one of its parts."""
        self._answer(with_content=True)

    def do_HEAD(self) -> None:
        """Answer whether a manifest or blob exists, without its content."""
        self._answer(with_content=False)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log errors only."""

    def _answer(self, *, with_content: bool) -> None:
        url = urlsplit(self.path)
        requested = _ASKED.fullmatch(url.path)
        if requested is None:
            greeted = url.path == "/v2/"
            self._say(HTTPStatus.OK if greeted else HTTPStatus.NOT_FOUND, {}, with_content=with_content)
            return
        served_images = ServedImages.of_settings(json.loads(self.settings.read_bytes()))
        reference, kind = unquote(requested["reference"]), "application/octet-stream"
        if requested["what"] == "blobs":
            digest, missing = reference, ("BLOB_UNKNOWN", reference)
        else:
            # containerd's mirrors get the original registry as `ns` (containerd's hosts.md).
            name = f"{parse_qs(url.query).get('ns', [''])[0]}/{requested['path']}:{reference}"
            missing = ("MANIFEST_UNKNOWN", f"an image {name}")
            try:
                digest = reference if ":" in reference else served_images.digest(name) or ""
            except ImageNotCreated as problem:
                error = {"code": "MANIFEST_UNKNOWN", "message": f"{missing[1]} can't be created: {problem}"}
                self._say(HTTPStatus.NOT_FOUND, {"errors": [error]}, with_content=with_content)
                return
        path = served_images.blob(digest)
        if path is None:
            error = {"code": missing[0], "message": f"no base of this machine has {missing[1]}"}
            self._say(HTTPStatus.NOT_FOUND, {"errors": [error]}, with_content=with_content)
            return
        if requested["what"] == "manifests":
            kind = json.loads(path.read_bytes()).get("mediaType", _MANIFEST)
        self._begin(HTTPStatus.OK, kind, path.stat().st_size, digest)
        if with_content:
            with path.open("rb") as content:
                shutil.copyfileobj(content, self.wfile)

    def _say(self, status: HTTPStatus, tree: object, *, with_content: bool) -> None:
        content = json.dumps(tree).encode()
        self._begin(status, "application/json", len(content))
        if with_content:
            self.wfile.write(content)

    def _begin(self, status: HTTPStatus, kind: str, size: int, digest: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(size))
        self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        self.end_headers()


def main(settings: Path) -> None:
    """Serve until killed."""
    RegistryHandler.settings = settings
    place = json.loads(settings.read_bytes())
    with ThreadingHTTPServer((place["host"], place["port"]), RegistryHandler) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
