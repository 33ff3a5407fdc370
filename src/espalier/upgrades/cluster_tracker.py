"""Follows clusters while they have an upgrade, and no others."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from espalier.clusterapi.infrastructure import Infrastructure, Infrastructures
from espalier.kube.client import Client
from espalier.runtime.cache import Caches
from espalier.runtime.remote import RemoteClients
from espalier.upgrades.cluster_view import ClusterAPIObjects, ClusterView, Workload

_SOON = 30.0
"""Seconds in which a workload cluster that answers is read."""


@dataclass
class _Side:
    """Caches that are kept up to date."""

    caches: Caches
    since: float
    filled: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def is_being_read(self) -> bool:
        """True while they may be filled any moment."""
        is_new = asyncio.get_running_loop().time() - self.since < _SOON
        return is_new and not self.filled and self.caches.silent_since is None

    def stop(self) -> None:
        """Stop updating them."""
        if self.task is not None:
            self.task.cancel()


@dataclass
class _Followed:
    capi_objects: ClusterAPIObjects
    near: _Side
    of_providers: dict[Infrastructure, _Side] = field(default_factory=dict)
    """Started once it is known which providers the cluster uses."""
    workload: Workload | None = None
    far: _Side | None = None

    @property
    def sides(self) -> list[_Side]:
        """All sides that are kept up to date."""
        return [self.near, *self.of_providers.values(), *([self.far] if self.far else [])]


class ClusterTracker:
    """Follows clusters by name. Runs until cancelled, and then stops following all of them."""

    def __init__(
        self, client: Client, remotes: RemoteClients, infrastructures: Infrastructures, rng: random.Random
    ) -> None:
        self._client = client
        self._remotes = remotes
        self._infrastructures = infrastructures
        self._rng = rng
        self._followed: dict[str, _Followed] = {}
        self._subscribers: list[Callable[[str], None]] = []

    def subscribe(self, changed: Callable[[str], None]) -> None:
        """Call `changed` with a cluster's name when something in it changes, and when its caches are filled."""
        self._subscribers.append(changed)

    def view(self, cluster: str) -> ClusterView | None:
        """The cluster as its caches show it; None until they are filled. Starts following it if needed."""
        followed = self._followed.get(cluster)
        if followed is None:
            caches = self._caches(self._client)
            capi_objects = ClusterAPIObjects(caches, cluster, self._infrastructures)
            followed = self._followed[cluster] = _Followed(capi_objects, self._side(cluster, caches))
        if not followed.near.filled or not self._follow_providers(cluster, followed):
            return None
        self._reach(cluster, followed)
        far = followed.far
        if far is None or not far.filled:
            return ClusterView(followed.capi_objects, None, far is not None and far.is_being_read)
        return ClusterView(followed.capi_objects, followed.workload)

    def leave(self, cluster: str) -> None:
        """Stop following a cluster."""
        followed = self._followed.pop(cluster, None)
        for side in followed.sides if followed else ():
            side.stop()

    async def run(self) -> None:
        """Run until cancelled, then stop following all clusters."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            sides = [side for one in self._followed.values() for side in one.sides]
            for cluster in list(self._followed):
                self.leave(cluster)
            tasks = [side.task for side in sides if side.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow_providers(self, cluster: str, followed: _Followed) -> bool:
        """Follow the infrastructure of the providers that the cluster uses; True once it is read."""
        for provider in followed.capi_objects.providers() - followed.of_providers.keys():
            caches = self._caches(self._client)
            followed.capi_objects.add(caches, [provider])
            followed.of_providers[provider] = self._side(cluster, caches)
        return all(side.filled for side in followed.of_providers.values())

    def _reach(self, cluster: str, followed: _Followed) -> None:
        """Follow the workload cluster with its current kubeconfig."""
        content = followed.capi_objects.kubeconfig
        try:
            client = self._remotes.get(followed.capi_objects.identity, content) if content is not None else None
        except ValueError:  # an invalid kubeconfig: the same as none
            client = None
        if followed.workload is not None and followed.workload.client is client:
            return
        if followed.far is not None:
            followed.far.stop()
        followed.workload = followed.far = None
        if client is not None:
            caches = self._caches(client)
            followed.workload = Workload(client, caches)
            followed.far = self._side(cluster, caches)

    def _caches(self, client: Client) -> Caches:
        return Caches(client, rng=random.Random(self._rng.getrandbits(64)))  # noqa: S311 - spreads watches

    def _side(self, cluster: str, caches: Caches) -> _Side:
        loop = asyncio.get_running_loop()
        side = _Side(caches, loop.time())
        side.task = loop.create_task(self._keep(cluster, side), name=f"follow {cluster}")
        return side

    async def _keep(self, cluster: str, side: _Side) -> None:
        running = asyncio.ensure_future(side.caches.run())
        try:
            await side.caches.wait_synced()
            side.filled = True
            for cache in side.caches.all:
                cache.subscribe(lambda _old, _new, _first: self._notify(cluster))
            self._notify(cluster)
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _notify(self, cluster: str) -> None:
        for changed in self._subscribers:
            changed(cluster)
