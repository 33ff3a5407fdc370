"""Bringing releases to a management cluster. What is there is never overwritten: facts of a release don't change."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists

_log = structlog.get_logger("espalier.releases")


async def install(client: Client, objects: Sequence[KubeObject]) -> list[KubeObject]:
    """Create those that are not there yet, in this order; returns those that were there, with whatever content."""
    there = []
    for object_ in objects:
        try:
            await client.create(object_.resource, object_)
        except AlreadyExists:
            there.append(object_)
        else:
            _log.info("installed", kind=object_.kind, name=object_.metadata.name)
    return there
