"""A cluster on vSphere, as it is asked for step by step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from espalier.api.core import SECRET
from espalier.api.resource import Key
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.vsphere import CREDENTIALS, credentials, manifest

VINEYARD = Key(NAMESPACE, "vineyard")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


async def put_credentials(env: ManagedEnvironment, data: Mapping[str, str] = CREDENTIALS, **annotations: str) -> None:
    """The Secret that an administrator makes."""
    await env.client.apply(SECRET, credentials(data, NAMESPACE, **annotations), field_manager="administrator")


class Vineyard(PlannedSteps):
    """The manifest of the example."""

    def __init__(self, env: ManagedEnvironment, *, machines: int = 1) -> None:
        super().__init__(env, VINEYARD, manifest(NAMESPACE), machines=machines)
