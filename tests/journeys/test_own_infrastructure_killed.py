"""A management cluster is killed at each step of making another one from files: it goes on, or all is undone.

The steps are those of the code, with GitOps.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from espalier.api.core import CONFIG_MAP, DEPLOYMENT, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.flux import NAMESPACE as FLUX
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.management.components import components
from espalier.cli.management.own_infrastructure import of_folder
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.management import installing, plan
from espalier.management import record as records
from espalier.management.creation import Creation
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments import component_folders
from tests.support.environments.bootstraps import (
    MANAGEMENT,
    RELEASE,
    Bootstrap,
    Made,
    Quiet,
    acts,
    created,
    machines,
    manifest,
    until_step,
)
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managed_environment import RELEASES
from tests.support.servers.dying import Dying

pytestmark = pytest.mark.embedded

SECOND = Key("default", "second")
STEPS = [step.name for step in plan.creation(SECOND, [], [], has_git_ops=True)]
FIRST_ONES = ("cluster-api", "move")
AT_STEPS = pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in FIRST_ONES else pytest.mark.soak) for step in STEPS]
)


@dataclass
class ByManagementCluster(Bootstrap):
    """A command that makes the second management cluster by the first one."""

    cluster_api: list[Tree] = field(default_factory=list)

    def creation(self, client: Client) -> Creation:
        creation = super().creation(client)
        creation.made = Made(client, self.key, MANAGEMENT.name)
        creation.cluster_api = self.cluster_api
        creation.set_up_git_ops = install_flux
        return creation

    async def killed(self, act: Callable[[], Awaitable[None]], step: str) -> None:
        """A command that ends at the beginning of a step, and one that ends in the middle of it."""
        for seconds in (0.01, 0.3):
            record = await records.read(self.client(), SECOND)
            done = STEPS.index(record.step) if record is not None and record.step else -1
            if STEPS.index(step) > done:  # a short one may have ended before
                await until_step(act, self, step, seconds)
            await self.never_both()

    async def never_both(self) -> None:
        """Never do both management clusters act on the second one."""
        content = await records.read_kubeconfig(self.client(), SECOND)
        if content is not None:
            there = self.connect(content)
            both = await acts(self.client(), SECOND, of_its_own=False), await acts(there, SECOND, of_its_own=True)
            assert not all(both)
            await there.close()

    async def of_second(self) -> set[str]:
        """The objects of the second management cluster in the first one, and those made for it."""
        kinds = [(kind.resource, SYSTEM_NAMESPACE) for kind in CLUSTER_API_KINDS if kind.resource.namespaced]
        places = [*kinds, (Cluster.resource, None), (SECRET, SYSTEM_NAMESPACE), (CONFIG_MAP, SYSTEM_NAMESPACE)]
        return {
            f"{resource.kind} {item.name}"
            for resource, namespace in places
            for item in (await self.client().list(resource, namespace)).items
            if SECOND.name in item.name
        }


async def install_flux(cluster: Client) -> None:
    await installing.install(cluster, components.simulated_flux(RELEASE, FLUX, RELEASES), Quiet())


def told(tmp_path: Path, story: Callable[[ByManagementCluster], Awaitable[None]]) -> None:
    """A story that begins with the first management cluster."""
    folder = component_folders.written(tmp_path / "components")
    tree = manifest(SECOND, managed_by=MANAGEMENT.name)[-1]
    trees = of_folder(folder, tree, PROVIDERS["DockerDatacenterConfig"], {})

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts:
            await created(hosts)
            workload = hosts.workloads.reach(Key(SYSTEM_NAMESPACE, MANAGEMENT.name))
            assert workload is not None
            await story(ByManagementCluster(hosts, workload.server, key=SECOND, cluster_api=trees))

    run(main, epoch=EPOCH, seed=1)


async def holds(env: ByManagementCluster) -> None:
    """The second one manages itself, with each machine once; the first one has its record alone."""
    cluster = env.connect(env.written[-1])
    stored = (await cluster.get(Cluster.resource, SECOND.name, SECOND.namespace)).decode(Cluster)
    assert stored.status.ready
    assert await records.managed(cluster) == (SECOND, records.RUNNING)
    assert len((await cluster.list(NODE)).items) == 3
    deployments = [str(item.key) for item in (await cluster.list(DEPLOYMENT)).items if item.namespace != "kube-system"]
    assert len(deployments) == len(set(deployments)) == 4
    name = records.name_of(SECOND)
    assert await env.of_second() == {f"ConfigMap {name}", f"Secret {name}"}
    await records.forget(env.client(), SECOND)
    assert await env.of_second() == set()
    assert [item.name for item in (await env.client().list(Cluster.resource)).items] == [MANAGEMENT.name]


@AT_STEPS
def test_a_creation_killed_at_a_step_goes_on(tmp_path: Path, step: str) -> None:
    async def story(env: ByManagementCluster) -> None:
        await env.killed(env.create, step)
        await env.create()
        await asyncio.sleep(60)
        await holds(env)

    told(tmp_path, story)


@AT_STEPS
def test_a_creation_killed_at_a_step_is_undone(tmp_path: Path, step: str) -> None:
    """The deletion is killed as well, in each of its steps."""

    async def story(env: ByManagementCluster) -> None:
        await env.killed(env.create, step)
        for deaths in range(3):
            env.wrap = Dying(2 + 4 * deaths)
            with suppress(Unreachable):
                await env.delete()
            await env.never_both()
        env.wrap = lambda transport: transport
        await env.delete()
        await records.forget(env.client(), SECOND)
        assert await env.of_second() == set()
        assert not env.hosts.workloads.has_data(Key(SYSTEM_NAMESPACE, SECOND.name))
        assert [item.name for item in (await env.client().list(Cluster.resource)).items] == [MANAGEMENT.name]

    told(tmp_path, story)


@pytest.mark.parametrize("more", [29, *(pytest.param(more, marks=pytest.mark.soak) for more in (3, 7))])
def test_a_creation_killed_at_any_write_goes_on(tmp_path: Path, more: int) -> None:
    """It dies at a later write each time; that one is not answered."""

    async def story(env: ByManagementCluster) -> None:
        deaths = 0
        while not await is_done(env):
            env.wrap = Dying(1 + more * deaths)
            with suppress(Unreachable):
                await env.create()
            deaths += 1
            await env.never_both()
        assert deaths > 3
        await asyncio.sleep(60)
        await holds(env)

    told(tmp_path, story)


async def is_done(env: ByManagementCluster) -> bool:
    record = await records.read(env.client(), SECOND)
    return record is not None and record.step == STEPS[-1]
