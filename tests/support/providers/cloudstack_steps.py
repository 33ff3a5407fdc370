"""A cluster on CloudStack, as it is asked for step by step."""

from __future__ import annotations

from datetime import UTC, datetime

from espalier.api.resource import Key
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.cloudstack import manifest

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HARBOR = Key(NAMESPACE, "harbor")


def harbor_of(env: ManagedEnvironment) -> PlannedSteps:
    """The example, with one machine for the control plane."""
    return PlannedSteps(env, HARBOR, manifest(NAMESPACE), machines=1)
