"""A registry on the bridge, for the images that a node's own base lacks: those of other Kubernetes versions.

While a cluster is upgraded, nodes of both versions run pods of either. It offers what the stores of all bases hold, by
the names that clusters use, and nothing else; reading only (OCI distribution, pull).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Protocol

import structlog
from aiohttp import web

from espalier.runtime.serving import HttpServer

_log = structlog.get_logger("espalier.nodes")

PORT = 5000
BLOBS = "io.containerd.content.v1.content/blobs/sha256"
_DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


class Made(Protocol):
    """Images that are in no base, but made when a node asks for them."""

    def digest(self, name: str) -> str | None:
        """What a full name stands for, once the image is made; None for one of others. Blocks; raises `CanNotMake`."""

    @property
    def stores(self) -> Sequence[Path]:
        """Folders in which the contents of images lie that were made."""


class CanNotMake(Exception):
    """An image can't be made; the message says why, and what helps."""


class Shelf:
    """Images of some stores, and those that are made: which digest each name has, and where the contents lie."""

    def __init__(self, names: Mapping[str, str], stores: Sequence[Path], made: Made | None = None) -> None:
        self._names = names
        self._stores = stores
        self._made = made

    def digest(self, name: str) -> str | None:
        """What a full name, `host/path:tag`, stands for. Raises `CanNotMake`."""
        return self._names.get(name) or (self._made.digest(name) if self._made else None)

    def blob(self, digest: str) -> Path | None:
        """The file of a digest, None when no store has it, or it is none."""
        hexadecimal = _DIGEST.fullmatch(digest)
        if hexadecimal is None:
            return None
        stores = (*self._stores, *(self._made.stores if self._made else ()))
        candidates = (store / BLOBS / hexadecimal[1] for store in stores)
        return next((path for path in candidates if path.is_file()), None)


class Registry:
    """Serves a shelf, which is looked at anew for each request: bases may be built while it runs."""

    def __init__(self, look: Callable[[], Shelf], host: str) -> None:
        self._look = look
        self._host = host
        self._server: HttpServer | None = None

    async def start(self) -> None:
        """Serve, unless it does already. Raises `OSError` when the address is not there, or taken."""
        if self._server is not None:
            return
        application = web.Application()
        application.router.add_get("/v2/", _greet)
        application.router.add_get(r"/v2/{path:.+}/manifests/{reference}", self._manifest)
        application.router.add_get(r"/v2/{path:.+}/blobs/{digest}", self._blob)
        server = HttpServer(application, self._host, PORT)
        await server.start()
        self._server = server

    @property
    def port(self) -> int | None:
        """Where it listens, None while it does not."""
        return self._server.port if self._server is not None else None

    async def stop(self) -> None:
        """Serve no longer."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop()

    async def _manifest(self, request: web.Request) -> web.StreamResponse:
        shelf = await asyncio.to_thread(self._look)
        reference = request.match_info["reference"]
        # A mirror is told by `ns` whose images are asked for (containerd's hosts.md).
        name = f"{request.query.get('ns', '')}/{request.match_info['path']}:{reference}"
        try:
            digest = reference if ":" in reference else await asyncio.to_thread(shelf.digest, name)
        except CanNotMake as error:
            _log.warning("an image that a node asks for can't be made", image=name, error=str(error))
            return _unknown("MANIFEST_UNKNOWN", str(error))
        path = shelf.blob(digest) if digest else None
        if path is None or digest is None:
            return _unknown("MANIFEST_UNKNOWN", f"no base of this machine has an image {name}")
        content = await asyncio.to_thread(path.read_bytes)
        kind = json.loads(content).get("mediaType", _MANIFEST)
        return web.Response(body=content, headers={"Content-Type": kind, "Docker-Content-Digest": digest})

    async def _blob(self, request: web.Request) -> web.StreamResponse:
        digest = request.match_info["digest"]
        path = (await asyncio.to_thread(self._look)).blob(digest)
        if path is None:
            return _unknown("BLOB_UNKNOWN", f"no base of this machine has {digest}")
        headers = {"Content-Type": "application/octet-stream", "Docker-Content-Digest": digest}
        return web.FileResponse(path, headers=headers)


async def _greet(_request: web.Request) -> web.StreamResponse:
    return web.json_response({}, headers={"Docker-Distribution-Api-Version": "registry/2.0"})


def _unknown(code: str, message: str) -> web.Response:
    return web.json_response({"errors": [{"code": code, "message": message}]}, status=HTTPStatus.NOT_FOUND)
