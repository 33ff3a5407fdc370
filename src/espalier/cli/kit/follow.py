"""The states of one object, by watch and never by polling."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import Expired
from espalier.kube.objects import Object


async def follow(client: Client, resource: Resource, key: Key) -> AsyncGenerator[Object | None, None]:
    """Each state of one object, starting with the current one; None while it does not exist. Never ends by itself."""
    fields = f"metadata.name={key.name}"
    while True:
        listed = await client.list(resource, key.namespace or None, fields=fields)
        yield listed.items[0] if listed.items else None
        version = listed.resource_version
        try:
            while True:
                async for event in client.watch(
                    resource, key.namespace or None, resource_version=version, fields=fields
                ):
                    version = event.object.resource_version or version
                    if event.type != "BOOKMARK":
                        yield None if event.type == "DELETED" else event.object
        except Expired:
            continue
