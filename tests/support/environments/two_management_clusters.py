"""Two management clusters in one process that reach the same machines: where moves between them begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from espalier.api.core import SECRET
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.clusters.move_judge import ClusterJudge
from espalier.clusterapi import names
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.kube.client import Client
from espalier.moving.mover import Mover
from espalier.moving.sides import Side
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.registry import SIMULATED
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managed_clusters import ManagedClusters
from tests.support.environments.managed_environment import (
    CALM,
    GARDEN,
    NAMESPACE,
    ManagedEnvironment,
    managed_environment,
)

OTHER, SECOND = Key(NAMESPACE, "other"), Key(NAMESPACE, "second")

Story = Callable[[ManagedEnvironment, ManagedEnvironment], Awaitable[None]]


def between(story: Story, *, layers: Sequence[Layer] = LAYERS) -> None:
    """Two management clusters, which reach the same machines; the first has a settled cluster. `layers` are those of
    the second's manager.
    """

    async def main(simulation: Simulation) -> None:
        async with (
            managed_environment(simulation.clock) as source,
            managed_environment(simulation.clock, seed=2, machines_of=source.workloads, layers=layers) as target,
        ):
            await source.apply()
            await target.apply(name="other")
            await source.until_ready()
            await target.until_ready(OTHER)
            await asyncio.sleep(CALM)
            await story(source, target)

    run(main, epoch=EPOCH, seed=1)


async def mover(source: Client, target: Client) -> Mover:
    here, there = await Side.of(source), await Side.of(target)
    assert here is not None
    assert there is not None
    return Mover(here, there, ClusterJudge(SIMULATED), lambda _sentence: None)


async def objects(env: ManagedClusters, cluster: str = GARDEN.name) -> set[str]:
    """The objects of a cluster in the system's namespace, Secrets included."""
    found = set()
    for resource in (*(kind.resource for kind in CLUSTER_API_KINDS), SECRET):
        for one in (await env.client.list(resource, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}={cluster}")).items:
            found.add(f"{resource.kind} {one.name}")
    return found
