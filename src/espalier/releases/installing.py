"""Bringing releases to a management cluster. What is there is never overwritten: facts of a release don't change."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists


async def install(client: Client, objects: Sequence[KubeObject]) -> list[KubeObject]:
    """Create those that are not there yet, in this order, and return these."""
    created = []
    for object_ in objects:
        try:
            await client.create(object_.resource, object_)
        except AlreadyExists:
            continue
        created.append(object_)
    return created
