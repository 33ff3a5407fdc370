"""Single tasks of a move: each of the source's that fails for good, a crash after a wake-up, and the renewed lease."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions import leases
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.api.resource import Key
from espalier.kube.errors import ServerFailure
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.servers.faults import Interceptor, refusal

SOURCE = "gardenlet a"
TASKS: dict[str, tuple[str, str]] = {
    "Stop controllers": ("PATCH", "/deployments/kube-controller-manager"),
    "Stop kube-apiserver": ("PATCH", "/deployments/kube-apiserver"),
    "Migrate extension resources": ("PATCH", "/infrastructures/"),
    "Remove extension resources": ("DELETE", "/infrastructures/"),
    "Hand over etcd": ("PATCH", "/etcds/etcd-main"),
    "Release": ("PATCH", "/shoots/apple"),
}
"""The write of each task of the source that writes."""


class Writes(Interceptor):
    """The writes of the source's gardenlet, as it makes them; those that `refused` names fail."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.refused: Callable[[Request], bool] = lambda _request: False

    def of(self, program: str, transport: Transport) -> Transport:
        """The `wrap` of a garden."""
        return self(transport) if program == SOURCE else transport

    def fail(self, task: str) -> None:
        """From now on this task of a move fails. What it comes to may be told in the Shoot's status."""
        method, path = TASKS[task]
        self.refused = lambda item: item.method == method and path in item.path and not item.path.endswith("/status")

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.method != "GET":
            if self.refused(request):
                return refusal(ServerFailure.of("not now"))
            self.made.append(f"{request.method} {request.path}")
        return await transport.request(request)


@pytest.mark.demand(G43="each migrate task failing by itself, then given up")
@pytest.mark.soak
@pytest.mark.parametrize("task", TASKS)
def test_failing_source_is_left_behind_when_ordered(task: str) -> None:
    """G43: and cleans up as soon as the task works again, without a call to the infrastructure."""
    writes = Writes()

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, wrap=writes.of) as world:
            await world.create_shoot()
            await world.healthy("a")
            inventory, calls = dict(world.infrastructures.inventory), world.infrastructures.count("create")
            writes.fail(task)
            await world.move("b")
            await world.until(lambda shoot: any(error.task_id == task for error in shoot.status.last_errors))
            await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
            await world.healthy("b")
            assert world.witness.serving == {"shoot--dev--apple": "b"}
            writes.refused = lambda _request: False
            await world.gone("a")
            assert world.infrastructures.inventory == inventory
            assert world.infrastructures.count("create") == calls
            assert world.infrastructures.count("delete") == 0

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(G74="a crash after the scale-up, machines counted")
def test_gardenlet_dead_after_waking_etcd_goes_on() -> None:
    """G74."""

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation) as world:
            await world.create_shoot()
            await world.healthy("a")
            await world.patch({"spec": {"hibernation": {"enabled": True}}})
            await world.until(lambda shoot: shoot.status.hibernated)
            inventory, calls = dict(world.infrastructures.inventory), world.infrastructures.count("create")
            await world.move("b")
            await world.until(lambda _shoot: is_woken(world), every=0.05)
            await world.garden.kill(SOURCE)
            await asyncio.sleep(3)
            await world.garden.restart(SOURCE)
            moved = await world.healthy("b")
            await world.gone("a")
            assert moved.status.hibernated
            assert world.witness.serving == {}
            assert world.infrastructures.inventory == inventory
            assert world.infrastructures.count("create") == calls

    virtual.run(main, epoch=EPOCH, seed=1)


def is_woken(world: World) -> bool:
    value = world.seeds["a"].cluster.objects.caches.of(Etcd.resource).get(Key("shoot--dev--apple", "etcd-main"))
    return value is not None and value.decode(Etcd).spec.replicas == 1


@pytest.mark.demand(G76="at a reconcile, before all else")
def test_reconcile_renews_the_lease_first() -> None:
    """G76: extensions may act on what comes next for the whole validity."""
    writes = Writes()

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, wrap=writes.of) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(world.timing.lease_renewal / 2)
            writes.made.clear()
            asked = world.now()
            await world.patch({"spec": {"kubernetes": {"version": "1.35.4"}}})
            await world.until(lambda _shoot: any("deployments" in item for item in writes.made), every=0.05)
            first = next(item for item in writes.made if "/leases/" not in item)
            assert "clusters/shoot--dev--apple" in first, writes.made
            cluster = await world.seeds["a"].client.get(Cluster.resource, "shoot--dev--apple")
            expires = leases.expiration(cluster.decode(Cluster))
            assert expires is not None
            assert (expires - asked).total_seconds() >= world.timing.lease_validity

    virtual.run(main, epoch=EPOCH, seed=1)
