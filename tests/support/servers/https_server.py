"""An HTTPS server of a test: answers with a handler, knows clients by certificate."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache

from aiohttp import web

from espalier.kube.connection.access import Access
from espalier.kube.connection.pki import Authority, KeyPair
from tests.support.servers.web_server import tls, web_server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@cache
def authority() -> Authority:
    return Authority.create("kubernetes", now=datetime.now(UTC))


def client_pair(name: str, *groups: str) -> KeyPair:
    return authority().issue_client(name, groups=groups, now=datetime.now(UTC))


@cache
def serving_context(name: str = "127.0.0.1") -> ssl.SSLContext:
    pair = authority().issue_server("kube-apiserver", names=[name], now=datetime.now(UTC))
    context = tls(pair.certificate, pair.key)
    context.load_verify_locations(cadata=authority().certificate.decode())
    context.verify_mode = ssl.CERT_OPTIONAL
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


@dataclass
class Served:
    url: str

    def access(self, **options: object) -> Access:
        return Access(server=self.url, certificate_authority=authority().certificate, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def serve(handler: Handler, *, name: str = "127.0.0.1", tls: bool = True) -> AsyncIterator[Served]:
    async with web_server(handler, serving_context(name) if tls else None) as port:
        yield Served(f"{'https' if tls else 'http'}://127.0.0.1:{port}")


def user_of(request: web.Request) -> str:
    """The common name of the client's certificate, or its bearer token."""
    certificate = request.get_extra_info("peercert")
    if certificate:
        return str(dict(pair[0] for pair in certificate["subject"])["commonName"])
    return request.headers.get("authorization", "")
