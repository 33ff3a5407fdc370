"""Random histories of one upgrade by runtime hooks: what fails and what somebody edits while Cluster API asks.

The simulated Cluster API asks no hooks. A stand-in does what the real one does: it has one machine after the other
updated, control planes first, writes what a machine becomes before it asks, and asks until all is done.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from functools import cache

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS, FrontEnd, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.upgrades.hooks.registration import Extension
from tests.support.environments.in_place_environment import EPOCH, NEW, machines, spec
from tests.support.environments.in_place_watcher import CALM, Watcher
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.recording import EnvironmentState
from tests.support.environments.upgraders import Upgraders
from tests.support.histories.hook_calls import PAUSED, accept, ask, discover, mark, stands_aside
from tests.support.histories.in_place_histories import (
    ACTS,
    TWO_CONTROL_PLANES,
    UPGRADES,
    History,
    Nodes,
    Wish,
    live,
    recover,
    remedy,
    settled,
)
from tests.support.servers.faults import Faults

SHAPES = ((3, 1), (3, 2))
"""A control plane of one is refused."""
OTHERS = (
    *("delete a Machine", "scale", "ask for version", "ask for"),  # what the stand-in does not do
    *("pause a control plane", "protect a Machine", "say that a control plane is replacing"),
    *("strip annotations of a KubeadmControlPlane", "strip annotations of a MachineDeployment"),  # by them it stands in
)
HANDS = tuple(name for name in ACTS if name not in OTHERS)


@cache
def ready(control_planes: int, workers: int) -> EnvironmentState:
    """A cluster whose machines are to be upgraded by hooks, as it was when it was ready."""

    async def main(simulation: Simulation) -> EnvironmentState:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_environment(simulation.clock, store=store, stores=stores, front_end=FrontEnd.HOOKS) as env:
            await Extension(env.manager.client, {"url": "https://127.0.0.1:9443"}).trust(b"authority")
            await discover(env)
            await env.apply(**spec(control_planes, workers))
            await env.until_ready()
            await stands_aside(env)
            await asyncio.sleep(CALM)
            return EnvironmentState.of(store, stores, simulation.clock)

    return run(main, epoch=EPOCH, seed=1)


class AskingClusterAPI:
    """Has machines updated, as long as it runs; derives what is next from objects."""

    def __init__(self, env: ManagedEnvironment) -> None:
        self._env = env
        self.message = ""
        """The last answer of a hook, or why there was none."""

    async def run(self) -> None:
        while True:
            try:
                await self._next()
            except (KubeError, AssertionError, LookupError) as error:
                self.message = str(error)
            await asyncio.sleep(1.0)

    async def _next(self) -> None:
        owners = ((KubeadmControlPlane.resource, "garden", True), (MachineDeployment.resource, "garden-md-0", False))
        for resource, name, is_plane in owners:
            system_namespace = await self._env.client.get(resource, name, SYSTEM_NAMESPACE)
            owner = system_namespace.tree
            template = owner["spec"] if is_plane else owner["spec"]["template"]["spec"]
            for machine in await machines(self._env, control_plane=is_plane):
                is_as_asked = machine.tree["spec"]["version"] == template["version"]
                if UPDATE_IN_PROGRESS in machine.metadata.annotations and is_as_asked:
                    await self._ask(machine)
                    return
                if not is_as_asked:
                    await accept(self._env, machine)
                    return
            if template["version"] == NEW and PAUSED in owner["metadata"].get("annotations", {}):
                if not is_plane:
                    await self._keep_set(template)
                # The simulated one says that all are up to date, for workers and the Cluster to follow.
                annotations: Tree = {"metadata": {"annotations": {PAUSED: None}}}
                await mark(self._env, system_namespace, resource, annotations)

    async def _keep_set(self, template: Tree) -> None:
        """The machines of a group stay in their MachineSet, which is what was asked for; Cluster API moves them."""
        for machine_set in (await self._env.client.list(MachineSet.resource, SYSTEM_NAMESPACE)).items:
            await mark(self._env, machine_set, MachineSet.resource, {"spec": {"template": {"spec": template}}})

    async def _ask(self, machine: Object) -> None:
        answer = await ask(self._env, machine.name)
        self.message = answer.get("message", "")
        if answer["status"] == "Success" and not answer.get("retryAfterSeconds"):
            done: Tree = {"metadata": {"annotations": {UPDATE_IN_PROGRESS: None}}}
            await mark(self._env, machine, Machine.resource, done)


def tell(seed: int) -> list[str]:
    """Live through the history of a seed. Raises `AssertionError` that tells it when it does not end well."""
    rng = random.Random(seed)
    state = ready(*(shape := rng.choice(SHAPES)))
    chosen = [rng.choice(HANDS) for _ in range(rng.randint(2, 9))]

    async def main(simulation: Simulation) -> list[str]:
        store, stores = state.opened()
        faults, watcher, nodes = Faults(random.Random(rng.getrandbits(64))), Watcher(store, stores), Nodes()
        wish, told, left, has_begun = Wish("1.35", *shape), [f"seed {seed}: {shape}"], iter(chosen), False
        while True:
            async with managed_environment(
                simulation.clock,
                seed=rng.getrandbits(32),
                store=store,
                stores=stores,
                wrap=faults,
                front_end=FrontEnd.HOOKS,
            ) as env:
                upgraders = Upgraders(env.workloads)
                upgraders.static_pods, upgraders.files, upgraders.read = nodes.static_pods, nodes.files, nodes.read
                h = History(env, rng, upgraders, watcher, wish, told, faults)
                asking = AskingClusterAPI(env)
                task = asyncio.create_task(asking.run())
                try:
                    if not has_begun:
                        has_begun = True
                        h.say(f"ask: {await h.ask(version='1.36')}")
                    if await _is_over(h, left, asking):
                        return told
                finally:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)
                wish = h.wish

    return run(main, epoch=state.at, seed=seed)


async def _is_over(h: History, left: Iterator[str], asking: AskingClusterAPI) -> bool:
    """True if it ended well; False if the manager died."""
    if not await live(h, left):
        return False
    h.faults.present, h.faults.after_write = (), None
    try:
        await end_well(h, asking)
    except AssertionError as error:
        raise AssertionError("\n".join([*h.told, f"a hook says: {asking.message}", str(error)])) from None
    return True


async def end_well(h: History, asking: AskingClusterAPI) -> None:
    """Continue upgrades that people held, and repair those that failed. Raises `AssertionError`."""
    await recover(h)
    for _ in range(8):
        messages = await settled(h)
        if not messages:
            break
        done = await remedy(h, [*messages, asking.message])  # Cluster API shows it on the Machine
        await asyncio.sleep(CALM)
        assert done, "\n".join(["nothing is said that helps:", *messages])
        h.say(f"remedy: {done}")
    else:
        raise AssertionError("\n".join(["no remedy helps:", *await settled(h)]))
    for kind in UPGRADES:
        for system_namespace in (await h.env.client.list(kind, SYSTEM_NAMESPACE)).items:
            assert kind is NodeUpgrade.resource, f"{kind.kind} {system_namespace.name}: hooks need none"
            await h.env.client.delete(kind, system_namespace.name, SYSTEM_NAMESPACE)  # written by hand
    await asyncio.sleep(CALM)
    wrong = [item for item in h.watcher.left() if not item.endswith(f" has {PAUSED}")]
    wrong += [f"versions are {element}" for element in [h.watcher.versions()] if element != {NEW}]
    written = re.findall(r"write a NodeUpgrade: (?:hand-)?(\S+?)(?:-node-upgrader)? to ", "\n".join(h.told))
    by_hand = {what for what in h.watcher.broken if what.startswith("pods ") and any(item in what for item in written)}
    wrong += [what for what in h.watcher.broken if what not in by_hand or TWO_CONTROL_PLANES.fullmatch(what)]
    assert not wrong, "\n".join(["it ended otherwise:", *wrong])
