"""What a manager brings to a management cluster at start: its releases."""

from __future__ import annotations

from dataclasses import dataclass

import structlog

from espalier.kube.client import Client
from espalier.releases import Releases, install

_log = structlog.get_logger("espalier.releases")


@dataclass(frozen=True)
class InstallReleases:
    """Creates the Bundles and EKSAReleases of this build that are not there yet; what is there is never overwritten."""

    client: Client
    releases: Releases

    async def run(self) -> None:
        """Create them, then end."""
        for object_ in await install(self.client, self.releases.objects()):
            _log.info("installed", kind=object_.kind, name=object_.metadata.name)
