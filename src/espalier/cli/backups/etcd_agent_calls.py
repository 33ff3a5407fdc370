"""Requests to the etcd agents of a seed, at their Services."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import lru_cache

import aiohttp

from espalier.api.gardener import names
from espalier.kube.connection.tls import CertificateError, client_context
from espalier.kube.errors import Unreachable
from espalier.shoots.gardenlet.context import Call
from espalier.shoots.secrets import peers
from espalier.shoots.secrets.persisted import Data

TIMEOUT = 15.0
LARGEST_ANSWER = 1 << 20


@asynccontextmanager
async def over_http() -> AsyncIterator[Call]:
    """Requests over HTTP, from within the seed. They raise `Unreachable`, also for invalid responses."""
    async with session() as http:

        async def call(namespace: str, path: str, body: bytes, files: Data | None) -> bytes:
            host = f"{names.AGENT_SERVICE}.{namespace}.svc"
            return await posted(http, f"{host}:{names.AGENT_PORT}/{path}", body, files)

        yield call


def session() -> aiohttp.ClientSession:
    """The clients that send the requests; must be closed."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT))


async def posted(
    http: aiohttp.ClientSession, place: str, body: bytes, files: Data | None = None, *, server_name: str | None = None
) -> bytes:
    """The response of an agent, at a host, port and path. With `files` of its members' Secret, both show certificates;
    its own is for `server_name` if that is not its host. Raises `Unreachable`, also for an invalid response."""
    url = f"http://{place}" if files is None else f"https://{place}"
    context = _context(files)
    try:
        async with http.post(
            url, data=body, allow_redirects=False, ssl=context, server_hostname=server_name if files else None
        ) as response:
            answer = await response.content.read(LARGEST_ANSWER + 1)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable(f"{url}: {error or 'no answer in time'}") from error
    if response.status != 200 or len(answer) > LARGEST_ANSWER:
        text = answer[:200].decode(errors="replace")
        raise Unreachable(f"{url}: {response.status} {text}")
    return answer


def _context(files: Data | None) -> ssl.SSLContext | bool:
    """The TLS context of a call; True without TLS. Raises `Unreachable` for a Secret that can't be used."""
    if files is None:
        return True
    try:
        return _context_of(*(files[name] for name in (peers.TRUSTED, peers.CERTIFICATE, peers.KEY)))
    except (KeyError, CertificateError) as error:
        raise Unreachable(f"the Secret of etcd's members can't be used: {error}", sent=False) from error


@lru_cache(maxsize=64)
def _context_of(trusted: bytes, certificate: bytes, key: bytes) -> ssl.SSLContext:
    return client_context(trusted, certificate=certificate, key=key)
