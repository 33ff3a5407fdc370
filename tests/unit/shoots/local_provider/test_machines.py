"""Machines of a shoot: scaled, rolled, replaced, moved; and never made, deleted or forgotten by mistake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from espalier.api.cloud import (
    AnyItem,
    CallCloud,
    CloudError,
    CloudRequest,
    Create,
    Credentials,
    Delete,
    Refusal,
    VirtualMachine,
)
from espalier.api.core import SECRET
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.machines import (
    FINALIZER,
    GARDENERS_FINALIZER,
    Machine,
    MachineClass,
    MachineDeployment,
    MachineSet,
)
from espalier.runtime.virtual import Simulation
from espalier.shoots.local_provider.cloud import SHOOT_TAG
from espalier.shoots.local_provider.machine_objects import KINDS
from espalier.shoots.machine_controller.controller import ORPHAN_GRACE, ORPHAN_PERIOD
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.clouds import ACCOUNT, TOKEN, World, names_in, new_world, state_in
from tests.support.gardens.extensions import SHOOT, Seed, failed, is_gone, settle, succeeded
from tests.support.gardens.local_provider_cases import CASES, POOL
from tests.support.sampling import sampled
from tests.support.servers.faults import Crash

WORKER = next(case for case in CASES if case.resource == Worker.resource)
DELETED = "2026-01-01T00:00:00Z"
POOL_NAME = f"{SHOOT}-a"


async def with_machines(world: World, seed: Seed) -> dict[str, Any]:
    await seed.make(Worker.resource, "rose", await WORKER.spec_for(world, seed), asks="reconcile")
    return await seed.until(Worker.resource, "rose", succeeded("Create"))


@asynccontextmanager
async def pool_of(simulation: Simulation) -> AsyncIterator[tuple[World, Seed]]:
    """A seed with the machines of a pool, while its extensions run."""
    world = await new_world(simulation, "a")
    seed = world.seeds["a"]
    seed.keep_renewing()
    async with world.extensions("a"):
        await with_machines(world, seed)
        yield world, seed


async def change(seed: Seed, **pool: Any) -> dict[str, Any]:
    await seed.patch(Worker.resource, "rose", {"spec": {"pools": [{**POOL, **pool}]}})
    await seed.ask(Worker.resource, "rose", "reconcile")
    return await seed.until(Worker.resource, "rose", succeeded("Reconcile"))


async def by_hand(world: World, call: Create | Delete) -> None:
    await world.cloud.call(CloudRequest(Credentials(ACCOUNT, TOKEN), call, "somebody"))


def machines_of(world: World) -> list[VirtualMachine]:
    items = world.cloud.inventory.all("VirtualMachine")
    return [item for item in items if isinstance(item, VirtualMachine)]


async def move(world: World, state: Any, crash: Crash | None = None) -> dict[str, Any]:
    """Restore in the second seed, with this state."""
    seed = world.seeds["b"]
    seed.keep_renewing()
    async with world.extensions("b"):
        spec = await WORKER.spec_for(world, seed)
    if crash is not None:
        async with world.extensions("b", crash):
            await seed.make(Worker.resource, "rose", spec, asks="restore", state=state)
            await asyncio.wait([asyncio.ensure_future(crash.died.wait())], timeout=60)
    async with world.extensions("b"):
        if crash is None:
            await seed.make(Worker.resource, "rose", spec, asks="restore", state=state)
        tree = await seed.until(Worker.resource, "rose", succeeded("Restore"))
        await seed.ask(Worker.resource, "rose", "reconcile")
        await seed.until(Worker.resource, "rose", succeeded("Reconcile"))
        await settle(ORPHAN_PERIOD + 2 * ORPHAN_GRACE)
        return tree


@pytest.mark.soak
def test_a_pool_is_scaled_and_rolled_within_its_surge() -> None:
    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (world, seed):
            first = {machine.name for machine in machines_of(world)}
            await change(seed, minimum=3)
            assert len(machines_of(world)) == 3
            assert first < {machine.name for machine in machines_of(world)}
            most: list[int] = []
            world.cloud.observe(lambda _item, _is_there: most.append(len(machines_of(world))))
            await change(seed, minimum=3, machineType="large")
            await settle(60)
        assert {machine.size for machine in machines_of(world)} == {"large"}
        assert (max(most), min(most)) == (4, 3)
        assert len(await names_in(seed, MachineSet.resource)) == 1

    simulate(story)


def test_a_machine_that_is_lost_is_replaced() -> None:
    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (world, _seed):
            lost = machines_of(world)[0]
            await world.cloud.call(
                CloudRequest(Credentials(ACCOUNT, TOKEN), Delete("VirtualMachine", lost.id), "thief")
            )
            await settle(2 * ORPHAN_PERIOD)
        assert len(machines_of(world)) == 2
        assert lost.name not in {machine.name for machine in machines_of(world)}

    simulate(story)


def test_machine_is_created_once_despite_refusals() -> None:
    """A reconcile that fails waits for its calls: the next one would not find what they are about to create."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        called_by, refused = world.cloud.called_by, 0

        def slow(caller: str) -> CallCloud:
            call = called_by(caller)

            async def ask(request: CloudRequest) -> list[AnyItem]:
                nonlocal refused
                if isinstance(request.call, Create) and isinstance(request.call.item, VirtualMachine):
                    if not refused:
                        refused += 1
                        raise CloudError(Refusal.UNAVAILABLE, "try again")
                    await asyncio.sleep(5)
                return await call(request)

            return ask

        world.cloud.called_by = slow  # type: ignore[method-assign]
        async with world.extensions("a"):
            await with_machines(world, seed)
            await settle(60)
        assert refused == 1
        names = [machine.name for machine in machines_of(world)]
        assert sorted(names) == sorted(set(names))
        assert len(names) == 2

    simulate(story)


@pytest.mark.demand("G9")
def test_state_of_a_worker_follows_its_machines() -> None:
    """G9: and its names are those of the objects, each kind under its own."""

    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (_world, seed):
            await seed.patch(MachineDeployment.resource, POOL_NAME, {"spec": {"replicas": 4}})
            await settle(60)
            state = state_in((await seed.get(Worker.resource, "rose")).tree)
            assert len(state["machines"]) == 4
            for kind in KINDS:
                assert [entry["name"] for entry in state[kind.plural]] == sorted(await names_in(seed, kind))

    simulate(story)


def test_state_is_not_written_once_worker_is_migrated() -> None:
    """Machines go with the shoot's namespace then: a state without them would have others made."""

    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (world, seed):
            await settle(60)
            calls = len(world.calls)
            await seed.ask(Worker.resource, "rose", "migrate")
            before = await seed.until(Worker.resource, "rose", succeeded("Migrate"))
            for kind in (Machine, MachineSet, MachineDeployment, MachineClass):
                for name in await names_in(seed, kind.resource):
                    await seed.delete(kind.resource, name)
            await settle(2 * ORPHAN_PERIOD)
            assert await names_in(seed, *KINDS) == []
            assert state_in((await seed.get(Worker.resource, "rose")).tree) == state_in(before)
        assert len(world.calls) == calls
        assert len(machines_of(world)) == 2

    simulate(story)


def test_migrated_machines_keep_no_finalizer() -> None:
    """Gardener's machine controller manager is stopped then: what it holds would hold the namespace for ever."""

    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (world, seed):
            held = [(kind, name) for kind in KINDS for name in await names_in(seed, kind)]
        held.append((SECRET, "cloudprovider"))
        finalizers = {"metadata": {"finalizers": [FINALIZER, GARDENERS_FINALIZER]}}
        for kind, name in held:
            await seed.patch(kind, name, finalizers)
        async with world.extensions("a", with_machines=False):
            await seed.ask(Worker.resource, "rose", "migrate")
            await seed.until(Worker.resource, "rose", succeeded("Migrate"))
        for kind, name in held:
            assert (await seed.client.get(kind, name, SHOOT)).metadata.finalizers == [], name

    simulate(story)


def test_worker_is_deleted_after_its_classes() -> None:
    """Gardener's machine controller manager, which has to let go of them, is stopped as soon as the Worker is gone."""

    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (_world, seed):
            [name] = await names_in(seed, MachineClass.resource)
            await seed.patch(MachineClass.resource, name, {"metadata": {"finalizers": [GARDENERS_FINALIZER]}})
            await seed.delete(Worker.resource, "rose")
            await asyncio.sleep(60)
            assert await names_in(seed, Worker.resource, Machine.resource) == ["rose"]
            await seed.patch(MachineClass.resource, name, {"metadata": {"finalizers": []}})
            await seed.until(Worker.resource, "rose", is_gone)

    simulate(story)


def test_worker_of_a_hibernated_shoot_is_deleted() -> None:
    """Nobody runs Gardener's machine controller manager while a shoot hibernates."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        async with world.extensions("a"):
            await with_machines(world, seed)
            hibernated = {"spec": {"hibernation": {"enabled": True}}}
            await seed.patch(Cluster.resource, SHOOT, {"spec": {"shoot": hibernated}})
            await seed.ask(Worker.resource, "rose", "reconcile")
            await seed.until(Worker.resource, "rose", succeeded("Reconcile"))
        assert machines_of(world) == []
        for kind in KINDS:
            for name in await names_in(seed, kind):
                await seed.patch(kind, name, {"metadata": {"finalizers": [FINALIZER, GARDENERS_FINALIZER]}})
        async with world.extensions("a", with_machines=False):
            await seed.delete(Worker.resource, "rose")
            await seed.until(Worker.resource, "rose", is_gone)
        assert await names_in(seed, *KINDS) == []

    simulate(story)


def test_set_may_have_the_empty_class_of_gardener() -> None:
    async def story(simulation: Simulation) -> None:
        seed = (await new_world(simulation, "a")).seeds["a"]
        template = {"spec": {"class": {"kind": "MachineClass", "name": "small"}}}
        metadata = {"name": "few", "namespace": SHOOT}
        spec = {"machineClass": {}, "replicas": 0, "selector": {}, "template": template}
        made = await seed.client.create(MachineSet.resource, {"metadata": metadata, "spec": spec})
        assert made.decode(MachineSet).spec.template.spec.class_.name == "small"

    simulate(story)


@pytest.mark.demand("G9")
def test_machines_made_after_last_state_are_adopted() -> None:
    """The state is of two machines; meanwhile there are four. None is made, none is deleted, all keep names."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a", "b")
        seed = world.seeds["a"]
        renewing = seed.keep_renewing()
        async with world.extensions("a"):
            await with_machines(world, seed)
            await settle(60)
            state = state_in((await seed.get(Worker.resource, "rose")).tree)
            await seed.patch(MachineDeployment.resource, POOL_NAME, {"spec": {"replicas": 4}})
            await settle(60)
            names, changes = sorted(await names_in(seed, Machine.resource)), len(world.changes)
            renewing.cancel()
        tree = await move(world, state)
        assert world.changes[changes:] == []
        assert sorted(await names_in(world.seeds["b"], Machine.resource)) == names
        assert len(state_in(tree)["machines"]) == 4

    simulate(story)


@pytest.mark.demand("G9")
@pytest.mark.parametrize("first", sampled(range(5), 2))
def test_crash_in_a_restore_touches_no_machine(first: int) -> None:
    """G9: machine controller manager runs all the time, and holds still until the restore has succeeded."""

    async def story(simulation: Simulation) -> None:
        for number in range(1 + first, 60, 5):
            world = await new_world(simulation, "a", "b")
            renewing = world.seeds["a"].keep_renewing()
            async with world.extensions("a"):
                await with_machines(world, world.seeds["a"])
                await settle(60)
                state = state_in((await world.seeds["a"].get(Worker.resource, "rose")).tree)
            renewing.cancel()
            changes, crash = len(world.changes), Crash(number)
            await move(world, state, crash)
            assert world.changes[changes:] == []
            names = [machine["name"] for machine in state["machines"]]
            assert sorted(await names_in(world.seeds["b"], Machine.resource)) == names
            if not crash.died.is_set():
                return

    simulate(story)


@pytest.mark.demand("G24")
def test_state_of_deleted_machines_makes_none() -> None:
    """G24: it is of another shoot, or of another account."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        spec = {"class": {"kind": "MachineClass", "name": "c"}, "providerID": "cloud://vm-77"}
        state: dict[str, Any] = {"machineclasses": [], "machinedeployments": [], "machinesets": []}
        async with world.extensions("a"):
            needs = await WORKER.spec_for(world, seed)
            changes = len(world.changes)
            machines = [{"name": "m", "owner": "s", "content": {"spec": spec}}]
            await seed.make(Worker.resource, "rose", needs, asks="restore", state={**state, "machines": machines})
            tree = await seed.until(Worker.resource, "rose", failed)
            await settle(2 * ORPHAN_PERIOD)
            assert "none of its 1 machines is in the cloud" in tree["status"]["lastError"]["description"]
            assert world.changes[changes:] == []
            assert await names_in(seed, *KINDS) == []

    simulate(story)


def test_hibernating_shoot_restores_without_machines() -> None:
    """The source deleted them, and was lost before that was in the state."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        spec = {"class": {"kind": "MachineClass", "name": "c"}, "providerID": "cloud://vm-77"}
        machines = [{"name": "m", "owner": "s", "content": {"spec": spec}}]
        state: dict[str, Any] = {
            "machineclasses": [],
            "machinedeployments": [],
            "machinesets": [],
            "machines": machines,
        }
        async with world.extensions("a"):
            needs = await WORKER.spec_for(world, seed)
            asleep = {**needs, "pools": [{**pool, "minimum": 0, "maximum": 0} for pool in needs["pools"]]}
            changes = len(world.changes)
            await seed.make(Worker.resource, "rose", asleep, asks="restore", state={**state, "machines": machines})
            await seed.until(Worker.resource, "rose", succeeded("Restore"))
            await settle(2 * ORPHAN_PERIOD)
            assert world.changes[changes:] == []
            assert await names_in(seed, Machine.resource) == []

    simulate(story)


@pytest.mark.parametrize("lost", [1, 2])
def test_deleted_shoot_is_restored_without_creation(lost: int) -> None:
    """The source had deleted the rest when it was lost."""

    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a", "b")
        world.seeds["a"].keep_renewing()
        async with world.extensions("a"):
            state = state_in(await with_machines(world, world.seeds["a"]))
        for machine in machines_of(world)[:lost]:
            await by_hand(world, Delete("VirtualMachine", machine.id))
        if lost == 2:
            for network in world.cloud.inventory.all("Network"):
                await by_hand(world, Delete("Network", network.id))
        changes, left, seed = len(world.changes), machines_of(world), world.seeds["b"]
        seed.keep_renewing()
        await settle(1)
        await seed.patch(Cluster.resource, SHOOT, {"spec": {"shoot": {"metadata": {"deletionTimestamp": DELETED}}}})
        async with world.extensions("b"):
            spec = await WORKER.spec_for(world, seed)
            await seed.make(Worker.resource, "rose", spec, asks="restore", state=state)
            await seed.until(Worker.resource, "rose", succeeded("Restore"))
            await settle(2 * ORPHAN_PERIOD)
            assert world.changes[changes:] == []
            assert len(await names_in(seed, Machine.resource)) == len(left)
            await seed.delete(Worker.resource, "rose")
            await settle(2 * ORPHAN_PERIOD)
            assert machines_of(world) == []
            assert await names_in(seed, *KINDS) == []

    simulate(story)


@pytest.mark.soak
def test_orphan_is_deleted_later_within_the_lease() -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        renewing = seed.keep_renewing()

        async def lose() -> None:
            network = machines_of(world)[0].network
            orphan = VirtualMachine(
                name="orphan", network=network, size="small", image="linux", tags={SHOOT_TAG: SHOOT}
            )
            await by_hand(world, Create(orphan))

        async with world.extensions("a"):
            await with_machines(world, seed)
            await lose()
            await settle(ORPHAN_GRACE - 10)
            assert "orphan" in {machine.name for machine in machines_of(world)}
            await settle(ORPHAN_PERIOD + ORPHAN_GRACE)
            assert "orphan" not in {machine.name for machine in machines_of(world)}
            await lose()
            renewing.cancel()
            await settle(3 * ORPHAN_PERIOD)
            assert "orphan" in {machine.name for machine in machines_of(world)}

    simulate(story)


@pytest.mark.soak
def test_machines_of_other_shoots_are_never_touched() -> None:
    async def story(simulation: Simulation) -> None:
        async with pool_of(simulation) as (world, _seed):
            network = machines_of(world)[0].network
            other = VirtualMachine(
                name="other", network=network, size="s", image="i", tags={SHOOT_TAG: "shoot--garden--lily"}
            )
            await by_hand(world, Create(other))
            await settle(3 * ORPHAN_PERIOD)
        assert "other" in {machine.name for machine in machines_of(world)}

    simulate(story)
