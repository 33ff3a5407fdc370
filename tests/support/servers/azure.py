"""A server of Azure's blobs, as far as obstore asks for it: conditional puts, blocks, pages of listings, shared keys.

What obstore sends is known by trying; what is answered, by learn.microsoft.com/rest/api/storageservices.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from pathlib import Path
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web

from tests.support.servers.buckets import BUCKET
from tests.support.servers.web_server import web_server

ACCOUNT = "garden"
KEY = base64.b64encode(b"rose" * 8).decode()


@dataclass
class Blob:
    data: bytes
    etag: str
    modified: datetime

    @property
    def headers(self) -> dict[str, str]:
        modified = format_datetime(self.modified, usegmt=True)
        return {"ETag": self.etag, "Last-Modified": modified, "x-ms-blob-type": "BlockBlob"}


@dataclass
class AzureServer:
    """One container of one account."""

    blobs: dict[str, Blob] = field(default_factory=dict)
    blocks: dict[tuple[str, str], bytes] = field(default_factory=dict)
    count: int = 0
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not request.headers.get("Authorization", "").startswith(f"SharedKey {ACCOUNT}:"):
            return _error(403, "AuthenticationFailed")
        account, container, *names = request.path.lstrip("/").split("/", 2)
        if (account, container) != (ACCOUNT, BUCKET):
            return _error(404, "ContainerNotFound")
        if request.query.get("comp") == "batch":
            return self._batch(await request.text())
        if not names or not names[0]:
            return self._list(request) if request.query.get("comp") == "list" else web.Response()
        key = names[0]
        match request.method, request.query.get("comp"):
            case "PUT", "block":
                self.blocks[key, request.query["blockid"]] = await request.read()
                return web.Response(status=201)
            case "PUT", "blocklist":
                asked = [item.text or "" for item in ElementTree.fromstring(await request.text())]
                return self._put(request, key, b"".join(self.blocks.pop((key, item)) for item in asked))
            case "PUT", None:
                return self._put(request, key, await request.read())
            case "GET" | "HEAD", None if key in self.blobs:
                return _got(request, self.blobs[key])
        return _error(404, "BlobNotFound")

    def _put(self, request: web.Request, key: str, data: bytes) -> web.Response:
        there = self.blobs.get(key)
        if request.headers.get("If-None-Match") == "*" and there is not None:
            return _error(409, "BlobAlreadyExists")
        expected = request.headers.get("If-Match")
        if expected is not None and (there is None or there.etag != expected):
            return _error(412, "ConditionNotMet")
        self.count += 1
        self.blobs[key] = Blob(data, f'"0x{self.count:016X}"', datetime.now(UTC))
        return web.Response(status=201, headers=self.blobs[key].headers)

    def _batch(self, text: str) -> web.Response:
        """Deletions, which are sent as requests within one."""
        parts = []
        for number, path in enumerate(re.findall(r"^DELETE (\S+) HTTP", text, re.MULTILINE)):
            key = unquote(urlsplit(path).path).split("/", 3)[3]
            gone = self.blobs.pop(key, None)
            status = "202 Accepted" if gone else "404 The specified blob does not exist."
            code = "" if gone else "x-ms-error-code: BlobNotFound\r\n"
            answer = f"HTTP/1.1 {status}\r\n{code}x-ms-version: 2023-11-03\r\n\r\n"
            parts.append(f"--of\r\nContent-Type: application/http\r\nContent-ID: {number}\r\n\r\n{answer}\r\n")
        body = "".join(parts) + "--of--\r\n"
        return web.Response(status=202, body=body.encode(), headers={"Content-Type": "multipart/mixed; boundary=of"})

    def _list(self, request: web.Request) -> web.Response:
        prefix, after = request.query.get("prefix", ""), request.query.get("marker", "")
        keys = sorted(key for key in self.blobs if key.startswith(prefix) and key > after)
        page = keys[:1000]
        entries = "".join(
            f"<Blob><Name>{escape(key)}</Name><Properties>"
            f"<Last-Modified>{format_datetime(blob.modified, usegmt=True)}</Last-Modified>"
            f"<Content-Length>{len(blob.data)}</Content-Length><Content-Type>a/b</Content-Type>"
            f"<Etag>{escape(blob.etag)}</Etag></Properties></Blob>"
            for key in page
            for blob in (self.blobs[key],)
        )
        marker = escape(page[-1]) if len(keys) > len(page) else ""
        listed = f"<Blobs>{entries}</Blobs><NextMarker>{marker}</NextMarker>"
        return web.Response(text=f"<EnumerationResults>{listed}</EnumerationResults>", content_type="application/xml")


def _got(request: web.Request, blob: Blob) -> web.Response:
    headers, data, status = blob.headers, blob.data, 200
    asked = request.headers.get("Range") or request.headers.get("x-ms-range")
    if asked:
        start, _, end = asked.removeprefix("bytes=").partition("-")
        last = min(int(end) if end else len(data) - 1, len(data) - 1)
        headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
        data, status = data[int(start) : last + 1], 206
    if request.method == "HEAD":
        return web.Response(status=status, headers={**headers, "Content-Length": str(len(data))})
    return web.Response(status=status, body=data, headers=headers)


def _error(status: int, code: str) -> web.Response:
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>of a test</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml", headers={"x-ms-error-code": code})


@asynccontextmanager
async def azure_server() -> AsyncIterator[AzureServer]:
    """A server with an empty container."""
    server = AzureServer()
    async with web_server(server.answer) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


def azure_files(folder: Path, server: AzureServer) -> Path:
    """Credentials as Gardener mounts them, which name an emulator."""
    folder.mkdir(exist_ok=True)
    emulator = {"domain": urlsplit(server.url).netloc, "emulatorEnabled": "true"}
    for name, value in {"storageAccount": ACCOUNT, "storageKey": KEY, **emulator}.items():
        (folder / name).write_text(value)
    return folder


def azure_environment(folder: Path, server: AzureServer) -> dict[str, str]:
    """Credentials as Gardener mounts them, and the variable that names an emulator."""
    folder.mkdir(exist_ok=True)
    (folder / "storageAccount").write_text(ACCOUNT)
    (folder / "storageKey").write_text(KEY)
    return {"AZURE_APPLICATION_CREDENTIALS": str(folder), "AZURE_STORAGE_API_ENDPOINT": server.url}
