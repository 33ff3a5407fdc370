"""Requests to the etcd agents of a seed, at their Services."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp

from espalier.api.gardener import names
from espalier.kube.errors import Unreachable
from espalier.shoots.gardenlet.context import Call

TIMEOUT = 15.0
LARGEST_ANSWER = 1 << 20


@asynccontextmanager
async def over_http() -> AsyncIterator[Call]:
    """Requests over HTTP, from within the seed. They raise `Unreachable`, also for invalid responses."""
    async with session() as http:

        async def call(namespace: str, path: str, body: bytes) -> bytes:
            return await posted(http, f"http://{names.AGENT_SERVICE}.{namespace}.svc:{names.AGENT_PORT}/{path}", body)

        yield call


def session() -> aiohttp.ClientSession:
    """The clients that send the requests; must be closed."""
    return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=TIMEOUT))


async def posted(http: aiohttp.ClientSession, url: str, body: bytes) -> bytes:
    """The response of an agent. Raises `Unreachable`, also for an invalid response."""
    try:
        async with http.post(url, data=body, allow_redirects=False) as response:
            answer = await response.content.read(LARGEST_ANSWER + 1)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unreachable(f"{url}: {error or 'no answer in time'}") from error
    if response.status != 200 or len(answer) > LARGEST_ANSWER:
        text = answer[:200].decode(errors="replace")
        raise Unreachable(f"{url}: {response.status} {text}")
    return answer
