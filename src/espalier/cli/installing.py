"""What a manager brings to a management cluster at start: its releases."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from espalier.kube.client import Client
from espalier.releases import Releases, install
from espalier.runtime.cache import Caches

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
        for created in await install(self.client, self.releases.objects()):
            for cache in self.caches.all:
                resource = cache.source.resource
                if (resource.api_version, resource.kind) == (created.head.api_version, created.kind):
                    cache.wrote(created)
            _log.info("installed", kind=created.kind, name=created.name)
