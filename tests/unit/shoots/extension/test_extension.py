"""An extension from its author's side: what his actuator is asked, when it is not asked, and what is told of it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.kube.objects import Object
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import (
    Request,
    Result,
    results,
)
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.extensions import TIMING, failed, is_gone, running, settle, succeeded
from tests.support.gardens.ponds import POND, Ponds, Water, begin


def status_of(tree: dict[str, Any]) -> dict[str, Any]:
    return dict(tree["status"])


def test_a_new_resource_is_created_and_says_so() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            tree = await world.until(succeeded("Create"))
        status = status_of(tree)
        assert world.provider.calls == ["dig shoot--garden--rose", "fill shoot--garden--rose"]
        assert status["state"] == {"pond": "shoot--garden--rose"}
        assert (status["observedGeneration"], status["nodesCIDR"]) == (1, "10.0.0.0/16")
        assert status["lastOperation"]["progress"] == 100
        assert tree["metadata"]["finalizers"] == ["extensions.gardener.cloud/infrastructure"]

    simulate(story)


def test_settled_resource_is_not_called_nor_written() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            tree = await world.until(succeeded("Create"))
            await world.seed.patch(POND, "pond", {"spec": {"region": "elsewhere"}})
            await settle(3600)
            later = (await world.seed.get(POND, "pond")).tree
        assert later["status"] == tree["status"]
        assert len(world.provider.calls) == 2

    simulate(story)


class SlowPonds(Ponds):
    """Its ponds fill by themselves, some day."""

    async def reconcile(self, request: Request[Water]) -> Result[Water] | Wait:
        await request.call(self.provider.dig, request.object.namespace)
        return Wait("PondFills", "the pond fills", after=1.0)


def test_wait_stays_reported_during_next_reconcile() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.actuator = SlowPonds(world.provider)
        world.seed.keep_renewing()
        told = []
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await world.until(lambda tree: description_of(tree) == "the pond fills")
            ponds = await world.seed.client.list(POND)
            watch = world.seed.client.watch(POND, resource_version=ponds.resource_version)
            with suppress(TimeoutError):
                async with asyncio.timeout(60):
                    async for event in watch:
                        if event.type == "MODIFIED":
                            told.append(description_of(event.object.tree))
        assert len(world.provider.calls) > 50
        assert set(told) <= {"the pond fills"}

    simulate(story)


def description_of(tree: dict[str, Any]) -> str:
    last = (tree.get("status") or {}).get("lastOperation") or {}
    return str(last.get("description"))


def test_failure_is_reported_with_codes_and_repeated() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.breaks = True
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            tree = await world.until(failed)
            assert tree["status"]["lastError"]["codes"] == ["ERR_INFRA_DEPENDENCIES"]
            assert "get another one" in tree["status"]["lastError"]["description"]
            world.provider.breaks = False
            tree = await world.until(succeeded("Create"))
        assert "lastError" not in tree["status"]

    simulate(story)


@pytest.mark.demand("G28")
def test_migrate_stops_resource_in_error_loop_for_good() -> None:
    """G28: no further call, also when the spec is touched, the controller restarts, or a reconcile is asked for."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.breaks = True
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(300)
            await world.seed.ask(POND, "pond", "migrate")
            before = len(world.provider.calls)
            tree = await world.until(succeeded("Migrate"))
            assert not tree["metadata"].get("finalizers")
            await world.seed.patch(POND, "pond", {"spec": {"region": "elsewhere"}})
            await world.seed.ask(POND, "pond", "reconcile")
            await settle(300)
        async with running(world.seed, [world.component()]):
            await settle(300)
            await world.seed.delete(POND, "pond")
            await world.until(is_gone)
        assert (len(world.provider.calls), world.actuator.migrated) == (before, ["pond"])

    simulate(story)


@pytest.mark.demand("G28")
def test_migrate_ends_a_call_that_is_under_way() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.takes = 60
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(10)
            await world.seed.ask(POND, "pond", "migrate")
            await world.until(succeeded("Migrate"))
        assert world.provider.calls == ["dig shoot--garden--rose"]
        assert simulation.clock.monotonic() < 20

    simulate(story)


@pytest.mark.demand("G24")
def test_restore_takes_over_what_the_state_names() -> None:
    """G24: adopted, not made; the state is as it was."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew()
        world.provider.ponds = ["old"]
        async with running(world.seed, [world.component()]):
            await world.make(asks="restore", state={"pond": "old"})
            tree = await world.until(succeeded("Restore"))
        assert tree["status"]["state"] == {"pond": "old"}
        assert world.provider.calls == ["fill old"]

    simulate(story)


@pytest.mark.demand("G24")
@pytest.mark.parametrize("state", [None, {"pound": 1}, {"pond": 7}, "text", [], {"pond": None}])
def test_restore_without_a_state_makes_nothing(state: Any) -> None:
    """G24: and once the state is right, it goes on by itself."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.ponds = ["old"]
        async with running(world.seed, [world.component()]):
            await world.make(asks="restore", state=state)
            tree = await world.until(failed)
            assert "status.state" in tree["status"]["lastError"]["description"]
            assert tree["metadata"]["annotations"][keys.OPERATION] == "restore"
            assert world.provider.calls == []
            await world.seed.patch(POND, "pond", {"status": {"state": {"pond": "old"}}}, "status")
            await world.until(succeeded("Restore"))

    simulate(story)


@pytest.mark.demand("G27")
def test_annotation_stays_while_restore_is_half_done() -> None:
    """G27: a restart repeats the restore."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.provider.ponds, world.provider.takes = ["old"], 50
        async with running(world.seed, [world.component()]):
            await world.make(asks="restore", state={"pond": "old"})
            await settle(10)
        assert (await world.seed.get(POND, "pond")).metadata.annotations[keys.OPERATION] == "restore"
        async with running(world.seed, [world.component()]):
            await world.until(succeeded("Restore"))
        assert world.provider.calls == ["fill old", "fill old"]

    simulate(story)


@pytest.mark.demand("G78")
def test_missing_lease_skips_a_resource_and_says_why() -> None:
    """G78: no error state; renewed, it is reconciled."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew(seconds=-1)
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(600)
            status = status_of((await world.seed.get(POND, "pond")).tree)
            assert world.provider.calls == []
            assert set(status) == {"conditions"}
            (condition,) = status["conditions"]
            assert (condition["type"], condition["status"], condition["reason"]) == (
                "LeaseValid",
                "False",
                "LeaseExpired",
            )
            await world.seed.renew()
            tree = await world.until(succeeded("Create"))
            assert tree["status"]["conditions"][0]["status"] == "True"

    simulate(story)


def test_time_of_an_order_stays_when_taken() -> None:
    """By that time a gardenlet knows how long it has waited."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await world.until(succeeded("Create"))
            world.provider.breaks = True
            ordered = (await world.seed.ask(POND, "pond", "reconcile")).metadata.annotations[keys.TIMESTAMP]
            await settle(600)
            pond = await world.seed.get(POND, "pond")
            assert pond.metadata.annotations.keys() == {keys.TIMESTAMP, keys.RESULT_DIGESTS}
            assert pond.metadata.annotations[keys.TIMESTAMP] == ordered
            assert failed(pond.tree)
            calls = len(world.provider.calls)
            await settle(600)
            assert (await world.seed.get(POND, "pond")).resource_version == pond.resource_version
            assert len(world.provider.calls) > calls, "it is retried"

    simulate(story)


def test_lease_condition_keeps_time_updates_message() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew(seconds=-1)
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(600)
            (expired,) = status_of((await world.seed.get(POND, "pond")).tree)["conditions"]
            await world.seed.renew(seconds=-1)
            await settle(600)
            (again,) = status_of((await world.seed.get(POND, "pond")).tree)["conditions"]
            await world.seed.renew(seconds=3600)
            await settle(600)
            pond = await world.seed.get(POND, "pond")
            (skewed,) = status_of(pond.tree)["conditions"]
            await settle(600)
            assert (await world.seed.get(POND, "pond")).resource_version == pond.resource_version
        assert [condition["reason"] for condition in (expired, again, skewed)] == [
            "LeaseExpired",
            "LeaseExpired",
            "ClockSkew",
        ]
        assert again["message"] != expired["message"]
        assert len({condition["lastTransitionTime"] for condition in (expired, again, skewed)}) == 1
        assert len({condition["lastUpdateTime"] for condition in (expired, again, skewed)}) == 3

    simulate(story)


@pytest.mark.demand("G78")
def test_operation_beyond_its_lease_is_ended() -> None:
    """G78: what began in time does not act after the lease; it is no error, and goes on when the lease is renewed."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew(seconds=30)
        world.provider.takes = 20
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(600)
            assert world.provider.calls == ["dig shoot--garden--rose", "fill shoot--garden--rose"]
            tree = (await world.seed.get(POND, "pond")).tree
            assert (tree["status"]["lastOperation"]["state"], "lastError" in tree["status"]) == ("Processing", False)
            assert tree["status"]["conditions"][0]["reason"] == "LeaseExpired"
            world.seed.keep_renewing()
            await world.until(succeeded("Create"))

    simulate(story)


@pytest.mark.demand("G79")
def test_retries_end_with_the_lease() -> None:
    """G79: gardenlet cut from the garden, extension in an error loop."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        renewing = world.seed.keep_renewing()
        world.provider.breaks = True
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await settle(1000)
            renewing.cancel()
            ends = simulation.clock.monotonic() + TIMING.lease_validity
            await settle(3600)
        assert world.provider.log[-1][0] < ends
        assert world.provider.log[-1][0] > 1000

    simulate(story)


def test_a_delete_is_called_for_only_within_the_lease() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        await world.seed.renew()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            await world.until(succeeded("Create"))
            await settle(600)
            await world.seed.delete(POND, "pond")
            await settle(600)
            assert world.provider.calls[2:] == []
            await world.seed.renew()
            await world.until(is_gone)
        assert world.provider.calls[2:] == ["fill up"]

    simulate(story)


@pytest.mark.demand("G22")
def test_too_large_state_is_reported_the_earlier_stays() -> None:
    """G22."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        world.actuator.size = 4 * 2**20
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            tree = await world.until(failed)
        assert tree["status"]["state"] == {"pond": "shoot--garden--rose"}
        assert "found 4.00 MiB, allowed: up to 1.37 MiB" in tree["status"]["lastError"]["description"]

    simulate(story)


def test_a_changed_result_is_reported_again() -> None:
    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.seed.keep_renewing()
        async with running(world.seed, [world.component()]):
            await world.make(asks="reconcile")
            reported = (await world.until(succeeded("Create")))["metadata"]["annotations"][keys.RESULT_DIGESTS]
            assert msgspec.json.decode(reported).keys() == {"nodesCIDR"}, "states change without an operation"
            for edit in ({"nodesCIDR": "10.9.0.0/16"}, {"nodesCIDR": None}):
                calls = len(world.provider.calls)
                await world.seed.patch(POND, "pond", {"status": edit}, subresource="status")
                await settle(600)
                pond = (await world.seed.get(POND, "pond")).tree
                assert pond["status"]["nodesCIDR"] == "10.0.0.0/16"
                assert succeeded("Reconcile")(pond)
                assert len(world.provider.calls) == calls + 2, "it is repaired once"
            for text in ("", "x", "[]", '{"nodesCIDR": "x"}'):
                await world.seed.patch(POND, "pond", {"metadata": {"annotations": {keys.RESULT_DIGESTS: text}}})
                await settle(600)
                pond = (await world.seed.get(POND, "pond")).tree
                assert pond["metadata"]["annotations"][keys.RESULT_DIGESTS] == reported

    simulate(story)


class MovingPonds(Ponds):
    """Its results change with each reconcile."""

    async def reconcile(self, request: Request[Water]) -> Result[Water] | Wait:
        self.size += 1
        return Result(Water("pond"), status={"nodesCIDR": f"10.{self.size}.0.0/16", "providerStatus": {"x": None}})


def test_digests_precede_the_success() -> None:
    """No version of the object has a success with a result that nobody can check."""

    async def story(simulation: Simulation) -> None:
        world = await begin(simulation)
        world.actuator = MovingPonds(world.provider)
        world.seed.keep_renewing()
        done: list[Object] = []

        def see(_old: Object | None, new: Object | None, _first: bool) -> None:
            if new is not None and any(succeeded(kind)(new.tree) for kind in ("Create", "Reconcile")):
                done.append(new)

        def watch(host: Host) -> None:
            host.caches.of(POND).subscribe(see)

        async with running(world.seed, [world.component(), Component("watcher", watch)]):
            await world.make(asks="reconcile")
            await world.until(succeeded("Create"))
            await world.seed.ask(POND, "pond", "reconcile")
            await world.until(succeeded("Reconcile"))
            await settle(600)
        assert {pond.tree["status"]["nodesCIDR"] for pond in done} == {"10.1.0.0/16", "10.2.0.0/16"}
        assert all(keys.RESULT_DIGESTS in pond.metadata.annotations for pond in done)
        assert all(results.changed(pond) == [] for pond in done)

    simulate(story)
