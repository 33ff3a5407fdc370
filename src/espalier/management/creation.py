"""Creation of a management cluster: made by a bootstrap as any cluster, and moved into itself.

In the bootstrap the Cluster names the bootstrap as its management cluster. The move changes that to its own name, and
pauses it: from then on it is the record of its management cluster, on which no manager acts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from espalier.api.core import NAMESPACE
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import NotFound, ServerFailure, Unreachable
from espalier.management import installing, plan
from espalier.management import record as records
from espalier.management.plan import Planned
from espalier.management.steps import Actions, Progress, Refused
from espalier.management.webhook_certificates import certified
from espalier.moving import mover as moves
from espalier.moving.condition import Standings, of_management_cluster
from espalier.moving.mover import Judge, Mover
from espalier.moving.sides import Side
from espalier.runtime.clock import SystemClock

_PAUSE = 0.5
_PATIENCE = 120.0
"""Seconds for which a move waits for what follows from the installation: the releases, and a settled cluster."""


async def _nothing(_kubeconfig: bytes) -> None:
    return


class Made(Protocol):
    """Makes the cluster in the bootstrap, and reaches it."""

    async def apply(self) -> None:
        """Write its manifest in the bootstrap, as `espalier create cluster` does, and wait until it is Ready."""

    async def kubeconfig(self) -> bytes:
        """Its kubeconfig, from the bootstrap."""


@dataclass
class Creation:
    """The creation of a management cluster: its manifests, and the connections to both API servers."""

    key: Key
    release: str
    bootstrap: Client
    made: Made
    connect: Callable[[bytes], Client]
    cluster_api: Sequence[Tree]
    """The manifests of Cluster API and its providers."""
    espalier: Sequence[Tree]
    """Those of Espalier, with the ConfigMap that names the record."""
    judge: Judge
    write_kubeconfig: Callable[[bytes], Awaitable[None]]
    progress: Progress
    set_up_git_ops: Callable[[Client], Awaitable[None]] | None = None
    """Installs Flux in the new management cluster, and commits the cluster's files; None without `gitOpsRef`."""
    reach_machines: Callable[[bytes], Awaitable[None]] = _nothing
    """Has the infrastructure's controllers act for the new management cluster, where they run outside of it."""
    now: Callable[[], datetime] = lambda: SystemClock().now()
    _cluster: Client | None = None

    def steps(self) -> list[Planned]:
        """The steps in the bootstrap, in order."""
        has_git_ops = self.set_up_git_ops is not None
        return plan.creation(self.key, self.cluster_api, self.espalier, has_git_ops=has_git_ops)

    @property
    def actions(self) -> Actions:
        """The action of each step."""
        return {
            "create": self._create,
            "cluster-api": self._install_cluster_api,
            "espalier": self._install_espalier,
            "gitops": self._git_ops,
            "move": self._move,
            "mark": self._mark,
            "kubeconfig": self._kubeconfig,
        }

    async def close(self) -> None:
        """Close the connection to the cluster."""
        if self._cluster is not None:
            await self._cluster.close()

    async def _create(self) -> None:
        await self.made.apply()
        await records.keep_kubeconfig(self.bootstrap, self.key, await self.made.kubeconfig())

    async def _reached(self) -> Client:
        if self._cluster is None:
            content = await records.read_kubeconfig(self.bootstrap, self.key)
            if content is None:
                raise Refused(
                    f"Secret eksa-system/{records.name_of(self.key)} of the bootstrap is gone, and with it the way to "
                    f"cluster {self.key}: give `espalier delete cluster {self.key.name}`, and create it again"
                )
            self._cluster = self.connect(content)
            await until_answering(self._cluster, self.key, self.progress)
        return self._cluster

    async def _install(self, trees: Sequence[Tree]) -> None:
        await installing.install(await self._reached(), trees, self.progress)

    async def _install_cluster_api(self) -> None:
        cluster = await self._reached()
        await self._install(await certified(cluster, self.cluster_api, self.now()))
        content = await records.read_kubeconfig(self.bootstrap, self.key)
        if content is not None:
            await self.reach_machines(content)

    async def _install_espalier(self) -> None:
        cluster = await self._reached()
        known = await records.managed(cluster)
        if known is not None and known[0] != self.key:
            raise Refused(
                f"cluster {self.key.name} already manages clusters: its ConfigMap eksa-system/management-cluster names "
                f"Cluster {known[0]}; give the manifest of another cluster"
            )
        await self._install(self.espalier)
        if known is None or not known[1]:
            await records.mark(cluster, records.CREATING)

    async def _git_ops(self) -> None:
        if self.set_up_git_ops is not None:
            await self.set_up_git_ops(await self._reached())

    async def _move(self) -> None:
        cluster = await self._reached()
        await until_released(cluster, self.release, self.progress)
        standings = of_management_cluster("espalier create cluster")
        await moved(self.bootstrap, cluster, self.key, self.judge, self.progress, standings)

    async def _mark(self) -> None:
        cluster = await self._reached()
        await records.mark(cluster, records.RUNNING)

    async def _kubeconfig(self) -> None:
        content = await records.read_kubeconfig(self.bootstrap, self.key)
        if content is not None:
            await self.write_kubeconfig(content)


async def until_answering(cluster: Client, key: Key, progress: Progress) -> None:
    """Wait until an API server answers, as one of a machine that restarts soon does. Raises `Unreachable` if it does
    not.
    """
    end = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            await cluster.list(NAMESPACE, limit=1)
        except Unreachable as error:
            if asyncio.get_running_loop().time() > end:
                raise
            progress.wait(f"cluster {key.name}: {error}")
            await asyncio.sleep(_PAUSE)
        else:
            return


async def until_released(cluster: Client, release: str, progress: Progress) -> None:
    """Wait until the manager of a cluster has installed a release."""
    end, missing = asyncio.get_running_loop().time() + _PATIENCE, ""
    while asyncio.get_running_loop().time() < end:
        try:
            listed = await cluster.list(EKSARelease.resource)
        except (NotFound, ServerFailure) as error:
            missing = str(error)
        else:
            if any(item.tree["spec"].get("version") == release for item in listed.items):
                return
            missing = "it does not exist"
        progress.wait(f"the manager installs release {release}")
        await asyncio.sleep(_PAUSE)
    raise Refused(
        f"EKSARelease of release {release}: {missing}; the log of Deployment eksa-system/espalier-controller-manager "
        "says why; give the same command again to go on"
    )


async def moved(
    source: Client, target: Client, key: Key, judge: Judge, progress: Progress, standings: Standings
) -> None:
    """Move a management cluster, or go on with it. What follows from the last change of it is waited for."""
    here, there = await Side.of(source), await Side.of(target)
    if here is None or there is None:
        raise Refused(f"cluster {key}: namespace eksa-system is gone {'here' if here is None else 'there'}")
    mover = Mover(here, there, judge, progress.wait, standings=standings)
    end = asyncio.get_running_loop().time() + _PATIENCE
    while True:
        try:
            await mover.move([key])
        except (moves.Refused, ServerFailure) as error:  # also a webhook whose manager has just restarted
            problems = error.problems if isinstance(error, moves.Refused) else [str(error)]
            passes = not isinstance(error, moves.Refused) or error.passes
            if not passes or asyncio.get_running_loop().time() > end:
                raise Refused(*problems) from error
            progress.wait(problems[0])
            await asyncio.sleep(_PAUSE)
        else:
            return
