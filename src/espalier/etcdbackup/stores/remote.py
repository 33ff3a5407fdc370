"""Buckets of S3, GCS and Azure, through obstore."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Protocol

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    InvalidPathError,
    PermissionDeniedError,
    PreconditionError,
    UnauthenticatedError,
)

from espalier.api.text.printable import in_one_line
from espalier.etcdbackup.stores import keys
from espalier.etcdbackup.stores.clients import Clients
from espalier.etcdbackup.stores.errors import Conflict, Corrupt, NotFound, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import CHUNK, MOST_LISTED, Content, StoredObject

if TYPE_CHECKING:
    from obstore import GetOptions, ObjectMeta, PutMode, PutResult, UpdateVersion

PART = 5 << 20
"""Bytes of a part of an upload, the minimum of S3. 10,000 parts are allowed: 52 GB."""
PARALLEL = 4
"""Parts that are sent at the same time, each of which is in memory."""
PAGE = 1000
"""Objects in a page of a listing."""
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([^<]{1,200})</Code>(?:.{0,400}?<Message>([^<]{0,400})</Message>)?", re.DOTALL)
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "InvalidBucketName")
_CAUSES = {
    "InvalidCertificate(": "its certificate is not trusted",
    "dns error": "unknown host",
    "kind: Connect": "no connection",
    "kind: Timeout": "timeout",
}
_TRANSIENT = (408, 425, 429)
_CHANGED = "the object changed since it was read"


class _Access(Protocol):
    def clients(self) -> Clients: ...


class RemoteStore:
    """A prefix in a bucket."""

    def __init__(self, where: str, prefix: str, access: _Access, retries: Retries) -> None:
        self.where = where
        self.retries = retries
        self._prefix = f"{prefix}/" if prefix else ""
        self._access = access

    async def list(self, folder: str = "", *, most: int = MOST_LISTED) -> AsyncGenerator[StoredObject, None]:
        """See `Store`."""
        async with self._with_timeout(folder):
            below = self._prefix + (f"{keys.checked(folder)}/" if folder else "")
            pages = obstore.list(self._access.clients().small, below.rstrip("/") or None, chunk_size=PAGE)
        count = 0
        while True:
            async with self._with_timeout(folder):
                page = await anext(pages, None)
            if page is None:
                return
            count += len(page)
            if count > most:
                raise Refused(self._url(folder), f"more than {most} objects below it", "use a prefix of its own")
            for meta in page:
                yield self._stored(meta)

    async def head(self, key: str) -> StoredObject:
        """See `Store`."""
        path = self._path(key)
        try:
            async with self._with_timeout(key):
                return self._stored(await obstore.head_async(self._access.clients().small, path))
        except NotFound:
            async with self._with_timeout(key):  # a response to HEAD has no body, which would name a missing bucket
                await obstore.get_async(self._access.clients().small, path)
            raise

    async def read(self, key: str, *, most: int) -> Content:
        """See `Store`."""
        path = self._path(key)
        async with self._with_timeout(key):
            return await self._read(key, path, most)

    async def _read(self, key: str, path: str, most: int) -> Content:
        result = await obstore.get_async(self._access.clients().small, path)
        stored = self._stored(result.meta)
        if stored.size > most:
            raise Corrupt(self._url(key), f"{stored.size} bytes, at most {most} are expected")
        data = b"".join([chunk async for chunk in result.stream(min_chunk_size=most + 1)])
        self._require_size(key, len(data), stored.size)
        return Content(data, stored)

    async def stream(self, key: str, *, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes, None]:
        """See `Store`."""
        path = self._path(key)
        options: GetOptions = {}
        if start or end is not None:
            size = (await self.head(key)).size
            end = size if end is None else min(end, size)
            if start >= end:
                return
            options["range"] = (start, end)
        async with self._with_timeout(key):
            result = await obstore.get_async(self._access.clients().long, path, options=options)
        first, last = result.range
        chunks = result.stream(min_chunk_size=CHUNK)
        received = 0
        while True:
            async with self._with_timeout(key, self.retries.stall):
                chunk = await anext(chunks, None)
            if chunk is None:
                break
            received += len(chunk)
            yield chunk
        self._require_size(key, received, last - first)

    async def put(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        async with self._with_timeout(key):
            return await self._put(key, data, "overwrite")

    async def create(self, key: str, data: bytes) -> StoredObject:
        """See `Store`."""
        return await self._put_once(key, data, "create", "the object is there already")

    async def replace(self, last: StoredObject, data: bytes) -> StoredObject:
        """See `Store`."""
        version: UpdateVersion = {"e_tag": last.etag} if last.etag else {}
        if last.version:
            version["version"] = last.version
        return await self._put_once(last.key, data, version, _CHANGED)

    async def _put_once(self, key: str, data: bytes, mode: PutMode, conflict: str) -> StoredObject:
        """Write under a condition. obstore repeats a request whose answer was lost; then the second attempt conflicts
        with the first one, and the stored object shows that."""
        async with self._with_timeout(key):
            try:
                return await self._put(key, data, mode)
            except (AlreadyExistsError, PreconditionError):
                try:
                    present = await self._read(key, self._path(key), len(data))
                except (FileNotFoundError, Corrupt):
                    present = None
            if present is None or present.data != data:
                raise Conflict(self._url(key), conflict)
            return present.stored

    async def _put(self, key: str, data: bytes, mode: PutMode) -> StoredObject:
        client = self._access.clients().small
        result = await obstore.put_async(client, self._path(key), data, mode=mode, use_multipart=False)
        try:
            meta = await obstore.head_async(client, self._path(key))
        except FileNotFoundError:
            raise Corrupt(self._url(key), "it was stored but is missing", "check what else writes there") from None
        if (result["version"], result["e_tag"]) == (meta["version"], meta["e_tag"]):
            self._require_size(key, meta["size"], len(data))
            return self._stored(meta)
        # Another writer has replaced it since: only the time is of the other object.
        return StoredObject(key, len(data), meta["last_modified"], result["e_tag"] or "", result["version"] or "")

    async def upload(self, key: str, chunks: AsyncIterable[bytes]) -> StoredObject:
        """See `Store`. The MD5 that is an ETag in S3 proves the bytes; otherwise they are read back."""
        path = self._path(key)
        sent = _SentDigests()
        first, remaining = await _split(sent.counted(chunks))
        try:
            async with self._with_timeout(key, None):
                result = await self._send(path, first, remaining)
        except StoreError:
            if sent.failure is not None:  # the store's error is only about the aborted upload
                raise sent.failure from None
            raise
        stored = await self.head(key)
        self._require_size(key, stored.size, sent.size)
        if not sent.is_proven_by(result, stored):
            await self._compare(key, sent)
        return stored

    async def _send(self, path: str, first: bytes, remaining: AsyncIterable[bytes] | None) -> PutResult:
        client = self._access.clients().long
        if remaining is None:
            return await obstore.put_async(client, path, first, use_multipart=False)
        return await obstore.put_async(
            client, path, remaining, use_multipart=True, chunk_size=PART, max_concurrency=PARALLEL
        )

    async def _compare(self, key: str, sent: _SentDigests) -> None:
        read_back = hashlib.sha256()
        async for chunk in self.stream(key):
            await asyncio.to_thread(read_back.update, chunk)
        if read_back.digest() != sent.sha256.digest():
            raise Corrupt(self._url(key), "the stored bytes differ from those sent", "upload it again")

    async def delete(self, key: str) -> None:
        """See `Store`."""
        async with self._with_timeout(key):
            try:
                await obstore.delete_async(self._access.clients().small, self._path(key))
            except FileNotFoundError as error:
                if any(code in str(error) for code in _NO_BUCKET):
                    raise

    def _path(self, key: str) -> str:
        return keys.checked(self._prefix + keys.checked(key))

    def _url(self, key: str) -> str:
        return f"{self.where}/{key}" if key else self.where

    def _stored(self, meta: ObjectMeta) -> StoredObject:
        key = meta["path"].removeprefix(self._prefix)
        return StoredObject(key, meta["size"], meta["last_modified"], meta["e_tag"] or "", meta["version"] or "")

    def _require_size(self, key: str, actual: int, expected: int) -> None:
        if actual != expected:
            raise Corrupt(self._url(key), f"{actual} bytes, but {expected} were announced")

    @asynccontextmanager
    async def _with_timeout(self, key: str, seconds: float | None = 0.0) -> AsyncIterator[None]:
        """Time out the block after seconds (0: the total of a small operation; None: never). Errors of obstore are
        raised as `StoreError`."""
        limit = self.retries.total if seconds == 0.0 else seconds
        try:
            async with asyncio.timeout(limit):
                yield
        except TimeoutError:
            raise Unavailable(
                self._url(key), f"no answer within {limit:g} s", "check the network and the store"
            ) from None
        except (BaseError, FileNotFoundError) as error:
            raise _store_error(self._url(key), error) from None


class _SentDigests:
    """Size and digests of the data that an upload sends."""

    def __init__(self) -> None:
        self.size = 0
        self.sha256 = hashlib.sha256()
        self.failure: BaseException | None = None
        """The error of the source of the chunks."""
        self._part = hashlib.md5(usedforsecurity=False)
        self._parts: list[bytes] = []
        self._left = PART

    async def counted(self, chunks: AsyncIterable[bytes]) -> AsyncGenerator[bytes, None]:
        """Pass the chunks on."""
        try:
            async for chunk in chunks:
                await asyncio.to_thread(self._add, chunk)
                yield chunk
        except Exception as error:
            self.failure = error
            raise

    def is_proven_by(self, result: PutResult, stored: StoredObject) -> bool:
        """True if the ETag is the MD5 of what was sent, as in S3 without encryption by KMS: of all of it, or of the
        MD5s of its parts."""
        parts = [*self._parts, self._part.digest()] if self._left < PART else self._parts
        md5 = parts[0].hex() if len(parts) == 1 else ""
        of_parts = f"{hashlib.md5(b''.join(parts), usedforsecurity=False).hexdigest()}-{len(parts)}"
        etag = stored.etag.strip('"')
        return etag == (result["e_tag"] or "").strip('"') and etag in (md5, of_parts)

    def _add(self, chunk: bytes) -> None:
        self.size += len(chunk)
        self.sha256.update(chunk)
        view = memoryview(chunk)
        while view:
            piece, view = view[: self._left], view[self._left :]
            self._part.update(piece)
            self._left -= len(piece)
            if not self._left:
                self._parts.append(self._part.digest())
                self._part, self._left = hashlib.md5(usedforsecurity=False), PART


async def _split(chunks: AsyncGenerator[bytes, None]) -> tuple[bytes, AsyncIterable[bytes] | None]:
    """All of a small object, or the chunks of a larger object (including those that were read to find out)."""
    head = bytearray()
    async for chunk in chunks:
        head += chunk
        if len(head) > PART:
            break
    else:
        return bytes(head), None

    async def all_chunks() -> AsyncGenerator[bytes, None]:
        yield bytes(head)
        head.clear()
        async for chunk in chunks:
            yield chunk

    return b"", all_chunks()


def _store_error(where: str, error: Exception) -> StoreError:
    """The `StoreError` for an error of obstore."""
    text = str(error)
    reason = _reason(text)
    status = int(match[1]) if (match := _STATUS.search(text)) else 0
    if any(code in text for code in _NO_BUCKET):
        return Refused(where, f"there is no such bucket ({reason})", "create it, or check the URL")
    match error:
        case FileNotFoundError():
            return NotFound(where, "no such object")
        case PermissionDeniedError() | UnauthenticatedError():
            return Refused(
                where, f"the store rejects these credentials ({reason})", "check their permissions and expiry"
            )
        case AlreadyExistsError() | PreconditionError():
            return Conflict(where, _CHANGED)
        case InvalidPathError():
            return Refused(where, f"it holds an object whose name can't be read ({reason})", "remove that object")
    if "without LOCATION" in text:
        return Refused(where, "the store redirects without a location", "check the region in its credentials")
    if status == 416:
        return Corrupt(where, "the object is shorter than the store reported")
    if 400 <= status < 500 and status not in _TRANSIENT:
        return Refused(
            where, f"the store rejects the request ({reason})", "check credentials, clock, region and endpoint"
        )
    return Unavailable(where, f"the store does not answer as expected ({reason})", "check the network and the store")


def _reason(text: str) -> str:
    """The store's message in an error of obstore: code and message, else the first line; short, and in one line."""
    code = _CODE.search(text)
    if code is not None:
        reason = ": ".join(part for part in code.groups() if part)
    else:
        first = text.partition("\n\nDebug source")[0].strip()
        reason = " ".join(part for part in (_cause(text), first.rpartition(" - ")[2] or first) if part)
    return in_one_line(reason)[:300].rstrip(" .")


def _cause(text: str) -> str:
    """The details of a failed request, which obstore has only in its debug form."""
    return next((words for sign, words in _CAUSES.items() if sign in text), "")
