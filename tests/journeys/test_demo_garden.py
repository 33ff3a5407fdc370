"""`espalier demo garden`: API servers that are served, and seeds that lose their power."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api.core import NAMESPACE
from espalier.api.gardener.garden.cloud_profile import CloudProfile
from espalier.api.gardener.garden.seed import Seed
from espalier.cli.local.demo_garden import run_command, served
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import MigrationScenario, quick_settings
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import ServerFailure
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.retry import Retry
from espalier.runtime import virtual
from espalier.runtime.clock import SystemClock

pytestmark = pytest.mark.embedded


@asynccontextmanager
async def client_of(kubeconfig: Path, name: str) -> AsyncIterator[Client]:
    access = Kubeconfig.load([kubeconfig]).context(f"admin@{name}")
    client = Client(HttpTransport(access, environment={}), retry=Retry(attempts=1))
    try:
        yield client
    finally:
        await client.close()


async def test_garden_serves_until_a_seed_loses_power(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    settings = quick_settings()
    async with (
        Garden.run_with(SystemClock(), random.SystemRandom(), ["east"], settings) as garden,
        served(garden, kubeconfig),
        client_of(kubeconfig, "garden") as in_garden,
        client_of(kubeconfig, "east") as in_seed,
    ):
        assert Kubeconfig.load([kubeconfig]).current_context == "admin@garden"
        assert [item.name for item in (await in_garden.list(Seed.resource)).items] == ["east"]
        assert await in_seed.get(NAMESPACE, "default")
        assert "allowed: off or on, and one of the seeds east" in await run_command(garden, "off west\n")
        assert "has no power" in await run_command(garden, " off  east\n")
        with pytest.raises(ServerFailure, match="seed east has no power"):
            await in_seed.get(NAMESPACE, "default")
        assert await in_garden.get(Seed.resource, "east")
        await run_command(garden, "on east")
        assert await in_seed.get(NAMESPACE, "default")


def test_a_shoot_of_any_version_gets_its_offer() -> None:
    """Real programs of a machine may have another version than the ones that are tested."""

    async def main(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with (
            Garden.run_with(simulation.clock, simulation.random, ["east"], settings) as garden,
            MigrationScenario(garden, version="1.30.1").begun("east"),
        ):
            profile = (await garden.client.get(CloudProfile.resource, "local")).decode(CloudProfile)
            assert "1.30.1" in [offer.version for offer in profile.spec.kubernetes.versions]

    virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
