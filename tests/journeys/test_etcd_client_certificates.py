"""The etcds of shoots demand certificates of API servers, also those that an earlier gardenlet had created without."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import MigrationScenario, quick_settings
from espalier.runtime import virtual
from tests.support.environments.killing import Killer
from tests.support.gardens.etcd_ports import (
    PLAIN,
    SECURE,
    Port,
    of_an_earlier_gardenlet,
    pods_are,
    port_in,
    ports_seen,
    reconcile,
)
from tests.support.waiting import eventually

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WRITES = 40
"""Writes of all programs in such an upgrade, at the least."""
RESTART = 3.0
"""Seconds, of the simulated clock, in which an etcd restarts. An API server that it does not understand ends in 10."""


def test_etcd_of_earlier_gardenlet_gets_certificates(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden:
            scenario = MigrationScenario(garden)
            of_an_earlier_gardenlet(monkeypatch)
            async with scenario.begun("east"):
                seed = garden.seeds["east"].client
                assert await pods_are(seed, PLAIN)
                monkeypatch.undo()
                began = simulation.clock.monotonic()
                async with ports_seen(seed, every=0.05) as seen:
                    await reconcile(garden.client)
                    await eventually(lambda: pods_are(seed, SECURE), every=1)
                assert seen == [PLAIN, Port(True, True, "http"), Port(True, True, "https"), SECURE]
                await scenario.settled("east")
                assert scenario.writer.gap(began, simulation.clock.monotonic()) < RESTART
                move = await scenario.move("west", "")
                assert move.lost == 0
                assert await port_in(garden.seeds["west"].client) == SECURE
                await scenario.move("east", "")
                assert await port_in(seed) == SECURE
                assert await scenario.writer.changed() == []

    virtual.run(story, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "number", [pytest.param(each, marks=() if each % 13 == 5 else pytest.mark.soak) for each in range(1, WRITES + 1)]
)
def test_upgrade_killed_at_any_write_goes_on(monkeypatch: pytest.MonkeyPatch, number: int, *, after: bool) -> None:
    """Where it is stands in the objects of the seed alone, so whoever starts again reads it there."""

    async def story(simulation: virtual.Simulation) -> None:
        killer, settings = Killer(), quick_settings(random_keys=False)
        async with Garden.run_with(
            simulation.clock, simulation.random, ["east", "west"], settings, wrap=killer
        ) as garden:
            scenario = MigrationScenario(garden)
            of_an_earlier_gardenlet(monkeypatch)
            async with scenario.begun("east"):
                seed = garden.seeds["east"].client
                assert await pods_are(seed, PLAIN)
                monkeypatch.undo()
                killer.arm(garden, number, after=after)
                async with ports_seen(seed, every=0.05) as seen:
                    await reconcile(garden.client)
                    await eventually(lambda: pods_are(seed, SECURE), every=1)
                assert len(killer.killed) == 1
                assert seen == [PLAIN, Port(True, True, "http"), Port(True, True, "https"), SECURE], killer.killed
                assert await scenario.writer.changed() == [], killer.killed

    virtual.run(story, epoch=EPOCH, seed=1)
