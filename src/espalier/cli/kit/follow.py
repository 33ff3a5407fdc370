"""The states of one object, by watch and never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import Expired, Unreachable
from espalier.kube.objects import Object

AWAY_SECONDS = 60.0
"""The time for which an API server may not answer after its watch broke, as while its own machine is replaced."""
_PAUSE = 1.0


async def follow(client: Client, resource: Resource, key: Key) -> AsyncGenerator[Object | None, None]:
    """Each state of one object, starting with the current one; None while it does not exist. Never ends by itself.

    Raises `KubeError`, and `Unreachable` only if the API server does not answer at first, or is away for long.
    """
    fields, loop = f"metadata.name={key.name}", asyncio.get_running_loop()
    answered: float | None = None
    while True:
        try:
            listed = await client.list(resource, key.namespace or None, fields=fields)
        except Unreachable:
            if answered is None or loop.time() - answered > AWAY_SECONDS:
                raise
            await asyncio.sleep(_PAUSE)
            continue
        yield listed.items[0] if listed.items else None
        version, began = listed.resource_version, loop.time()
        try:
            while True:
                began = loop.time()
                async for event in client.watch(
                    resource, key.namespace or None, resource_version=version, fields=fields
                ):
                    version = event.object.resource_version or version
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
                await pause(began)
        except (Expired, Unreachable):
            answered = loop.time()
            await pause(began)


async def pause(began: float) -> None:
    """Wait after a watch that ended, until a second after it `began` (by the loop's clock): one that a proxy ends at
    once would be started again and again.
    """
    await asyncio.sleep(max(0.0, began + _PAUSE - asyncio.get_running_loop().time()))
