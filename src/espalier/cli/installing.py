"""What a manager brings to a management cluster at start: its releases."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists
from espalier.releases import Releases

_log = structlog.get_logger("espalier.releases")


@dataclass(frozen=True)
class InstallReleases:
    """Creates the Bundles and EKSAReleases of this build that are not there yet; what is there is never overwritten."""

    client: Client
    releases: Releases

    async def run(self) -> None:
        """Create them, then end."""
        for object_ in self.releases.objects():
            try:
                await self.client.create(object_.resource, object_)
            except AlreadyExists:
                continue
            _log.info("installed", kind=object_.kind, name=object_.metadata.name)
