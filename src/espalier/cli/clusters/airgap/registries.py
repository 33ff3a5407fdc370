"""Registries of images, by the OCI distribution protocol: manifests and blobs, read and written.

`Registry` is all that downloads, imports and checks need; `HttpRegistry` is one over HTTP. Requests that fail for a
while are repeated, downloads from where they ended.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol, TypeVar
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from yarl import URL

from espalier.api.text.listing import counted
from espalier.api.text.printable import quoted
from espalier.api.trees import json_trees
from espalier.kube.transports import channel

A = TypeVar("A")

INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
LARGEST_MANIFEST = 4 * 1024**2
"""Bytes; registries accept no more."""
DEEPEST = 8
"""Indexes above a manifest. No index is in itself: it would have to contain its own digest."""
ATTEMPTS = 5
SECONDS = 60.0
"""Without a byte, after which a request is repeated."""
ATTEMPTS_IN_SILENCE = 2
"""For a registry that answers nothing."""
LOST = 3
"""Requests in a row that fail in all attempts, after which a registry is not asked any more."""
PATIENCE = 2.0
"""Seconds without an answer after which that is told."""
_LONGEST_PAUSE = 60.0
_PIECE = 1024**2
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
_CHALLENGE = re.compile(r'([a-z]+)="([^"]*)"', re.IGNORECASE)


_REDIRECTED = (aiohttp.TooManyRedirects, aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError)


class RegistryError(Exception):
    """A registry did not do what was asked. The message names it, its answer, and what to do."""


class Unanswered(RegistryError):
    """A registry gave no answer that counts, in any attempt."""


class GivenUp(Unanswered):
    """A registry was not asked, as it did not answer before."""


def listed(tree: Any, field: str) -> list[Any]:
    """The list in a field of a document. Raises `ValueError`, which says what is wrong."""
    entries = tree.get(field) if isinstance(tree, dict) else None
    if not isinstance(entries, list):
        raise ValueError(f"found {json.dumps(tree)[:100]}, allowed is an object with a list {field}")
    return entries


@dataclass(frozen=True)
class Manifest:
    """A manifest or an index of images, as the registry has it."""

    content: bytes
    media_type: str

    @property
    def digest(self) -> str:
        """`sha256:...` of the content."""
        return f"sha256:{hashlib.sha256(self.content).hexdigest()}"

    def check_size(self, named: Blob) -> None:
        """Raises `RegistryError` unless it has the size in the descriptor that led to it."""
        if len(self.content) != named.size:
            raise RegistryError(
                f"the manifest {named.digest} has {len(self.content)} bytes, not {named.size} as its index says"
            )

    @property
    def parts(self) -> tuple[list[Blob], list[Blob]]:
        """The manifests and the blobs that it names. Raises `RegistryError` for content of another format, and for an
        index without manifests.
        """
        try:
            tree = json_trees.decode(self.content)
            if self.media_type in INDEXES:
                manifests = [Blob.of(part) for part in listed(tree, "manifests")]
                if not manifests:
                    raise RegistryError(f"the index {self.digest} has no platform in it: no node could run its image")
                return manifests, []
            if self.media_type in MANIFESTS:
                layers = listed(tree, "layers")
                parts = [Blob.of(part) for part in (tree.get("config"), *layers)]
                return [], [part for part in parts if not part.is_elsewhere]
        except (msgspec.MsgspecError, ValueError) as error:
            raise RegistryError(f"a manifest of type {self.media_type} can't be read: {error}") from None
        raise RegistryError(f"found a manifest of type {self.media_type or 'none'}, allowed is one of OCI or Docker v2")


@dataclass(frozen=True)
class Blob:
    """A part of an image: digest and bytes."""

    digest: str
    size: int
    media_type: str = ""

    @classmethod
    def of(cls, tree: object) -> Blob:
        """From a descriptor. Raises `ValueError`, which says what is wrong."""
        if not isinstance(tree, Mapping):
            raise ValueError(f"found {json.dumps(tree)[:100]}, allowed is a descriptor with digest and size")
        digest, size = tree.get("digest"), tree.get("size")
        is_digest = isinstance(digest, str) and re.fullmatch("sha256:[0-9a-f]{64}", digest)
        if not is_digest or not isinstance(size, int) or size < 0:
            raise ValueError(
                f"found digest {json.dumps(digest)[:100]} and size {json.dumps(size)[:100]}, "
                "allowed are sha256:... and a number of bytes"
            )
        return cls(str(digest), size, str(tree.get("mediaType", "")))

    @property
    def is_elsewhere(self) -> bool:
        """True for layers that may not be copied: nodes get them from where their manifest says."""
        return "nondistributable" in self.media_type or ".foreign." in self.media_type


class Traversal:
    """The manifests of one image that were read: each is once, however many indexes name it."""

    def __init__(self) -> None:
        self._read: set[tuple[str, int]] = set()

    def enters(self, part: Blob, depth: int) -> bool:
        """False for a manifest that was read. Raises `RegistryError` for one below more than `DEEPEST` indexes."""
        if depth > DEEPEST:
            raise RegistryError(f"the manifest {part.digest} is below more than {DEEPEST} indexes")
        entry = part.digest, part.size
        if entry in self._read:
            return False
        self._read.add(entry)
        return True


class Registry(Protocol):
    """A registry of images. All methods raise `RegistryError`."""

    async def digest(self, repository: str, name: str) -> str | None:
        """The digest of a tag or digest; None if the registry has none."""

    async def manifest(self, repository: str, name: str) -> Manifest:
        """The manifest of a tag or digest, whose content has that digest."""

    async def download(self, repository: str, blob: Blob, to: Path) -> None:
        """Write a blob into a file, after what is there of it. The caller verifies the digest."""

    async def has(self, repository: str, blob: Blob) -> bool:
        """True if the registry has a blob."""

    async def upload(self, repository: str, blob: Blob, content: Path) -> None:
        """Add a blob."""

    async def put(self, repository: str, name: str, manifest: Manifest) -> None:
        """Add a manifest, whose parts are there, by a tag or its digest."""


@dataclass(frozen=True)
class Account:
    """An account of a registry."""

    name: str
    password: str

    @property
    def basic(self) -> str:
        """The header."""
        return f"Basic {base64.b64encode(f'{self.name}:{self.password}'.encode()).decode()}"


class HttpRegistry:
    """A registry over HTTP. `sleep` waits between attempts; `tell` gets what the user waits for, after `patience`
    seconds without an answer and before each further attempt.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        host: str,
        *,
        account: Account | None = None,
        is_plain: bool = False,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tell: Callable[[str], None] = lambda _text: None,
        patience: float = PATIENCE,
    ) -> None:
        self.host = host
        self._tell, self._patience = tell, patience
        self._session, self._account, self._sleep = session, account, sleep
        self._base = f"{'http' if is_plain else 'https'}://{host}"
        self._is_plain = is_plain
        self._tokens: dict[str, str] = {}
        self._is_away = False
        """True after all attempts to connect failed: further images need not wait as long."""
        self._failures = 0
        """Requests in a row that failed in all attempts."""

    async def digest(self, repository: str, name: str) -> str | None:
        """See `Registry`."""

        async def ask() -> str | None:
            headers = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
            async with self._answer("HEAD", repository, f"manifests/{name}", headers=headers, missing=True) as answer:
                if answer.status == 404:
                    return None
                named = answer.headers.get("docker-content-digest", "")
            return named or (await self.manifest(repository, name)).digest

        return await self._repeated(ask)

    async def manifest(self, repository: str, name: str) -> Manifest:
        """See `Registry`."""

        async def ask() -> Manifest:
            headers = {"Accept": ", ".join((*INDEXES, *MANIFESTS))}
            async with self._answer("GET", repository, f"manifests/{name}", headers=headers) as answer:
                content = await answer.content.read(LARGEST_MANIFEST + 1)
                while not answer.content.at_eof() and len(content) <= LARGEST_MANIFEST:
                    content += await answer.content.read(LARGEST_MANIFEST + 1 - len(content))
                media_type = answer.headers.get("content-type", "").partition(";")[0].strip()
            if len(content) > LARGEST_MANIFEST:
                raise RegistryError(f"{self._at(repository)}: the manifest of {name} has more than 4 MiB")
            manifest = Manifest(content, media_type)
            if ":" in name and manifest.digest != name:
                raise RegistryError(f"{self._at(repository)}: asked for {name}, got content of {manifest.digest}")
            return manifest

        return await self._repeated(ask)

    async def download(self, repository: str, blob: Blob, to: Path) -> None:
        """See `Registry`."""

        async def ask() -> None:
            begun = to.stat().st_size if to.exists() else 0
            if begun > blob.size:
                to.unlink()
                begun = 0
            if begun == blob.size and begun:
                return
            headers = {"Range": f"bytes={begun}-"} if begun else {}
            async with self._answer("GET", repository, f"blobs/{blob.digest}", headers=headers) as answer:
                written = begun if answer.status == 206 else 0
                has_end = answer.content_length is not None  # else a broken connection looks like the end
                with _written(to), _opened(to, "ab" if written else "wb") as file:
                    async for piece in answer.content.iter_chunked(_PIECE):
                        written += len(piece)
                        if written > blob.size:
                            break
                        file.write(piece)
            if written < blob.size and not has_end:
                raise aiohttp.ClientPayloadError(f"{written} of {blob.size} bytes came")
            if written != blob.size:
                to.unlink()
                size = str(written) if written < blob.size else f"more than {blob.size}"
                reason = f"has {size} bytes, not {blob.size} as its manifest says"
                raise RegistryError(f"{self._at(repository)}: {blob.digest} {reason}")

        await self._repeated(ask)

    async def has(self, repository: str, blob: Blob) -> bool:
        """See `Registry`."""

        async def ask() -> bool:
            async with self._answer("HEAD", repository, f"blobs/{blob.digest}", missing=True) as answer:
                return answer.status != 404

        return await self._repeated(ask)

    async def upload(self, repository: str, blob: Blob, content: Path) -> None:
        """See `Registry`."""

        async def ask() -> None:
            async with self._answer("POST", repository, "blobs/uploads/", writes=True) as answer:
                location = answer.headers.get("location", "")
            try:
                url = urljoin(f"{self._base}/", location)
                has_host = bool(location and URL(url, encoded=True).host)
            except ValueError:
                has_host = False
            if not has_host:
                raise RegistryError(f"{self._at(repository)}: no place to upload to (no Location); it is no registry")
            url += f"{'&' if urlsplit(url).query else '?'}digest={blob.digest}"
            headers = {"Content-Length": str(blob.size), "Content-Type": "application/octet-stream"}
            data = partial(_opened, content, "rb")  # each attempt has its own, which the library closes
            async with self._answer("PUT", repository, url, headers=headers, data=data, writes=True):
                pass

        await self._repeated(ask)

    async def put(self, repository: str, name: str, manifest: Manifest) -> None:
        """See `Registry`."""

        async def ask() -> None:
            headers = {"Content-Type": manifest.media_type}
            path, data = f"manifests/{name}", manifest.content
            async with self._answer("PUT", repository, path, headers=headers, data=data, writes=True):
                pass

        await self._repeated(ask)

    @asynccontextmanager
    async def _answer(
        self,
        method: str,
        repository: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        data: bytes | Callable[[], IO[bytes]] | None = None,
        missing: bool = False,
        writes: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The successful answer to a request; with `missing`, also 404. Logs in once if the registry asks for it."""
        url = path if "://" in path else f"{self._base}/v2/{repository}/{path}"
        scope = f"repository:{repository}:{'pull,push' if writes else 'pull'}"
        for is_second in (False, True):
            sent = dict(headers or {})
            if self._is_own(url) and (token := self._tokens.get(scope)):
                sent["Authorization"] = token
            body = data() if callable(data) else data
            # As it is written: storage signs the addresses of uploads.
            waiting = None
            if data is None:  # what is sent takes its time
                text = f"{self.host} has not answered for {self._patience:g} s; it has {SECONDS:g} s"
                waiting = asyncio.get_running_loop().call_later(self._patience, self._tell, text)
            request = self._session.request(method, URL(url, encoded=True), headers=sent, data=body)
            async with _ended(waiting), request as answer:
                if waiting is not None:
                    waiting.cancel()
                if answer.status == 401 and not is_second:
                    self._tokens[scope] = await self._log_in(answer.headers.get("www-authenticate", ""), scope)
                    continue
                if answer.status < 300 or (missing and answer.status == 404):
                    yield answer
                    return
                raise await self._refusal(answer, repository, writes=writes)

    def _is_own(self, url: str) -> bool:
        """True for addresses of the registry itself: an account is for nobody else."""
        return urlsplit(url)[:2] == urlsplit(self._base)[:2]

    async def _log_in(self, challenge: str, scope: str) -> str:
        """The header for further requests. Raises `RegistryError` without an account."""
        scheme, _, rest = challenge.partition(" ")
        if scheme.lower() == "basic":
            if self._account is None:
                raise RegistryError(f"{self.host} wants an account: {ACCOUNT}")
            return self._account.basic
        parts = {name.lower(): value for name, value in _CHALLENGE.findall(rest)}
        realm = parts.get("realm", "")
        if scheme.lower() != "bearer" or not realm.startswith("https://" if not self._is_plain else "http"):
            raise RegistryError(
                f"{self.host} wants a login that is not known: {challenge[:200] or 'it does not say which'}"
            )
        query = {"scope": scope} | ({"service": parts["service"]} if "service" in parts else {})
        headers = {"Authorization": self._account.basic} if self._account else {}
        async with self._session.get(realm, params=query, headers=headers) as answer:
            if answer.status in (401, 403):
                name = f"account {self._account.name}" if self._account else "no account"
                advice = CORRECTED if self._account else ACCOUNT
                raise RegistryError(f"{self.host} refuses {name} ({answer.status}) for {scope}: {advice}")
            if answer.status >= 300:
                raise await self._refusal(answer, scope, writes=False)
            try:
                tree = json_trees.decode(await answer.content.read(_PIECE))
                token = tree.get("token") or tree["access_token"]
            except (msgspec.MsgspecError, KeyError, AttributeError, TypeError):
                token = None
            if not isinstance(token, str) or not token.isascii() or not token.isprintable():
                raise RegistryError(f"{self.host}: the login at {realm} gave no token")
            return f"Bearer {token}"

    async def _refusal(
        self, answer: aiohttp.ClientResponse, repository: str, *, writes: bool
    ) -> RegistryError | _Again:
        body = (await answer.content.read(4096)).decode(errors="replace")
        try:
            error = json_trees.decode(body)["errors"][0]
            message = f"{error.get('code', '')} {error.get('message', '')}".strip()
        except (msgspec.MsgspecError, KeyError, IndexError, TypeError, AttributeError):
            message = " ".join(body.split())[:200]
        text = f"{self._at(repository)}: {answer.status} {message or answer.reason or ''}".rstrip()
        if answer.status in _AGAIN:
            after = answer.headers.get("retry-after", "")
            return _Again(text, float(after) if after.isascii() and after.isdigit() else None)
        if answer.status in (401, 403):
            text += f" (with {f'account {self._account.name}' if self._account else 'no account'}): "
            right = f"give the account the right to {'write' if writes else 'read'} there, or use another one"
            text += ACCOUNT if self._account is None else CORRECTED if answer.status == 401 else right
        return RegistryError(text)

    def _at(self, repository: str) -> str:
        return f"{self.host}/{repository}"

    def _misunderstanding(self, error: aiohttp.ClientResponseError | aiohttp.ClientConnectorSSLError) -> str:
        """The reason for an answer that is none of HTTP, or of TLS."""
        match error:
            case aiohttp.ClientHttpProxyError():
                return f"its proxy answers {error.status} {quoted(error.message, 200)}"
            case aiohttp.ClientConnectorSSLError():
                return (
                    f"does not serve TLS ({_reason(error)}): speak http with the registry of --registry by --insecure"
                )
            case _ if self._is_plain:
                return "does not speak http: it may serve TLS, so leave out --insecure"
            case _:
                return f"does not speak HTTP ({quoted(error.message, 200)}); it is no registry"

    async def _repeated(self, ask: Callable[[], Awaitable[A]]) -> A:
        """Repeat what fails for a while; nothing is asked any more when several requests in a row failed so."""
        if self._failures >= LOST:
            raise GivenUp(
                f"{self.host} is not asked any more: {counted(LOST, 'request')} in a row failed in all attempts"
            )
        pause, attempts = 1.0, 1 if self._is_away else ATTEMPTS
        attempt = 0
        while True:
            attempt, after = attempt + 1, None
            try:
                answer = await ask()
                self._is_away, self._failures = False, 0
                return answer
            except RegistryError:  # an answer, too
                self._is_away, self._failures = False, 0
                raise
            except _Again as error:
                problem, after = str(error), error.after
            except _REDIRECTED as error:  # it would be the same again
                raise RegistryError(f"{self.host}: {_redirected(error)}") from None
            except aiohttp.ClientConnectorCertificateError as error:  # this, too
                raise Unanswered(f"{self.host}: {_reason(error)}") from None
            except aiohttp.ClientConnectorSSLError as error:  # and this
                raise Unanswered(f"{self.host}: {self._misunderstanding(error)}") from None
            except aiohttp.ClientResponseError as error:
                problem = f"{self.host}: {self._misunderstanding(error)}"
            except (aiohttp.ClientError, TimeoutError) as error:
                problem = f"{self.host}: {_reason(error)}"
                if isinstance(error, TimeoutError):  # a minute has passed already
                    attempts = min(attempts, ATTEMPTS_IN_SILENCE)
                self._is_away = attempt >= attempts and isinstance(error, aiohttp.ClientConnectorError | TimeoutError)
            if attempt >= attempts or self._failures >= LOST:
                break
            wait = min(max(pause, after or 0.0), _LONGEST_PAUSE)
            self._tell(f"{problem}; attempt {attempt + 1} of {attempts} in {wait:g} s")
            await self._sleep(wait)
            pause *= 2
        self._failures += 1
        raise Unanswered(f"{problem} ({counted(attempt, 'attempt')})")


ACCOUNT = "set REGISTRY_USERNAME and REGISTRY_PASSWORD, or log in with docker"
CORRECTED = "correct REGISTRY_USERNAME and REGISTRY_PASSWORD, or log in with docker again"


class _Again(Exception):
    """A refusal that ends by itself, perhaps after these seconds."""

    def __init__(self, message: str, after: float | None) -> None:
        super().__init__(message)
        self.after = after


def _opened(path: Path, mode: str) -> IO[bytes]:
    file: IO[bytes] = open(path, mode)  # noqa: SIM115  the caller closes it
    return file


@asynccontextmanager
async def _ended(timer: asyncio.TimerHandle | None) -> AsyncIterator[None]:
    """Cancel a timer at the end of the block."""
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Add the file to an `OSError` of a write; errors of the connection that is read from stay as they are."""
    try:
        yield
    except (aiohttp.ClientError, TimeoutError):
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def _redirected(error: aiohttp.ClientError) -> str:
    place = "in a circle" if isinstance(error, aiohttp.TooManyRedirects) else f"to {quoted(str(error), 200)}"
    what = "" if isinstance(error, aiohttp.TooManyRedirects) else ", which is no address"
    return f"redirects {place}{what}: mend it, or a proxy before it"


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"no byte within {SECONDS:g} s"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted ({error.certificate_error}): give its authority with --ca-file"
    if isinstance(error, aiohttp.ClientConnectorError):
        return channel.reason(error.os_error)
    return str(error) or type(error).__name__
