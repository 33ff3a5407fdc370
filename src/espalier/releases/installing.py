"""Bringing releases to a management cluster. What is there is never overwritten: facts of a release don't change."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists
from espalier.kube.objects import Object


async def install(client: Client, objects: Sequence[KubeObject]) -> list[Object]:
    """Create those that are not there yet, in this order, and return these as they are stored."""
    created = []
    for object_ in objects:
        with suppress(AlreadyExists):
            created.append(await client.create(object_.resource, object_))
    return created
