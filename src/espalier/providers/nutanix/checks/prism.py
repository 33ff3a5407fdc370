"""Answers from a Prism Central over the network: its REST API, version 3.

Tenants name the Prism Central, so it is not trusted: its answers are limited in size, number and time, and nothing is
sent before its certificate is verified.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import aiohttp
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from espalier.api.trees import json_trees
from espalier.clusters.report.checks.hosts import Address, Resolve, brief, resolved
from espalier.clusters.report.checks.limits import CONNECT, LARGEST, LONGEST, Received
from espalier.clusters.report.checks.questions import (
    LOGIN_REFUSED,
    NOT_VERIFIED,
    UNEXPECTED,
    UNREACHABLE,
    Credentials,
    LookUpError,
)
from espalier.kube.connection.tls import trust
from espalier.providers.nutanix.checks.questions import (
    Answers,
    CategoryValue,
    Entity,
    GpuModel,
    ObjectType,
    Query,
    Question,
    Server,
)

PAGE = 500
MOST_ENTITIES = 20_000
"""The maximum entities of a kind to search."""

_API = "/api/nutanix/v3"
_NO_PATH = frozenset({".", ".."})
"""Names with a special meaning in paths; no category has them."""
_ELEMENT = "AOS"
"""The service of Prism Element clusters; that of Prism Central itself is another."""

T = TypeVar("T")


class _Reference(msgspec.Struct):
    uuid: str = ""


class _Metadata(msgspec.Struct):
    uuid: str = ""


class _Gpu(msgspec.Struct):
    name: str = ""
    device_id: int = -1
    mode: str = ""


class _Config(msgspec.Struct):
    service_list: list[str] | None = None


class _Resources(msgspec.Struct):
    gpu_list: list[_Gpu] | None = None
    config: _Config | None = None


class _Status(msgspec.Struct):
    name: str = ""
    cluster_reference: _Reference | None = None
    resources: _Resources | None = None


class _Spec(msgspec.Struct):
    name: str = ""


class _Entity(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)
    spec: _Spec = msgspec.field(default_factory=_Spec)
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)

    @property
    def cluster(self) -> str:
        """UUID of its cluster; empty without a cluster."""
        return self.status.cluster_reference.uuid if self.status.cluster_reference is not None else ""

    @property
    def is_element(self) -> bool:
        """False for Prism Central itself, which is listed as a cluster without machines."""
        config = self.status.resources.config if self.status.resources is not None else None
        services = config.service_list if config is not None else None
        return not services or _ELEMENT in services


class _Page(msgspec.Struct):
    entities: list[_Entity] = []


class PrismCentrals:
    """Sessions with Prism Centrals."""

    def __init__(self, resolve: Resolve = resolved) -> None:
        self._resolve = resolve

    async def __call__(self, query: Query, credentials: Credentials, /) -> Answers:
        """Ask all questions in one session."""
        host = query.server.host
        if not credentials.username or ":" in credentials.username:
            message = "the Secret has no valid user name for Prism Central; correct it"
            raise LookUpError(LOGIN_REFUSED, message, refused=True)
        try:
            async with asyncio.timeout(LONGEST), _Session(query.server, credentials, self._resolve) as session:
                return await _Prism(session, query.server, credentials).answers(query)
        except TimeoutError as error:
            message = f"{host} timed out: no response within {CONNECT:g} s, or more than {LONGEST:g} s in total"
            raise LookUpError(UNREACHABLE, message) from error
        except aiohttp.ClientConnectorCertificateError as error:
            reason = getattr(error.certificate_error, "verify_message", "") or brief(error.certificate_error)
            message = f"the certificate of {host} can't be verified: {reason}; {_HOW_TO_VERIFY}"
            raise LookUpError(NOT_VERIFIED, message) from error
        except (OSError, ValueError, aiohttp.ClientError) as error:
            raise LookUpError(UNREACHABLE, f"{host} can't be reached: {brief(error)}") from error


class _Session:
    """An HTTP session with one server, at its checked addresses."""

    def __init__(self, server: Server, credentials: Credentials, resolve: Resolve) -> None:
        self._server = server
        account = f"{credentials.username}:{credentials.password}"
        self._account = f"Basic {base64.b64encode(account.encode()).decode()}"
        self._resolve = resolve
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> aiohttp.ClientSession:
        address = URL(f"https://{self._server.host}")
        try:
            context = await asyncio.to_thread(_tls, self._server)
        except ssl.SSLError as error:
            message = f"spec.additionalTrustBundle can't be read: {brief(error)}"
            raise LookUpError(NOT_VERIFIED, message) from error
        addresses = await asyncio.to_thread(self._resolve, address.host or "", address.port or 443)
        connector = aiohttp.TCPConnector(
            ssl=context, resolver=_CheckedAddresses(addresses), use_dns_cache=False, limit=1
        )
        self._session = aiohttp.ClientSession(
            address,
            connector=connector,
            auto_decompress=False,  # what is read is counted
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={"Authorization": self._account, "Accept": "application/json", "Accept-Encoding": "identity"},
            timeout=aiohttp.ClientTimeout(total=None, connect=CONNECT, sock_connect=CONNECT, sock_read=CONNECT),
        )
        return self._session

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()


class _CheckedAddresses(AbstractResolver):
    """A resolver that returns only addresses found before."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses, in the format of aiohttp."""
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=at,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address, at in self._addresses
        ]

    async def close(self) -> None:
        """Nothing to close."""


def _tls(server: Server) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if server.authorities:
        trust(context, server.authorities)
    if server.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class _Prism:
    """The API in one session."""

    def __init__(self, session: aiohttp.ClientSession, server: Server, credentials: Credentials) -> None:
        self._session = session
        self._host = server.host
        self._user = credentials.username
        self._received = Received(server.host, LARGEST)

    async def answers(self, query: Query) -> Answers:
        """Ask all questions. Raises `LookUpError`."""
        await self._get("users/me", "the account")  # also without questions: it verifies the account
        entities: dict[Question, tuple[Entity, ...]] = {}
        for object_type in ObjectType:
            questions = [question for question in query.questions if question.object_type is object_type]
            if questions:
                entities |= _matching(questions, await self._list_all(object_type.collection, object_type.label))
        categories = [category for category in sorted(query.categories) if await self._category_exists(category)]
        gpus = _gpus(await self._list_all("hosts", "host")) if query.gpus else None
        return Answers(entities=entities, categories=frozenset(categories), gpus=gpus)

    async def _list_all(self, collection: str, label: str) -> list[_Entity]:
        entities: list[_Entity] = []
        while True:
            body = {"kind": label, "length": PAGE, "offset": len(entities)}
            content = await self._request("POST", f"{_API}/{collection}/list", f"list {collection}", body)
            page = self._decoded(content or b"", _Page).entities
            entities += page
            if len(page) < PAGE:
                return entities
            if len(entities) >= MOST_ENTITIES:
                message = f"{self._host} has more than {MOST_ENTITIES} {collection}, the most that can be searched"
                raise LookUpError(UNEXPECTED, message)

    async def _category_exists(self, category: CategoryValue) -> bool:
        if _NO_PATH.intersection(category):
            return False
        path = "/".join(quote(part, safe="") for part in category)
        return await self._get(f"categories/{path}", "categories") is not None

    async def _get(self, path: str, subject: str) -> bytes | None:
        return await self._request("GET", f"{_API}/{path}", f"read {subject}")

    async def _request(
        self, method: str, path: str, purpose: str, body: Mapping[str, Any] | None = None
    ) -> bytes | None:
        """The content of a response; None for a GET with status 404."""
        url = URL(path, encoded=True)
        async with self._session.request(method, url, json=body, allow_redirects=False) as response:
            if response.status == 401:
                message = f"{self._user} can't log in; correct the Secret with the credentials"
                raise LookUpError(LOGIN_REFUSED, message, refused=True)
            if response.status == 403:
                message = f"{self._user} is not allowed to {purpose} on {self._host}; grant it a role like Prism Viewer"
                raise LookUpError(UNEXPECTED, message)
            if response.status == 404 and method == "GET":
                return None
            content = await self._read(response)
            if response.status != 200:
                message = f"{self._host} answered {response.status} to a request to {purpose}: {_error_text(content)}"
                raise LookUpError(UNEXPECTED, message)
            return content

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        parts: list[bytes] = []
        async for part in response.content.iter_chunked(1 << 16):
            self._received.add(len(part))
            parts.append(part)
        return b"".join(parts)

    def _decoded(self, content: bytes, type_: type[T]) -> T:
        try:
            return json_trees.decode(content, type_)
        except msgspec.MsgspecError as error:
            message = f"{self._host} did not return a valid Prism Central response ({brief(error)})"
            raise LookUpError(UNEXPECTED, message) from error


def _matching(
    questions: Iterable[Question], listed: Sequence[_Entity]
) -> Iterator[tuple[Question, tuple[Entity, ...]]]:
    entities = [
        Entity(entity.metadata.uuid, entity.status.name or entity.spec.name, entity.cluster)
        for entity in listed
        if entity.is_element
    ]
    return ((question, tuple(entity for entity in entities if question.matches(entity))) for question in questions)


def _gpus(hosts: Iterable[_Entity]) -> tuple[GpuModel, ...]:
    counted = Counter(
        (host.cluster, gpu.name, gpu.device_id, gpu.mode)
        for host in hosts
        if host.status.resources is not None
        for gpu in host.status.resources.gpu_list or ()
    )
    return tuple(GpuModel(*model, count) for model, count in sorted(counted.items()))


def _error_text(content: bytes) -> str:
    return brief(content[:1000].decode("utf-8", "replace"))


_HOW_TO_VERIFY = "add the certificate of its authority to spec.additionalTrustBundle, or correct the endpoint"
