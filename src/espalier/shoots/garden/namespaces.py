"""Namespaces of the garden that belong to no project: they are created when its controllers start."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import structlog

from espalier.api.core import NAMESPACE
from espalier.api.gardener import names
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists, KubeError, NotFound

NAMESPACES = (names.SEED_LEASES, names.STATE_NAMESPACE, names.GARDEN_NAMESPACE)
AGAIN = 5.0
"""Seconds until a retry."""

_log = structlog.get_logger("espalier.garden")


class Namespaces:
    """Creates the namespaces that are missing, once."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def run(self) -> None:
        """Return when all exist."""
        missing = list(NAMESPACES)
        while missing:
            try:
                await self._ensure(missing[0])
                missing.pop(0)
            except KubeError as error:
                _log.warning("a namespace can't be created", name=missing[0], reason=f"{error}")
                await asyncio.sleep(AGAIN)

    async def _ensure(self, name: str) -> None:
        try:
            await self._client.get(NAMESPACE, name)
        except NotFound:
            with suppress(AlreadyExists):
                await self._client.create(NAMESPACE, {"metadata": {"name": name}})
