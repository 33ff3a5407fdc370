"""Servers of object stores for tests: S3 by moto, in this process; GCS by a small server of ours."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import format_datetime
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.support.servers.web_server import web_server

BUCKET = "backups"


@contextmanager
def s3_server() -> Iterator[str]:
    """A server of S3 with an empty bucket; its URL. It knows conditional puts, and takes any credentials."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
    from werkzeug.serving import make_server

    application, lock = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def in_turn(environ: Any, start_response: Any) -> Any:
        """One request at a time: moto compares and writes in two steps, between which another thread may write."""
        with lock:
            return application(environ, start_response)

    server = make_server("127.0.0.1", 0, in_turn, threaded=True, request_handler=MotoRequestHandler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_port}"
        s3_put(url, "")
        yield url
    finally:
        server.shutdown()
        thread.join()


def s3_put(url: str, key: str, data: bytes = b"") -> None:
    """Put an object of whatever name, as another client might; without a name, the bucket itself."""
    connection = HTTPConnection(urlsplit(url).netloc)
    connection.request("PUT", f"/{BUCKET}/{quote(key)}".rstrip("/"), data)
    assert connection.getresponse().status == 200
    connection.close()


def s3_files(folder: Path, url: str, **others: str) -> Path:
    """A folder of credentials for a server of S3, as Gardener mounts it."""
    folder.mkdir(exist_ok=True)
    values = {"accessKeyID": "garden", "secretAccessKey": "rose", "region": "us-east-1", "endpoint": url}
    for name, value in {**values, "s3ForcePathStyle": "true", **others}.items():
        (folder / name).write_text(value)
    return folder


@dataclass
class GoogleObject:
    data: bytes
    generation: int
    modified: datetime


@dataclass
class GoogleServer:
    """The XML API of Google Cloud Storage as far as obstore asks for it: objects with generations as preconditions,
    uploads in parts, pages of listings. It takes requests of one service account.

    What obstore sends is known by trying; what is answered, by the reference of the XML API
    (cloud.google.com/storage/docs/xml-api/reference-headers and .../multipart-uploads).
    """

    account: str = "agent@garden.iam.gserviceaccount.com"
    objects: dict[str, GoogleObject] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    generation: int = 1_000_000
    url: str = ""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if not self._is_known(request):
            return _error(401, "AuthenticationRequired")
        bucket, _, key = request.path.lstrip("/").partition("/")
        if bucket != BUCKET:
            return _error(404, "NoSuchBucket")
        if not key:
            return self._list(request)
        match request.method:
            case "PUT" if "partNumber" in request.query:
                data = await request.read()
                self.uploads[request.query["uploadId"]][int(request.query["partNumber"])] = data
                return web.Response(headers={"ETag": f'"{_md5(data)}"'})
            case "POST":
                return await self._multipart(request, key)
            case "PUT":
                return self._put(key, await request.read(), request.headers.get("x-goog-if-generation-match"))
            case "DELETE" if "uploadId" in request.query:
                del self.uploads[request.query["uploadId"]]
                return web.Response(status=204)
            case "DELETE" if key in self.objects:
                del self.objects[key]
                return web.Response(status=204)
            case "GET" | "HEAD" if key in self.objects:
                return self._get(request, self.objects[key])
        return _error(404, "NoSuchKey")

    def _is_known(self, request: web.Request) -> bool:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ").split(".")
        if len(token) != 3:
            return False
        claims = json.loads(base64.urlsafe_b64decode(token[1] + "=="))
        return bool(claims["iss"] == self.account)

    def _put(self, key: str, data: bytes, expected: str | None) -> web.Response:
        there = self.objects.get(key)
        if expected is not None and int(expected) != (there.generation if there else 0):
            return _error(412, "PreconditionFailed")
        self.generation += 1
        self.objects[key] = GoogleObject(data, self.generation, datetime.now(UTC))
        return web.Response(headers=_headers(self.objects[key]))

    async def _multipart(self, request: web.Request, key: str) -> web.Response:
        if "uploads" in request.query:
            name = f"upload-{len(self.uploads)}"
            self.uploads[name] = {}
            return _xml(f"<InitiateMultipartUploadResult><UploadId>{name}</UploadId></InitiateMultipartUploadResult>")
        parts = self.uploads.pop(request.query["uploadId"])
        asked = [int(part.text or 0) for part in ElementTree.fromstring(await request.text()).iter() if _is(part)]
        answer = self._put(key, b"".join(parts[number] for number in asked), None)
        result = self.objects[key]
        body = _xml(f"<CompleteMultipartUploadResult><ETag>{_etag(result)}</ETag></CompleteMultipartUploadResult>")
        body.headers.update(answer.headers)
        return body

    def _get(self, request: web.Request, google_object: GoogleObject) -> web.Response:
        headers, data, status = _headers(google_object), google_object.data, 200
        if "Range" in request.headers:
            start, _, end = request.headers["Range"].removeprefix("bytes=").partition("-")
            if int(start) >= len(data):
                return _error(416, "InvalidRange")
            last = min(int(end) if end else len(data) - 1, len(data) - 1)
            headers["Content-Range"] = f"bytes {start}-{last}/{len(data)}"
            data, status = data[int(start) : last + 1], 206
        if request.method == "HEAD":
            return web.Response(status=status, headers={**headers, "Content-Length": str(len(data))})
        return web.Response(status=status, body=data, headers=headers)

    def _list(self, request: web.Request) -> web.Response:
        prefix, after = request.query.get("prefix", ""), request.query.get("continuation-token", "")
        keys = sorted(key for key in self.objects if key.startswith(prefix) and key > after)
        page = keys[:1000]
        entries = "".join(
            f"<Contents><Key>{escape(key)}</Key><LastModified>{item.modified.isoformat()}</LastModified>"
            f"<Size>{len(item.data)}</Size><ETag>{_etag(item)}</ETag></Contents>"
            for key in page
            for item in (self.objects[key],)
        )
        token = f"<NextContinuationToken>{escape(page[-1])}</NextContinuationToken>" if len(keys) > len(page) else ""
        return _xml(f"<ListBucketResult>{entries}{token}</ListBucketResult>")


@asynccontextmanager
async def google_server() -> AsyncIterator[GoogleServer]:
    """A server of GCS with an empty bucket."""
    server = GoogleServer()
    async with web_server(server.answer) as port:
        server.url = f"http://127.0.0.1:{port}"
        yield server


def google_files(folder: Path, server: GoogleServer, account: str | None = None) -> Path:
    """A service account's file, and beside it the server's URL, as Gardener mounts them."""
    folder.mkdir(exist_ok=True)
    tree = {"type": "service_account", "client_email": account or server.account, "private_key": _private_key()}
    (folder / "serviceaccount.json").write_text(json.dumps({**tree, "private_key_id": "1"}))
    (folder / "storageAPIEndpoint").write_text(f"{server.url}/storage/v1/")
    return folder / "serviceaccount.json"


@cache
def _private_key() -> str:
    key = rsa.generate_private_key(65537, 2048)
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def _is(part: ElementTree.Element) -> bool:
    return part.tag.rpartition("}")[2] == "PartNumber"


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _etag(google_object: GoogleObject) -> str:
    return quote(f"CM-{google_object.generation}", safe="")


def _headers(google_object: GoogleObject) -> dict[str, str]:
    modified = format_datetime(google_object.modified, usegmt=True)
    return {
        "ETag": f'"{_etag(google_object)}"',
        "x-goog-generation": str(google_object.generation),
        "Last-Modified": modified,
    }


def _xml(text: str) -> web.Response:
    return web.Response(text=text, content_type="application/xml")


def _error(status: int, code: str) -> web.Response:
    text = f"<Error><Code>{code}</Code><Message>of a test</Message></Error>"
    return web.Response(status=status, text=text, content_type="application/xml")
