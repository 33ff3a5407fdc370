"""Two management clusters in one process that reach the same machines: where moves between them begin."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.clusterapi import names
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.kube.client import Client
from espalier.moving import backup, folder
from espalier.moving.mover import Mover
from espalier.moving.restore import Restore
from espalier.moving.sides import Side
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.simulated import SIMULATED
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

JUDGE = ClusterJudge(SIMULATED)

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


async def side(client: Client) -> Side:
    result = await Side.of(client)
    assert result is not None
    return result


async def mover(source: Client, target: Client) -> Mover:
    return Mover(await side(source), await side(target), JUDGE, lambda _sentence: None)


async def back_up(client: Client, path: Path, keys: Sequence[Key] = (GARDEN,)) -> backup.Taken:
    """Copy clusters into a folder, as `espalier move --to-folder` does."""
    source = await side(client)
    taken = await backup.take(source, JUDGE, keys, lambda _sentence: None)
    clusters = [folder.Named(*key) for key in taken.clusters]
    folder.write(path, folder.Index(folder.FORMAT, "v1", source.uid, "2026-01-01T00:00:00Z", clusters, []), taken.items)
    return taken


async def restoring(path: Path, client: Client) -> Restore:
    """A restore from a folder, as `espalier move --from-folder` has it."""
    result, target = folder.read(path), await side(client)

    def finish(key: Key) -> None:
        folder.claim(path, [key], target.uid)
        folder.finish(path, key, target.uid)

    finished = folder.finished(path, result.index.keys)
    return Restore(
        result.index.source, result.items, target, JUDGE, lambda _sentence: None, finished=finished, finish=finish
    )


async def objects(env: ManagedClusters, cluster: str = GARDEN.name) -> set[str]:
    """The objects of a cluster in the system's namespace, Secrets included."""
    results = set()
    for resource in (*(kind.resource for kind in CLUSTER_API_KINDS), SECRET):
        for item in (await env.client.list(resource, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}={cluster}")).items:
            results.add(f"{resource.kind} {item.name}")
    return results
