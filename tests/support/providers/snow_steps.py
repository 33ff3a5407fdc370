"""A cluster on Snow, as it is asked for step by step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from espalier.api.core import SECRET
from espalier.api.resource import Key
from tests.support.environments.managed_clusters import NAMESPACE, AccountedClusters
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.snow import CREDENTIALS, MACHINES, credentials, manifest, of

GLACIER = Key(NAMESPACE, "glacier")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


async def put_credentials(
    env: AccountedClusters, data: Mapping[str, str] = CREDENTIALS, servers: str = "192.0.2.100,192.0.2.101"
) -> None:
    """The Secret that an administrator makes."""
    await env.client.apply(SECRET, credentials(data, NAMESPACE, servers), field_manager="administrator")


class Glacier(PlannedSteps):
    """The manifest of the example."""

    def __init__(self, env: AccountedClusters, *, machines: int = 1) -> None:
        super().__init__(env, GLACIER, manifest(NAMESPACE), machines=machines)

    def kubernetes(self, version: str) -> None:
        """Kubernetes, and the images with it."""
        self.spec["kubernetesVersion"] = version
        for name in ("glacier-cp", "glacier"):
            of(self.trees, MACHINES, name)["amiID"] = f"s.ami-{version}"
