"""What a manager brings to a management cluster at start: its releases."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import structlog

from espalier.api.kinds import KubeObject
from espalier.kube.client import Client
from espalier.kube.errors import ServerFailure
from espalier.kube.objects import Object
from espalier.releases import Releases, install
from espalier.runtime.cache import Caches

PATIENCE, PAUSE = 60.0, 1.0
"""Seconds: for how long, and how often, a server is asked that can't answer."""

_log = structlog.get_logger("espalier.releases")


@dataclass(frozen=True)
class InstallReleases:
    """Creates what this build (or its folder) brings of releases and is not there yet; nothing is ever overwritten.

    To be run before controllers begin: a cluster that is there already may be made of what comes only now.
    """

    client: Client
    caches: Caches
    releases: Releases

    async def run(self) -> None:
        """Create them, then end: the caches know them."""
        for object_ in self.releases.objects():
            for created in await self._install(object_):
                for cache in self.caches.all:
                    if cache.source.resource == object_.resource:
                        cache.wrote(created)
                _log.info("installed", kind=created.kind, name=created.name)

    async def _install(self, object_: KubeObject) -> list[Object]:
        """Webhooks that judge releases are those of this manager: its server may trust them, or find them, only now."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE
        while True:
            try:
                return await install(self.client, [object_])
            except ServerFailure as failure:
                if loop.time() >= end:
                    raise
                _log.info("not installed yet", kind=object_.kind, name=object_.metadata.name, reason=str(failure))
                await asyncio.sleep(PAUSE)
