"""The contract of extensions, on every kind of ours. What was asked of cloud and stores is the witness."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.cloud import CloudRequest, Refusal
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.runtime.virtual import Simulation
from espalier.simulator.cloud.service import Fault
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.clouds import World, new_world, refuse, state_in
from tests.support.gardens.extensions import TIMING, failed, is_gone, settle, succeeded
from tests.support.gardens.local_provider_cases import CASES, Case
from tests.support.sampling import sampled
from tests.support.servers.faults import Crash

every_kind = pytest.mark.parametrize("case", CASES, ids=str)
calling = pytest.mark.parametrize("case", [case for case in CASES if case.calls], ids=str)
leased = pytest.mark.parametrize("case", [case for case in CASES if case.leased], ids=str)


async def created(world: World, name: str, case: Case) -> dict[str, object]:
    seed = world.seeds[name]
    await seed.make(case.resource, case.name, await case.spec_for(world, seed), asks="reconcile")
    return await seed.until(case.resource, case.name, succeeded("Create"))


@pytest.mark.demand("G23")
@every_kind
def test_a_resource_is_reconciled_and_then_left_alone(case: Case) -> None:
    """G23: kinds with state have it filled, others leave it nil. A settled resource costs no write and no call."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        async with world.extensions("a", with_machines=case.resource.kind == "Worker"):
            tree = await created(world, "a", case)
            assert (state_in(tree) is not None) is case.stateful
            assert tree["metadata"]["finalizers"] == [keys.finalizer(case.resource.kind)]  # type: ignore[index]
            await settle(60)
            before, calls = await seed.get(case.resource, case.name), len(world.changes)
            await settle(7200)
            assert await seed.get(case.resource, case.name) == before
            assert len(world.changes) == calls

    simulate(story)


@calling
def test_a_failure_is_reported_and_tried_again(case: Case) -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        world.cloud.faults = refuse(Refusal.RATE_LIMITED, "slower, please")
        world.stores.breaks = True
        async with world.extensions("a"):
            await seed.make(case.resource, case.name, case.spec, asks="reconcile")
            tree = await seed.until(case.resource, case.name, failed)
            assert tree["status"]["lastError"]["description"]
            world.cloud.faults = lambda _request: None
            world.stores.breaks = False
            await seed.until(case.resource, case.name, succeeded("Create"))

    simulate(story)


@pytest.mark.demand("G28")
@calling
def test_migrate_in_an_error_loop_stops_all_calls(case: Case) -> None:
    """G28: also when the resource is touched afterwards, and the controllers restart."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        world.cloud.faults = refuse(Refusal.UNAVAILABLE, "no answer")
        world.stores.breaks = True
        async with world.extensions("a"):
            await seed.make(case.resource, case.name, case.spec, asks="reconcile")
            await settle(300)
            await seed.ask(case.resource, case.name, "migrate")
            calls = len(world.calls)
            await seed.until(case.resource, case.name, succeeded("Migrate"))
            await seed.patch(case.resource, case.name, {"spec": {"region": "elsewhere"}})
            await settle(300)
        async with world.extensions("a"):
            await seed.ask(case.resource, case.name, "reconcile")
            await settle(300)
        assert calls > 5
        assert len(world.calls) == calls

    simulate(story)


@pytest.mark.demand(
    "G26",
    "G29",
    "G41",
    G8="case Infrastructure",
    G9="case Worker",
    G10="a case for each kind",
    G11="case Extension",
    G47="case BackupEntry",
)
@every_kind
def test_resource_moves_without_change_of_cloud(case: Case) -> None:
    """G8, G9, G10, G24, G26, G29: migrated, deleted, restored with the same state; the source was asked for nothing."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a", "b")
        source, destination = world.seeds["a"], world.seeds["b"]
        renewing = source.keep_renewing()
        async with world.extensions("a"), world.extensions("b"):
            tree = await created(world, "a", case)
            await settle(60)
            tree = (await source.get(case.resource, case.name)).tree
            inventory, changes, calls = world.names_of_machines, len(world.changes), len(world.calls)
            renewing.cancel()
            await source.ask(case.resource, case.name, "migrate")
            await source.until(case.resource, case.name, succeeded("Migrate"))
            await source.delete(case.resource, case.name)
            await source.until(case.resource, case.name, is_gone)
            assert len(world.calls) == calls
            destination.keep_renewing()
            spec = await case.spec_for(world, destination)
            await destination.make(case.resource, case.name, spec, asks="restore", state=state_in(tree))
            restored = await destination.until(case.resource, case.name, succeeded("Restore"))
            assert state_in(restored) == state_in(tree)
            await destination.ask(case.resource, case.name, "reconcile")
            await destination.until(case.resource, case.name, succeeded("Reconcile"))
            await settle(3600)
        assert world.changes[changes:] == []
        assert world.names_of_machines == inventory

    simulate(story)


@pytest.mark.demand("G24", G26="kinds without state")
@every_kind
def test_a_restore_without_its_state_makes_nothing(case: Case) -> None:
    """G24, G26: kinds that need a state say that it lacks; others reconcile."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        async with world.extensions("a"):
            spec = await case.spec_for(world, seed)
            changes = len(world.changes)
            await seed.make(case.resource, case.name, spec, asks="restore")
            if not case.stateful:
                await seed.until(case.resource, case.name, succeeded("Restore"))
                return
            tree = await seed.until(case.resource, case.name, failed)
            assert "status.state" in tree["status"]["lastError"]["description"]
            assert tree["metadata"]["annotations"][keys.OPERATION] == "restore"
            assert world.changes[changes:] == []

    simulate(story)


@every_kind
def test_a_deleted_resource_leaves_nothing_behind(case: Case) -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        async with world.extensions("a"):
            await created(world, "a", case)
            await seed.delete(case.resource, case.name)
            await seed.until(case.resource, case.name, is_gone)
        assert world.names_of_machines == []
        assert world.cloud.inventory.all("Record") == []
        assert world.stores.buckets == {} or case.name != "bucket-1"

    simulate(story)


@pytest.mark.demand("G78", G82="case DNSRecord")
@leased
def test_nothing_is_done_without_a_lease(case: Case) -> None:
    """G78, G82: create, reconcile, restore and delete; it is said in a condition, and is no error."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        renewing = seed.keep_renewing()
        async with world.extensions("a"):
            await created(world, "a", case)
            await settle(60)
            renewing.cancel()
            await seed.renew(seconds=-1)
            await settle()
            calls = len(world.calls)
            for operation in ("reconcile", "restore"):
                await seed.ask(case.resource, case.name, operation)
                await settle(600)
            await seed.delete(case.resource, case.name)
            await settle(600)
            tree = (await seed.get(case.resource, case.name)).tree
        assert len(world.calls) == calls
        assert "lastError" not in tree["status"]
        (condition,) = tree["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("LeaseValid", "False", "LeaseExpired")

    simulate(story)


@pytest.mark.demand("G57", "G78", "G79")
@pytest.mark.parametrize("case", [case for case in CASES if case.calls and case.leased], ids=str)
def test_lease_that_ends_in_middle_ends_operation(case: Case) -> None:
    """G78, G79: each call takes a minute, and the lease is not renewed; none begins after it."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        await seed.renew(seconds=90)
        begun: list[float] = []

        def slow(_request: CloudRequest) -> Fault:
            begun.append(simulation.clock.monotonic())
            return Fault(seconds=60)

        world.cloud.faults = slow
        async with world.extensions("a"):
            await seed.make(case.resource, case.name, case.spec, asks="reconcile")
            await settle(3600)
            tree = (await seed.get(case.resource, case.name)).tree
        assert begun
        assert max(begun) < 90
        assert "lastError" not in tree["status"]
        assert tree["status"]["conditions"][0]["reason"] == "LeaseExpired"

    simulate(story)


@pytest.mark.demand("G81", G82="case DNSRecord")
@leased
def test_controllers_back_after_a_loss_do_nothing(case: Case) -> None:
    """G81: they were cut off, reconcile is still asked for, and they are back before their gardenlet."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        renewing = seed.keep_renewing()
        async with world.extensions("a"):
            await created(world, "a", case)
            await settle(60)
        await seed.ask(case.resource, case.name, "reconcile")
        renewing.cancel()
        await settle(TIMING.lease_wait)
        before, calls = (await seed.get(case.resource, case.name)).tree, len(world.calls)
        async with world.extensions("a"):
            await settle(3600)
        after = (await seed.get(case.resource, case.name)).tree
        assert len(world.calls) == calls
        for status in (before["status"], after["status"]):
            status.pop("conditions", None)
        assert (after["status"], after["metadata"]["annotations"]) == (
            before["status"],
            before["metadata"]["annotations"],
        )

    simulate(story)


STEPS = [(case, 9 if case.resource.kind == "Worker" else 1) for case in CASES]


@pytest.mark.demand("G27")
@pytest.mark.parametrize(("case", "step"), sampled([*STEPS, (CASES[1], 1)], *range(len(STEPS))), ids=str)
def test_crash_after_any_write_changes_nothing_of_end(case: Case, step: int) -> None:
    """G27 and all others: the controllers die after each of their writes, in turn, until none is left."""

    async def story(simulation: Simulation) -> None:
        for number in range(1, 90, step):
            world = await new_world(simulation, "a")
            seed = world.seeds["a"]
            renewing = seed.keep_renewing()
            crash = Crash(number)
            async with world.extensions("a", crash):
                making = asyncio.ensure_future(created(world, "a", case))
                died = asyncio.ensure_future(crash.died.wait())
                await asyncio.wait((making, died), return_when=asyncio.FIRST_COMPLETED)
                died.cancel()
            async with world.extensions("a"):
                tree = await making
                await settle(600)
            renewing.cancel()
            assert len(world.cloud.inventory.all("Network")) <= 1
            machines = world.cloud.inventory.all("VirtualMachine")
            assert len(machines) == (2 if case.resource.kind == "Worker" else 0)
            assert (state_in(tree) is not None) is case.stateful
            if not crash.died.is_set():
                return
        pytest.fail("it wrote for ever")

    simulate(story)
