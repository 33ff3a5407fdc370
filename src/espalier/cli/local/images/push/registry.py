"""The protocol of OCI's registries, as far as a push needs it: blobs, manifests, tokens."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import IO, TypeVar

import aiohttp
import msgspec
from yarl import URL

from espalier.api.text.printable import quoted
from espalier.api.trees.json_trees import decode
from espalier.cli.kit.connecting.registry_credentials import Credentials
from espalier.cli.local.images.layout import INDEX
from espalier.cli.local.images.push.archive import PIECE, Blob
from espalier.cli.local.images.push.reference import Reference
from espalier.kube.connection.proxies import proxy_for
from espalier.kube.transports import channel

Result = TypeVar("Result")

SILENCE = 60.0
"""Seconds without a byte after which a request fails."""
PAUSES = (1.0, 4.0, 10.0)
"""Seconds between attempts."""
LONGEST_PAUSE = 60.0
LARGEST_ANSWER = 4 * 2**20
CHALLENGE = re.compile(r'([a-zA-Z]+)="([^"]*)"')
AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Answers that may be others a moment later."""
MESSAGE = 300
"""Characters of a registry's words that are shown."""


class PushFailed(Exception):
    """A registry did not take what was pushed. The message says which, at what, and what to do."""


class TagInDoubt(PushFailed):
    """A push failed when its tag may have been set already."""


class _Again(Exception):
    """An attempt failed in a way that may pass."""

    def __init__(self, message: str, pause: float = 0.0) -> None:
        super().__init__(message)
        self.pause = pause


class _Token(msgspec.Struct):
    token: str = ""
    access_token: str = ""


class _Error(msgspec.Struct):
    code: str = ""
    message: str = ""


class _Errors(msgspec.Struct):
    errors: list[_Error] = []


@dataclass(frozen=True)
class Answer:
    """An answer that was read."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class Registry:
    """One repository of a registry. Its methods raise `PushFailed`."""

    reference: Reference
    credentials: Credentials = field(repr=False)
    session: aiohttp.ClientSession
    plain_http: bool = False
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _authorization: str = field(default="", repr=False)

    @property
    def _base(self) -> URL:
        scheme = "http" if self.plain_http else "https"
        return URL(f"{scheme}://{self.reference.host}/v2/{self.reference.repository}")

    async def has_blob(self, digest: str) -> bool:
        """True if the repository has a blob."""
        answer = await self._request("HEAD", self._base / "blobs" / digest, f"look for {digest}", allowed=(200, 404))
        return answer.status == 200

    async def upload(self, blob: Blob, content: IO[bytes]) -> None:
        """Store a blob; the registry verifies its digest. An upload that breaks off begins anew."""
        what = f"store the blob {blob.digest}"

        async def attempt() -> None:
            begun = await self._once("POST", self._base / "blobs" / "uploads" / "", what, allowed=(202,))
            content.seek(0)
            headers = {"Content-Type": "application/octet-stream", "Content-Length": str(blob.size)}
            place = self._location(begun, blob.digest, what)
            stored = await self._once("PUT", place, what, allowed=(201,), headers=headers, body=content)
            self._same_digest(stored, blob.digest, what)

        await self._attempts(attempt)

    async def put_manifest(self, content: bytes, media_type: str, name: str, digest: str) -> bool:
        """Store a manifest under a digest or tag. True if the registry itself lists statements."""
        what = f"store the manifest {name}"
        answer = await self._request(
            "PUT",
            self._base / "manifests" / name,
            what,
            allowed=(201,),
            headers={"Content-Type": media_type, "Content-Length": str(len(content))},
            body=content,
        )
        self._same_digest(answer, digest, what)
        return "OCI-Subject" in answer.headers

    async def digest_of(self, name: str) -> str:
        """The digest of a tag's manifest; empty if there is no such tag, or the registry does not say."""
        headers = {"Accept": f"{INDEX}, application/vnd.oci.image.manifest.v1+json"}
        place = self._base / "manifests" / name
        answer = await self._request("HEAD", place, f"look for {name}", allowed=(200, 404), headers=headers)
        return answer.headers.get("Docker-Content-Digest", "") if answer.status == 200 else ""

    async def manifest(self, name: str) -> bytes | None:
        """The content of a tag's manifest; None if there is no such tag."""
        place = self._base / "manifests" / name
        answer = await self._request("GET", place, f"read {name}", allowed=(200, 404), headers={"Accept": INDEX})
        return answer.body if answer.status == 200 else None

    async def _request(
        self,
        method: str,
        url: URL,
        what: str,
        *,
        allowed: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Answer:
        return await self._attempts(lambda: self._once(method, url, what, allowed=allowed, headers=headers, body=body))

    async def _attempts(self, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """The result of an attempt, of which failures that may pass are repeated."""
        for pause in PAUSES:
            try:
                return await attempt()
            except _Again as failure:
                await self.sleep(min(max(pause, failure.pause), LONGEST_PAUSE))
        try:
            return await attempt()
        except _Again as failure:
            raise PushFailed(f"{failure} (tried {len(PAUSES) + 1} times)") from None

    async def _once(
        self,
        method: str,
        url: URL,
        what: str,
        *,
        allowed: tuple[int, ...],
        headers: Mapping[str, str] | None = None,
        body: bytes | IO[bytes] | None = None,
    ) -> Answer:
        """The answer to a request; credentials are shown if it is refused without them. Raises `_Again` too."""
        answer = await self._sent(method, url, what, headers, body)
        if answer.status == 401 and (challenge := answer.headers.get("WWW-Authenticate", "")):
            self._authorization = await self._authorized(challenge)
            if not isinstance(body, (bytes, type(None))):
                body.seek(0)
            answer = await self._sent(method, url, what, headers, body)
        if answer.status in allowed:
            return answer
        message = f"{self.reference.host} refused to {what}: {self._reason(answer)}"
        if answer.status in AGAIN:
            raise _Again(message, _seconds(answer.headers.get("Retry-After", "")))
        raise PushFailed(f"{message}; {self._advice(answer.status)}")

    async def _sent(
        self, method: str, url: URL, what: str, headers: Mapping[str, str] | None, body: bytes | IO[bytes] | None
    ) -> Answer:
        shown = {"Authorization": self._authorization} if self._authorization and self._is_own(url) else {}
        return await self._asked(method, url, what, headers={**(headers or {}), **shown}, data=body)

    async def _asked(
        self,
        method: str,
        url: URL,
        what: str,
        *,
        headers: Mapping[str, str],
        data: bytes | IO[bytes] | Mapping[str, str] | None = None,
        redirects: bool = True,
    ) -> Answer:
        """The answer to a request; failures of its connection in words."""
        host = url.host or self.reference.host
        try:
            # A limit of silence rather than of time: what is sent is large, and may be slow.
            async with asyncio.timeout(SILENCE) as limit:
                streamed = data if isinstance(data, (bytes, Mapping, type(None))) else _pieces(data, limit)
                async with self.session.request(
                    method,
                    url,
                    data=streamed,
                    headers=headers,
                    proxy=proxy_for(str(url), os.environ),
                    allow_redirects=redirects and method in ("GET", "HEAD"),
                ) as response:
                    return Answer(response.status, response.headers, await _read(response))
        except aiohttp.ClientConnectorCertificateError as error:
            raise PushFailed(
                f"{host} has a certificate that is not trusted here ({error.certificate_error}): let SSL_CERT_FILE name"
                " its authority's"
            ) from None
        except aiohttp.ClientConnectorSSLError as error:
            raise PushFailed(
                f"{host} does not serve TLS ({error.os_error}): for one without, there is --plain-http"
            ) from None
        except aiohttp.TooManyRedirects:
            raise PushFailed(
                f"{host} redirects in a circle when asked to {what}: mend it, or a proxy before it"
            ) from None
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            place = quoted(str(error), MESSAGE)
            raise PushFailed(
                f"{host} redirects to {place}, which is no address: mend it, or a proxy before it"
            ) from None
        except aiohttp.ClientHttpProxyError as error:
            raise _Again(f"the proxy before {host} answers {error.status} when asked to {what}") from None
        except aiohttp.ClientResponseError as error:
            advice = "it may serve TLS, so leave out --plain-http" if url.scheme == "http" else "it is no registry"
            raise _Again(f"{host} does not speak HTTP ({quoted(error.message, MESSAGE)}): {advice}") from None
        except aiohttp.ClientConnectorError as error:
            reason = channel.reason(error.os_error)
            raise _Again(f"{host} could not be asked to {what}: {quoted(reason, MESSAGE)}") from None
        except TimeoutError:
            raise _Again(f"{host} sent nothing for {SILENCE:.0f} s when asked to {what}") from None
        except (aiohttp.ClientError, OSError) as error:
            reason = quoted(str(error) or type(error).__name__, MESSAGE)
            raise _Again(f"{host} could not be asked to {what}: {reason}") from None

    async def _authorized(self, challenge: str) -> str:
        """The header that answers a challenge."""
        host = self.reference.host
        scheme = challenge.partition(" ")[0].lower()
        if scheme == "basic":
            if self.credentials.basic:
                return self.credentials.basic
            raise PushFailed(
                f"{host} wants a user and password, and there are none for it: log in with `docker login {host}`"
            )
        facts = dict(CHALLENGE.findall(challenge))
        try:
            realm = URL(facts.get("realm", ""))
        except ValueError:
            realm = URL()
        if scheme != "bearer" or realm.scheme not in ("https", "http") or not realm.host:
            raise PushFailed(
                f"{host} wants authentication of an unknown kind ({quoted(challenge, MESSAGE)}); known: Basic, Bearer"
            )
        return f"Bearer {await self._token(realm, facts)}"

    async def _token(self, realm: URL, facts: Mapping[str, str]) -> str:
        secret = bool(self.credentials.basic or self.credentials.identity_token)
        if secret and realm.scheme != "https" and not self.plain_http:
            raise PushFailed(
                f"{self.reference.host} wants credentials sent without TLS, to {realm.origin()}: they were not sent"
            )
        scope = f"repository:{self.reference.repository}:pull,push"
        query = {"scope": scope} | ({"service": facts["service"]} if "service" in facts else {})
        what = "give a token"
        if self.credentials.identity_token:
            form = {**query, "grant_type": "refresh_token", "refresh_token": self.credentials.identity_token}
            form["client_id"] = "espalier"
            answer = await self._asked("POST", realm, what, headers={}, data=form, redirects=False)
        else:
            basic = {"Authorization": self.credentials.basic} if self.credentials.basic else {}
            answer = await self._asked("GET", realm.update_query(query), what, headers=basic, redirects=False)
        message = f"{realm.origin()} refused a token for {self.reference.host}: {self._reason(answer)}"
        if answer.status in AGAIN:
            raise _Again(message, _seconds(answer.headers.get("Retry-After", "")))
        if answer.status != 200:
            raise PushFailed(f"{message}; {self._advice(answer.status)}")
        try:
            given = decode(answer.body, _Token)
        except msgspec.MsgspecError:
            raise PushFailed(f"{realm.origin()} answered with something else than a token") from None
        token = given.token or given.access_token
        if not token or not token.isascii() or not token.isprintable():
            raise PushFailed(f"{realm.origin()} answered without a token")
        return token

    def _location(self, answer: Answer, digest: str, what: str) -> URL:
        """Where an upload goes on."""
        try:
            location = answer.headers.get("Location", "")
            query = f"{'&' if '?' in location else '?'}digest={digest.replace(':', '%3A')}"
            place = self._base.join(URL(f"{location}{query}", encoded=True))
        except ValueError:
            place = URL()
        if "Location" not in answer.headers or place.scheme not in ("https", "http"):
            raise PushFailed(
                f"{self.reference.host} did not say where to {what}: it is no registry of OCI, or behind a proxy"
            )
        if place.scheme == "http" and not self.plain_http:
            raise PushFailed(f"{self.reference.host} wants uploads without TLS, to {place.origin()}: nothing was sent")
        return place

    def _is_own(self, url: URL) -> bool:
        return url.origin() == self._base.origin()

    def _same_digest(self, answer: Answer, digest: str, what: str) -> None:
        other = answer.headers.get("Docker-Content-Digest", digest)
        if other != digest:
            raise PushFailed(f"{self.reference.host} was asked to {what} and has {quoted(other, MESSAGE)}: push again")

    def _reason(self, answer: Answer) -> str:
        try:
            words = "; ".join(error.message or error.code for error in decode(answer.body, _Errors).errors)
        except msgspec.MsgspecError:
            words = ""
        return f"{answer.status}{f' ({quoted(words, MESSAGE)})' if words else ''}"

    def _advice(self, status: int) -> str:
        source = self.credentials.source
        if status in (401, 403):
            return (
                f"the credentials are those of {source}: log in again, or ask for the right to push to"
                f" {self.reference.repository}"
                if source
                else f"there are no credentials for it: log in with `docker login {self.reference.registry}`"
            )
        if status == 404:
            return f"create the repository {self.reference.repository} first, if this registry does not do so itself"
        if status == 413:
            return "it, or a proxy before it, limits sizes: raise its limit"
        return "see its log"


async def _pieces(content: IO[bytes], limit: asyncio.Timeout) -> AsyncIterator[bytes]:
    """The content piece by piece; each that was taken puts the limit off."""
    while piece := content.read(PIECE):
        yield piece
        limit.reschedule(asyncio.get_running_loop().time() + SILENCE)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    """An answer's body; a longer one is cut."""
    body = b""
    while len(body) < LARGEST_ANSWER and (piece := await response.content.read(LARGEST_ANSWER - len(body))):
        body += piece
    return body


def _seconds(text: str) -> float:
    return float(text) if re.fullmatch(r"[0-9]{1,6}", text) else 0.0
