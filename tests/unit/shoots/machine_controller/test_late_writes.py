"""Writes of a machine controller manager that are about to be sent when its shoot begins to move."""

from __future__ import annotations

from dataclasses import dataclass, field

from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.machines import MachineDeployment, MachineSet
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime.virtual import Simulation
from espalier.shoots.machine_controller import setup
from tests.support.environments.simulated_loop import simulate
from tests.support.gardens.clouds import new_world
from tests.support.gardens.extensions import SHOOT, TIMING, Seed, running, settle, succeeded
from tests.support.gardens.local_provider_cases import CASES

WORKER = next(case for case in CASES if case.resource == Worker.resource)


@dataclass
class MigratesBeforeResize:
    """Requests migration of the Worker while the first change of a MachineSet waits to be sent."""

    inner: Transport
    seed: Seed
    delayed: list[str] = field(default_factory=list)

    async def request(self, request: Request) -> Response:
        if request.method == "PATCH" and "/machinesets/" in request.path and not self.delayed:
            self.delayed.append(request.path)
            await self.seed.ask(Worker.resource, "rose", "migrate")
            await settle(1.0)  # shorter than the guard's check interval, long enough for the caches
        return await self.inner.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self.inner.stream(request)

    async def close(self) -> None:
        await self.inner.close()


def test_machine_set_is_not_resized_in_a_migration() -> None:
    async def story(simulation: Simulation) -> None:
        world = await new_world(simulation, "a")
        seed = world.seeds["a"]
        seed.keep_renewing()
        async with world.extensions("a"):
            await seed.make(Worker.resource, "rose", await WORKER.spec_for(world, seed), asks="reconcile")
            await seed.until(Worker.resource, "rose", succeeded("Create"))
        machine_controller = setup.component(world.cloud.called_by("a"), TIMING)
        before = (await seed.client.list(MachineSet.resource, SHOOT)).items[0].tree["spec"]["replicas"]
        proxies: list[MigratesBeforeResize] = []

        def wrap(transport: Transport) -> Transport:
            proxies.append(MigratesBeforeResize(transport, seed))
            return proxies[0]

        async with running(seed, [machine_controller], wrap):
            deployment = (await seed.client.list(MachineDeployment.resource, SHOOT)).items[0]
            await seed.patch(MachineDeployment.resource, deployment.name, {"spec": {"replicas": before + 1}})
            await settle(60)
        assert proxies[0].delayed
        after = (await seed.client.list(MachineSet.resource, SHOOT)).items[0].tree["spec"]["replicas"]
        assert after == before

    simulate(story)
