"""A cluster on bare metal, as it is asked for step by step."""

from __future__ import annotations

from datetime import UTC, datetime

from espalier.api.resource import Key
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.histories.planned_steps import PlannedSteps
from tests.support.providers.tinkerbell import manifest, of

FORGE = Key(NAMESPACE, "forge")
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


class Forge(PlannedSteps):
    """The manifest of the example."""

    def __init__(self, env: ManagedEnvironment, *, machines: int = 1) -> None:
        super().__init__(env, FORGE, manifest(NAMESPACE), machines=machines)

    def kubernetes(self, version: str) -> None:
        """Ask for another version, and the operating system that has it."""
        self.spec["kubernetesVersion"] = version
        image = f"https://images.example.com/ubuntu-{version.replace('.', '-')}.gz"
        of(self.trees, "TinkerbellDatacenterConfig")["osImageURL"] = image
