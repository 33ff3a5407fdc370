"""The story of `espalier demo migration`, on virtual time: moved, moved from a destroyed seed, and moved back."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from espalier.api import conditions
from espalier.api.core import NODE, SECRET
from espalier.api.gardener.garden.shoot import EVERY_NODE_READY, Shoot
from espalier.api.gardener.machines import Machine, MachineDeployment
from espalier.api.gardener.vocabulary.metadata_keys import OPERATION, RECONCILE
from espalier.api.gardener.vocabulary.operations import OperationState
from espalier.cli.local.demo_migration import table
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import (
    DELTA_PERIOD,
    NODES,
    QUICK,
    TECHNICAL_ID,
    MigrationScenario,
    quick_settings,
)
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.secrets.names import PERSISTED
from tests.support.gardens.garden_commands import GardenCommands
from tests.support.waiting import eventually

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
WRITES_EVERY = 0.5
COPY = 2.0
"""Seconds of a small copy, its pod included."""
IN_NAMESPACE = ("-n", "garden-dev")


@pytest.mark.demand(
    "G6",
    "G8",
    "G36",
    "G42",
    "G66",
    G1="with etcd and API server",
    G2="its power is cut",
    G3="UIDs of nodes and pods",
    G17="the source has no power",
    G47="copies with them",
    G48="with the Secret of the BackupEntry",
)
def test_shoot_survives_a_lost_seed_and_moves_back() -> None:
    settings = quick_settings(random_keys=False)

    async def story(simulation: virtual.Simulation) -> None:
        async with Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden:
            told = MigrationScenario(garden, writes_every=WRITES_EVERY)
            async with told.begun("east"):
                made = await machines(garden, "east")
                good = await told.move("west", "good case")
                await asyncio.sleep(2 * DELTA_PERIOD)
                assert await machines(garden, "west") == made
                bad = await told.move("east", "bad case", destroy_source=True)
                calls_of_returned_seed = await told.returned("west")
                back = await told.move("west", "back")
                assert await machines(garden, "west") == made
        moves = (good, bad, back)
        assert len(made) == NODES
        assert [(move.nodes_kept, move.pods_kept, move.secrets_kept) for move in moves] == [
            (NODES, NODES, len(PERSISTED))
        ] * 3
        assert [(move.creates, move.deletes) for move in moves] == [(0, 0)] * 3
        assert [move.left for move in moves] == [(), None, ()]
        assert calls_of_returned_seed == 0
        assert (good.lost, back.lost) == (0, 0)
        assert good.gap <= 10, "of which nothing is a wait for API servers that have ended"
        assert back.gap <= 10
        waits = settings.garden.give_up_after + QUICK.progress_timeout + QUICK.lease_wait
        assert bad.gap <= waits + COPY + 10
        assert bad.lost <= (DELTA_PERIOD + QUICK.store_timeout) / WRITES_EVERY
        assert good.acknowledged < bad.acknowledged < back.acknowledged
        assert all(len(cells) == 4 for cells in table(moves))

    virtual.run(story, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_shoot_hibernates_and_wakes_up_with_its_data() -> None:
    async def story(simulation: virtual.Simulation) -> None:
        settings = quick_settings(random_keys=False)
        async with Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden:
            told = MigrationScenario(garden, writes_every=WRITES_EVERY)
            async with told.begun("east"):
                await hibernate(garden, True)
                await eventually(lambda: is_settled(garden, asleep=True), within=900, every=1)
                assert await machines(garden, "east") == {}
                await hibernate(garden, False)
                await eventually(lambda: is_settled(garden, asleep=False), within=900, every=1)
                assert len(await machines(garden, "east")) == NODES

    virtual.run(story, epoch=EPOCH, seed=1)


async def hibernate(garden: Garden, enabled: bool) -> None:
    wish = {"spec": {"hibernation": {"enabled": enabled}}}
    await garden.client.patch(Shoot.resource, "apple", "garden-dev", patch=wish, type=PatchType.MERGE)


async def is_settled(garden: Garden, *, asleep: bool) -> bool:
    shoot = (await garden.client.get(Shoot.resource, "apple", "garden-dev")).decode(Shoot)
    last = shoot.status.last_operation
    return shoot.status.hibernated == asleep and last is not None and last.state == OperationState.SUCCEEDED


async def machines(garden: Garden, seed: str) -> dict[str, str]:
    """The virtual machines that the machine controller manager of a seed has, by the names of their Machines."""
    listed = (await garden.seeds[seed].client.list(Machine.resource, TECHNICAL_ID)).items
    return {item.name: item.decode(Machine).spec.provider_id for item in listed}


@pytest.mark.demand(G5="evacuated and back")
@pytest.mark.soak
def test_commands_show_plan_and_make_a_move(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = quick_settings(random_keys=False)
    settings = replace(settings, gardenlet=replace(settings.gardenlet, care=2, bucket_check=4))

    async def story(simulation: virtual.Simulation) -> None:
        async with Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden:
            told, espalier = (
                MigrationScenario(garden, writes_every=WRITES_EVERY),
                GardenCommands(garden.client, monkeypatch, capsys),
            )
            async with told.begun("east"):
                await shows_where_the_shoot_is(espalier)
                await plans(espalier)
                await says_when_its_bucket_is_of_no_use_to_others(garden, espalier)
                await refuses_a_seed_that_is_not_there(espalier)
                evacuated = await espalier("seeds", "evacuate", "east", "--timeout", "5m")
                assert (evacuated.code, evacuated.complaint.splitlines()[-1]) == (
                    0,
                    "✓ seed east has no shoots left",
                )
                await told.settled("west")
                moved = await espalier("shoots", "migrate", "apple", *IN_NAMESPACE, "--to", "east", "--timeout", "5m")
                assert moved.complaint.splitlines()[-1] == "✓ shoot garden-dev/apple runs on seed east"
                await overdue_moves_say_what_they_wait_for(garden, espalier)

    virtual.run(story, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_nodes_go_with_their_deleted_machines() -> None:
    """So the shoot says that nodes are missing; a requested reconcile brings them back."""
    settings = quick_settings(random_keys=False)

    async def story(simulation: virtual.Simulation) -> None:
        async with Garden.run_with(simulation.clock, simulation.random, ["east", "west"], settings) as garden:
            told = MigrationScenario(garden, writes_every=WRITES_EVERY)
            async with told.begun("east"):
                seed = garden.seeds["east"].client
                before = set(await machines(garden, "east"))
                for deployment in (await seed.list(MachineDeployment.resource, TECHNICAL_ID)).items:
                    await seed.delete(MachineDeployment.resource, deployment.name, TECHNICAL_ID)

                async def has(status: str, reason: str) -> bool:
                    shoot = (await garden.client.get(Shoot.resource, "apple", "garden-dev")).decode(Shoot)
                    ready = conditions.get(shoot.status.conditions, EVERY_NODE_READY)
                    return ready is not None and (ready.status, ready.reason) == (status, reason)

                await eventually(lambda: has("False", "NodesMissing"), within=180)
                patch = {"metadata": {"annotations": {OPERATION: RECONCILE}}}
                await garden.client.patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=PatchType.MERGE)
                await eventually(lambda: has("True", "EveryNodeReady"), within=180)
                after = set(await machines(garden, "east"))
                assert (len(after), after & before) == (len(before), set())
                nodes = {node.name for node in (await garden.shoot(TECHNICAL_ID).list(NODE)).items}
                assert len(nodes) == len(after)

    virtual.run(story, epoch=EPOCH, seed=1)


async def shows_where_the_shoot_is(espalier: GardenCommands) -> None:
    listed = await espalier("shoots", "list", "-A", "--seed", "east")
    assert listed.output.splitlines()[1].split() == [
        "garden-dev",
        "apple",
        "east",
        "Create",
        "Succeeded",
        "100",
        "%",
    ]
    assert (await espalier("shoots", "list", "-A", "--seed", "west")).output == ""
    described = await espalier("shoots", "describe", "apple", *IN_NAMESPACE)
    assert "technical ID     shoot--dev--apple" in described.output
    values = {line.split()[0]: line.split()[1] for line in described.output.splitlines() if len(line.split()) > 1}
    assert (values["EveryNodeReady"], values["SystemComponentsHealthy"]) == ("True", "True")
    flow = await espalier("shoots", "flow", "apple", *IN_NAMESPACE)
    assert "[x] Deploy kube-apiserver" in flow.output
    operation, heading = flow.output.splitlines()[:2]
    assert heading.startswith(f"{operation.split()[0]}: 100 % of")
    seeds = await espalier("seeds", "list")
    assert [line.split()[:3] for line in seeds.output.splitlines()[1:]] == [
        ["east", "True", "1"],
        ["west", "True", "0"],
    ]
    unknown = await espalier("shoots", "describe", "pear", *IN_NAMESPACE)
    assert (unknown.code, unknown.complaint) == (1, "there is no shoot 'pear' in namespace garden-dev; existing: apple")


async def plans(espalier: GardenCommands) -> None:
    planned = await espalier("shoots", "plan", "apple", *IN_NAMESPACE, "--to", "west")
    assert planned.code == 0
    steps = [
        line.split(maxsplit=2)[1:] for line in planned.output.splitlines() if line[:1].isdigit() and " s " not in line
    ]
    assert steps[0] == ["east", "Check extension state"]
    assert ["west", "Take ownership"] in steps
    assert "Data at risk: nothing that was acknowledged" in planned.output
    assert "Times are those of the gardenlet of seed west" in planned.output
    assert f"{QUICK.lease_wait:g} s    leases of the source's extensions end" in planned.output
    assert "writes are backed up within 5 s" in planned.output


async def says_when_its_bucket_is_of_no_use_to_others(garden: Garden, espalier: GardenCommands) -> None:
    """The garden has lost the credentials that another seed would get. The source itself works on with its own."""

    async def ready() -> list[str]:
        described = await espalier("shoots", "describe", "apple", *IN_NAMESPACE)
        return next(line.split()[1:3] for line in described.output.splitlines() if line.startswith("ReadyForDisaster"))

    before = (await garden.client.get(Shoot.resource, "apple", "garden-dev")).metadata.resource_version
    await asyncio.sleep(10)
    after = (await garden.client.get(Shoot.resource, "apple", "garden-dev")).metadata.resource_version
    assert after == before, "it is asked all the time, and nothing is written"
    assert await ready() == ["True", "BackupsCurrent"]
    secret = (await garden.client.get(SECRET, "backup-east", "garden")).tree
    await garden.client.delete(SECRET, "backup-east", "garden")
    await asyncio.sleep(7)
    assert await ready() == ["False", "BucketUnreadable"]
    planned = await espalier("shoots", "plan", "apple", *IN_NAMESPACE, "--to", "west")
    seen = next(line for line in planned.output.splitlines() if line.startswith("backups are current"))
    assert "Secret garden/backup-east of the garden does not exist" in seen
    again = {"metadata": {"name": "backup-east", "namespace": "garden"}, "data": secret["data"]}
    await garden.client.create(SECRET, again)
    await asyncio.sleep(7)
    assert await ready() == ["True", "BackupsCurrent"]


async def refuses_a_seed_that_is_not_there(espalier: GardenCommands) -> None:
    """The plan says what the garden's admission says."""
    planned = await espalier("shoots", "plan", "apple", *IN_NAMESPACE, "--to", "north")
    asked = await espalier("shoots", "migrate", "apple", *IN_NAMESPACE, "--to", "north")
    assert (planned.code, asked.code) == (1, 1)
    assert planned.complaint == "spec.seedName: there is no such seed; found north"
    assert asked.complaint.endswith(planned.complaint)


async def overdue_moves_say_what_they_wait_for(garden: Garden, espalier: GardenCommands) -> None:
    await garden.seeds["west"].power_off()
    await asyncio.sleep(20)
    overdue = await espalier("shoots", "migrate", "apple", *IN_NAMESPACE, "--to", "west", "--timeout", "10s")
    assert overdue.code == 4
    assert "DestinationSeedUnready: seed west is not ready" in overdue.complaint
    planned = await espalier("shoots", "plan", "apple", *IN_NAMESPACE, "--to", "east")
    assert "destination east is ready" in planned.output
