"""A cluster on Nutanix, as it is asked for step by step."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from espalier.api.core import SECRET
from espalier.api.resource import Key
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.nutanix import CREDENTIALS, credentials, manifest

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
QUARRY = Key(NAMESPACE, "quarry")


async def put_credentials(env: ManagedEnvironment, data: Mapping[str, str] = CREDENTIALS) -> None:
    """The Secret that an administrator makes."""
    await env.client.apply(SECRET, credentials(data, NAMESPACE), field_manager="administrator")


def quarry_of(env: ManagedEnvironment) -> PlannedSteps:
    """The example, with one machine for the control plane."""
    return PlannedSteps(env, QUARRY, manifest(NAMESPACE), machines=1)
