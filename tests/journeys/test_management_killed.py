"""The creation of a management cluster is killed at every step, and the same command goes on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from pathlib import Path

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.core import NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.local import lock
from espalier.kube.errors import NotFound, Unreachable
from espalier.management import plan
from espalier.management import record as records
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.bootstraps import MANAGEMENT, Bootstrap, acts, bootstrap, machines, until_step
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.environment import PROGRAM, LocalEnvironment
from tests.support.environments.managed_clusters import EXAMPLES
from tests.support.servers.dying import Dying
from tests.support.waiting import eventually

pytestmark = pytest.mark.embedded

STEPS = [item.name for item in plan.creation(MANAGEMENT, [], [], has_git_ops=False)]


async def holds(env: Bootstrap) -> None:
    """The management cluster has itself, is ready, and the bootstrap has nothing of it; each machine is the first."""
    cluster = env.connect(env.written[-1])
    result = (await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)).decode(Cluster)
    assert result.status.ready
    assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
    for resource, namespace in ((Cluster.resource, MANAGEMENT.namespace), (capi.Cluster.resource, SYSTEM_NAMESPACE)):
        with pytest.raises(NotFound):
            await env.client().get(resource, MANAGEMENT.name, namespace)
    names = sorted(item.name for item in (await cluster.list(NODE)).items)
    assert len(names) == 3, names


@pytest.mark.parametrize("more", [23, *(pytest.param(item, marks=pytest.mark.soak) for item in (1, 2, 5))])
def test_a_command_killed_at_any_write_goes_on(more: int) -> None:
    """It dies at a later write each time; that one is not answered."""

    async def main(simulation: Simulation) -> None:
        async with machines(simulation.clock) as hosts, bootstrap(hosts) as env:
            deaths = 0
            while not env.written or deaths == 0:
                env.wrap = dying = Dying(1 + more * deaths)
                try:
                    await env.create()
                except Unreachable:
                    assert dying.is_dead
                    deaths += 1
                    await asyncio.sleep(1)
                    await never_both(env)
            assert deaths > 3
            await env.create()
            await asyncio.sleep(60)
            await holds(env)

    run(main, epoch=EPOCH, seed=1)


async def never_both(env: Bootstrap) -> None:
    content = await records.read_kubeconfig(env.client(), MANAGEMENT)
    if content is not None:
        there = env.connect(content)
        both = await acts(env.client(), MANAGEMENT, of_its_own=False), await acts(there, MANAGEMENT, of_its_own=True)
        assert both != (True, True)
        await there.close()


@pytest.mark.parametrize(
    "step", [pytest.param(step, marks=[] if step in ("espalier", "move") else pytest.mark.soak) for step in STEPS]
)
def test_a_machine_that_restarts_at_any_step_goes_on(step: str) -> None:
    """The bootstrap and the simulated machines restart with their data, and the command is given again."""

    async def main(simulation: Simulation) -> None:
        store, stores = MemoryStore(), MemoryStores()
        async with machines(simulation.clock, stores=stores) as hosts, bootstrap(hosts, store) as env:
            await until_step(env.create, env, step)
            written = env.written
        async with machines(simulation.clock, stores=stores, seed=2) as hosts, bootstrap(hosts, store) as env:
            env.written += written
            await env.create()
            await asyncio.sleep(60)
            await holds(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(words, marks=[] if words == "move cluster" else pytest.mark.soak, id=words)
        for words in (
            "start the bootstrap",
            "create cluster",
            "install Cluster API",
            "install Espalier",
            "move cluster",
            "remove the bootstrap",
        )
    ],
)
def test_kill_9_of_command_and_bootstrap_goes_on(tmp_path: Path, words: str) -> None:
    machine = LocalEnvironment(tmp_path / "home")
    machine.home.mkdir()
    folder = machine.home / "management-clusters" / "management"
    arguments = ["create", "cluster", "-f", str(EXAMPLES / "management.yaml"), "--boot-seconds", "0.05"]
    try:
        with subprocess.Popen(
            [*PROGRAM, *arguments], stderr=subprocess.PIPE, env=machine.environment, cwd=machine.home, text=True
        ) as command:
            assert command.stderr is not None
            for line in command.stderr:
                if line.startswith(f"  {words}"):
                    break
            command.send_signal(signal.SIGKILL)
        changed = (EXAMPLES / "management.yaml").read_text().replace("count: 2", "count: 3")
        if words == "move cluster":
            refused = machine.espalier("create", "cluster", "-f", "-", stdin=changed)
            assert (refused.code, "found 3, begun with 2" in " ".join(refused.err.split())) == (1, True), refused.err
        running = lock.holder(folder / "world.lock")
        if running is not None and running.pid:
            subprocess.run(["/bin/kill", "-9", str(running.pid)], check=True)
            asyncio.run(eventually(lambda: lock.holder(folder / "world.lock"), lambda holder: holder is None))
        made = machine.espalier(*arguments)
        is_done = words == "remove the bootstrap" and "already exists, and manages itself" in made.err
        assert made.code == 0 or is_done, made.err
        kubeconfig = machine.home / "management" / "management-eks-a-cluster.kubeconfig"
        shown = machine.espalier("get", "clusters", "-A", "-o", "name", KUBECONFIG=str(kubeconfig))
        assert shown.out.split() == ["cluster.anywhere.eks.amazonaws.com/management"], shown.err
    finally:
        machine.espalier("down", "--delete-data", ESPALIER_HOME=str(folder))
