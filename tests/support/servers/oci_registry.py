"""A registry of images as the OCI distribution protocol has it, strict about what it takes, with faults on request."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs)/(?P<name>[^/]+)(?:/\w*)?")


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@dataclass
class OciRegistry:
    """The content of a registry, by repository, and how it misbehaves."""

    manifests: dict[tuple[str, str], tuple[bytes, str]] = field(default_factory=dict)
    """Content and type, by repository and tag or digest."""
    blobs: dict[tuple[str, str], bytes] = field(default_factory=dict)
    requests: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    """Bytes of blobs that were sent."""
    authorization: str = ""
    """Header that gets a token; without it, everybody may do anything."""
    cut_after: int | None = None
    """Bytes after which each answer with a blob breaks, while it is set."""
    failing: dict[str, int] = field(default_factory=dict)
    """How often requests of a method and path are answered with 503."""
    corrupt: bool = False
    has_ranges: bool = True
    uploads_at: str = ""
    """Address of another server that takes what is uploaded."""
    accounts: set[str] = field(default_factory=set)
    """Headers with which blobs were uploaded."""
    token: object = None
    """Given instead of the right one."""
    state: str = "x"
    """The query of the address to which an upload goes, as it is written."""
    host: str = ""

    def add_image(self, repository: str, tag: str, *, layers: int = 2, platforms: int = 2) -> str:
        """An index of images for some platforms. Returns its digest."""
        entries = []
        for platform in range(platforms):
            parts = [f"{repository}{tag}{platform}{layer}".encode() * 1000 for layer in range(layers)]
            config = json.dumps({"architecture": str(platform), "of": f"{repository}:{tag}"}).encode()
            for content in (config, *parts):
                self.blobs[repository, digest_of(content)] = content
            described = [{"mediaType": "x", "digest": digest_of(part), "size": len(part)} for part in (config, *parts)]
            tree = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
            content = json.dumps(tree).encode()
            self.manifests[repository, digest_of(content)] = (content, MANIFEST)
            entries.append({"mediaType": MANIFEST, "digest": digest_of(content), "size": len(content)})
        content = json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()
        self.manifests[repository, digest_of(content)] = self.manifests[repository, tag] = (content, INDEX)
        return digest_of(content)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        """Serve on this machine. Yields host and port."""
        app = web.Application(client_max_size=2**30)
        app.router.add_route("*", "/token", self._token)
        app.router.add_route("*", "/{path:.*}", self._answer)
        async with TestServer(app) as server:
            self.host = f"{server.host}:{server.port}"
            yield self.host

    async def _token(self, request: web.Request) -> web.Response:
        self.requests["token"] += 1
        if self.authorization and request.headers.get("authorization") != self.authorization:
            return web.json_response({"errors": [{"code": "DENIED"}]}, status=401)
        return web.json_response({"token": request.query["scope"] if self.token is None else self.token})

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        parts = _PATH.fullmatch(request.path)
        if parts is None:
            return web.Response(status=404)
        repository, kind, name = parts["repository"], parts["kind"], parts["name"]
        self.requests[f"{request.method} {kind}"] += 1
        if self.authorization:
            access = "pull" if request.method in ("GET", "HEAD") else "pull,push"
            scope = f"repository:{repository}:{access}"
            if request.headers.get("authorization") != f"Bearer {scope}":
                challenge = f'Bearer realm="http://{self.host}/token",service="tests",scope="{scope}"'
                return web.Response(status=401, headers={"www-authenticate": challenge})
        for key, left in self.failing.items():
            if left and key in f"{request.method} {request.path}":
                self.failing[key] -= 1
                return web.Response(status=503, headers={"retry-after": "3"})
        if kind == "manifests":
            return await self._manifest(request, repository, name)
        if request.method in ("POST", "PUT"):
            return await self._upload(request, repository, name)
        return await self._blob(request, repository, name)

    async def _manifest(self, request: web.Request, repository: str, name: str) -> web.Response:
        if request.method == "PUT":
            content = await request.read()
            tree = json.loads(content)
            blobs = (*filter(None, [tree.get("config")]), *tree.get("layers", ()))
            named = [part["digest"] for part in (*tree.get("manifests", ()), *blobs)]
            known = {digest for at, digest in (*self.manifests, *self.blobs) if at == repository}
            missing = [digest for digest in named if digest not in known]
            if missing or (":" in name and digest_of(content) != name):
                return _error(400, "MANIFEST_BLOB_UNKNOWN", f"lacks {missing}")
            entry = (content, request.headers["content-type"])
            self.manifests[repository, name] = self.manifests[repository, digest_of(content)] = entry
            return web.Response(status=201)
        if (repository, name) not in self.manifests:
            return _error(404, "MANIFEST_UNKNOWN", "manifest unknown")
        content, type_ = self.manifests[repository, name]
        headers = {"docker-content-digest": digest_of(content), "content-type": type_}
        return web.Response(body=content, headers=headers)

    async def _upload(self, request: web.Request, repository: str, name: str) -> web.Response:
        if request.method == "POST":
            place = f"{self.uploads_at}/v2/{repository}/blobs/uploads/1?state={self.state}"
            return web.Response(status=202, headers={"location": place})
        content = await request.read()
        self.accounts.add(request.headers.get("authorization", ""))
        if f"state={self.state}&" not in f"{request.raw_path}&" or digest_of(content) != request.query["digest"]:
            return _error(400, "DIGEST_INVALID", "the content has another digest")
        self.blobs[repository, request.query["digest"]] = content
        return web.Response(status=201)

    async def _blob(self, request: web.Request, repository: str, name: str) -> web.StreamResponse:
        if (repository, name) not in self.blobs:
            return _error(404, "BLOB_UNKNOWN", "blob unknown")
        content, begin = self.blobs[repository, name], 0
        if request.method == "HEAD":
            return web.Response(headers={"content-length": str(len(content))})
        if self.has_ranges and (asked := re.fullmatch(r"bytes=(\d+)-", request.headers.get("range", ""))):
            begin = int(asked[1])
        rest = content[begin:]
        if self.corrupt:
            rest = bytes(len(rest))
        response = web.StreamResponse(status=206 if begin else 200, headers={"content-length": str(len(rest))})
        await response.prepare(request)
        cut = rest if self.cut_after is None else rest[: self.cut_after]
        self.sent += len(cut)
        await response.write(cut)
        if len(cut) < len(rest):
            await asyncio.sleep(0)
            assert request.transport is not None
            request.transport.close()
        return response


def _error(status: int, code: str, message: str) -> web.Response:
    errors: list[dict[str, Any]] = [{"code": code, "message": message}]
    return web.json_response({"errors": errors}, status=status)
