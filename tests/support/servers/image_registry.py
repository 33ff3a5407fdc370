"""A registry of images for tests: it stores what it is given, wants credentials, and fails as it is told to."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.support.servers.https_server import serving_context
from tests.support.servers.web_server import web_server

Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]
"""Answers a request instead of the registry; None leaves it to the registry."""
USER, PASSWORD = "robot", "correct horse"
TOKEN = "a-token"


@dataclass
class ImageRegistry:
    """One registry; repositories share what is stored."""

    port: int = 0
    authentication: str = ""
    """`basic` or `token`: what it wants; empty: nothing."""
    lists_statements: bool = True
    """False for one from before OCI 1.1, which does not list what refers to a manifest."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    manifests: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    """Media type and content by digest."""
    tags: dict[str, str] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    """Method and path of each request."""
    faults: list[Fault] = field(default_factory=list)
    tls: bool = False

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def manifest(self, name: str) -> Any:
        """The document that a tag or digest leads to."""
        return json.loads(self.manifests[self.tags.get(name, name)][1])

    def sent(self, method: str) -> int:
        """The number of requests of a method."""
        return sum(request.startswith(f"{method} ") for request in self.requests)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """The answer to a request."""
        self.requests.append(f"{request.method} {request.path}")
        for fault in self.faults:
            if (answer := await fault(request)) is not None:
                return answer
        if request.path == "/token":
            return self._token(request)
        if not self._is_known(request):
            return self._challenge()
        _, _, rest = request.path.partition("/v2/")
        repository, kind, name = (part.strip("/") for part in _split(rest))
        answer = await {"blobs": self._blob, "manifests": self._manifest}[kind](request, name)
        if request.method == "POST":
            answer.headers["Location"] = f"/v2/{repository}/blobs/uploads/1?state=a%2Bb%3D"
        return answer

    async def _blob(self, request: web.Request, name: str) -> web.Response:
        if request.method == "POST":
            return web.Response(status=202)
        if request.method == "PUT":
            assert request.query["state"] == "a+b="
            content = await request.content.read()
            digest = request.query["digest"]
            if _digest(content) != digest:
                return refused(400, "DIGEST_INVALID", "provided digest did not match uploaded content")
            self.blobs[digest] = content
            return web.Response(status=201, headers={"Docker-Content-Digest": digest})
        return web.Response(status=200 if name in self.blobs else 404)

    async def _manifest(self, request: web.Request, name: str) -> web.Response:
        if request.method != "PUT":
            if (digest := self.tags.get(name, name)) not in self.manifests:
                return refused(404, "MANIFEST_UNKNOWN", "manifest unknown")
            media_type, content = self.manifests[digest]
            headers = {"Docker-Content-Digest": digest, "Content-Type": media_type}
            return web.Response(body=content, headers=headers)
        content = await request.content.read()
        tree = json.loads(content)
        named = [tree["config"], *tree["layers"]] if "config" in tree else []
        if any(blob["digest"] not in self.blobs for blob in named):
            return refused(400, "MANIFEST_BLOB_UNKNOWN", "blob unknown to registry")
        if any(image["digest"] not in self.manifests for image in tree.get("manifests", ())):
            return refused(400, "MANIFEST_BLOB_UNKNOWN", "manifest unknown to registry")
        digest = _digest(content)
        self.manifests[digest] = (request.headers["Content-Type"], content)
        if not name.startswith("sha256:"):
            self.tags[name] = digest
        headers = {"Docker-Content-Digest": digest}
        if "subject" in tree and self.lists_statements:
            headers["OCI-Subject"] = tree["subject"]["digest"]
        return web.Response(status=201, headers=headers)

    def _is_known(self, request: web.Request) -> bool:
        shown = request.headers.get("Authorization", "")
        return {"": True, "basic": shown == basic(USER, PASSWORD), "token": shown == f"Bearer {TOKEN}"}[
            self.authentication
        ]

    def _challenge(self) -> web.Response:
        scheme = "https" if self.tls else "http"
        challenges = {
            "basic": 'Basic realm="images"',
            "token": f'Bearer realm="{scheme}://{self.address}/token",service="images",scope="repository:x:pull"',
        }
        answer = refused(401, "UNAUTHORIZED", "authentication required")
        answer.headers["WWW-Authenticate"] = challenges[self.authentication]
        return answer

    def _token(self, request: web.Request) -> web.Response:
        assert request.query["scope"].endswith(":pull,push")
        if request.headers.get("Authorization") != basic(USER, PASSWORD):
            return refused(401, "UNAUTHORIZED", "wrong user or password")
        return web.json_response({"token": TOKEN})


@asynccontextmanager
async def image_registry(*, tls: bool = False) -> AsyncIterator[ImageRegistry]:
    """A running registry."""
    registry = ImageRegistry(tls=tls)
    async with web_server(registry.handle, serving_context() if tls else None) as port:
        registry.port = port
        yield registry


def refused(status: int, code: str, message: str) -> web.Response:
    """A refusal as registries write it."""
    return web.json_response({"errors": [{"code": code, "message": message}]}, status=status)


def basic(user: str, password: str) -> str:
    """The header of basic authentication."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def _split(rest: str) -> tuple[str, str, str]:
    for kind in ("blobs", "manifests"):
        repository, separator, name = rest.partition(f"/{kind}/")
        if separator:
            return repository, kind, name
    raise AssertionError(rest)


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
