"""What a manager brings to a management cluster at start: its releases."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.kube.client import Client
from espalier.releases import Releases, install


@dataclass(frozen=True)
class InstallReleases:
    """Creates the Bundles and EKSAReleases of this build that are not there yet; what is there is never overwritten."""

    client: Client
    releases: Releases

    async def run(self) -> None:
        """Create them, then end."""
        await install(self.client, self.releases.objects())
