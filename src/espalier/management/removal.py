"""Deletion of a management cluster: its objects are moved to a bootstrap first, for what deletes it must not run on it.

Also of one that is not created yet, or whose move is in the middle.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.management import plan
from espalier.management import record as records
from espalier.management.creation import moved, until_answering
from espalier.management.handed_over import share_configuration, suspend
from espalier.management.lost_record import existing
from espalier.management.plan import Planned
from espalier.management.steps import Actions, Progress, Refused
from espalier.moving.condition import of_management_cluster
from espalier.moving.mover import Judge, Mover
from espalier.moving.record import COPYING, record_of
from espalier.moving.sides import Side


@dataclass
class Removal:
    """The deletion of a management cluster by a bootstrap."""

    key: Key
    bootstrap: Client
    connect: Callable[[bytes], Client]
    judge: Judge
    progress: Progress
    until_gone: Callable[[Client], Awaitable[None]]
    """Waits until the Cluster is gone from the bootstrap."""

    def steps(self) -> list[Planned]:
        """The steps in the bootstrap, in order. It is removed after them, with the machines."""
        return plan.removal(self.key)

    @property
    def actions(self) -> Actions:
        """The action of each step."""
        return {"return": self._return, "delete": self._delete}

    async def _return(self) -> None:
        content = await records.read_kubeconfig(self.bootstrap, self.key)
        if content is None:
            return  # it was not created yet, so it never left
        cluster = self.connect(content)
        try:
            if await is_at(self.bootstrap, self.key, moving=False):
                return
            await until_answering(cluster, self.key, self.progress)
            await check_manages_nobody(cluster, self.key)
            await returned(self.bootstrap, cluster, self.key, self.judge, self.progress)
        finally:
            await cluster.close()

    async def _delete(self) -> None:
        try:
            await self.bootstrap.delete(Cluster.resource, self.key.name, self.key.namespace)
        except NotFound:
            return
        await self.until_gone(self.bootstrap)


async def is_at(client: Client, key: Key, *, moving: bool) -> bool:
    """True if a Cluster is there, and a move of it is `moving` or not."""
    cluster = await existing(client, key)
    return cluster is not None and (record_of(cluster) is not None) is moving


async def returned(bootstrap: Client, cluster: Client, key: Key, judge: Judge, progress: Progress) -> None:
    """Have a management cluster at its bootstrap, wherever a move of it was interrupted.

    Raises `Refused`, which says how Flux goes on if it is suspended by then.
    """
    here, stored = await Side.of(bootstrap), await existing(bootstrap, key)
    there = await Side.of(cluster)
    standings = of_management_cluster(f"espalier delete cluster {key.name}", is_deletion=True)
    record = record_of(stored) if stored is not None else None
    if here is not None and there is not None and record is not None and record.source == here.uid:
        if record.state == COPYING:
            await Mover(here, there, judge, progress.wait).take_back([key])
            return
        await moved(bootstrap, cluster, key, judge, progress, standings)
        stored = None
    if (stored is None or record is not None) and await existing(cluster, key) is not None:
        await bootstrap.apply(NAMESPACE, {"metadata": {"name": key.namespace}})  # as the creation does
        await share_configuration(cluster, bootstrap, key)
        suspended = await suspend(cluster, progress)
        try:
            await moved(cluster, bootstrap, key, judge, progress, standings)
        except Refused as refused:
            if not suspended:
                raise
            raise Refused(
                *refused.problems,
                f"Flux of cluster {key.name} is suspended (Kustomization {', '.join(map(str, suspended))}): to keep "
                "the cluster, set spec.suspend: false of each; to delete it, give the same command again",
            ) from refused


async def check_manages_nobody(cluster: Client, key: Key) -> None:
    """Raises `Refused` with the Clusters that a management cluster manages."""
    try:
        listed = (await cluster.list(Cluster.resource)).items
    except NotFound:
        return  # it has no kinds of ours yet
    managed = sorted(str(item.key) for item in listed if item.key != key)
    if managed:
        raise Refused(
            f"cluster {key} can't be deleted: it manages {first(managed, 10)}; delete them first, or move them to "
            "another management cluster with `espalier move`"
        )
