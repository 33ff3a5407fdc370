"""Follows clusters only while they have an upgrade."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from espalier.clusterapi.infrastructures.infrastructure import Infrastructure, Infrastructures
from espalier.kube.client import Client
from espalier.runtime.caches.cache import Caches
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.upgrades.observed.cluster_view import ClusterAPIObjects, ClusterView, Workload

_SOON = 30.0
"""Seconds in which a workload cluster that answers is usually read."""


@dataclass
class _RunningCaches:
    """A running set of caches of one API server."""

    caches: Caches
    since: float
    filled: bool = False
    task: asyncio.Task[None] | None = None

    @property
    def is_being_read(self) -> bool:
        """True while the first list is expected to complete soon."""
        is_new = asyncio.get_running_loop().time() - self.since < _SOON
        return is_new and not self.filled and self.caches.silent_since is None

    def stop(self) -> None:
        """Stop the watches."""
        if self.task is not None:
            self.task.cancel()


@dataclass
class _Followed:
    """A followed cluster: the caches of its Cluster API objects, and those of the workload cluster."""

    capi_objects: ClusterAPIObjects
    management: _RunningCaches
    providers: dict[Infrastructure, _RunningCaches] = field(default_factory=dict)
    """The caches of infrastructure objects, from the time that the cluster uses a provider."""
    workload: Workload | None = None
    workload_caches: _RunningCaches | None = None

    @property
    def running_caches(self) -> list[_RunningCaches]:
        """All running caches."""
        return [self.management, *self.providers.values(), *([self.workload_caches] if self.workload_caches else [])]


class ClusterTracker:
    """Follows clusters by name, from the first `view` until `leave`, or until `run` is cancelled."""

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
            followed = self._followed[cluster] = _Followed(capi_objects, self._start(cluster, caches))
        if not followed.management.filled or not self._follow_providers(cluster, followed):
            return None
        self._follow_workload(cluster, followed)
        workload_caches = followed.workload_caches
        if workload_caches is None or not workload_caches.filled:
            return ClusterView(
                followed.capi_objects, None, workload_caches is not None and workload_caches.is_being_read
            )
        return ClusterView(followed.capi_objects, followed.workload)

    def leave(self, cluster: str) -> None:
        """Stop following a cluster."""
        followed = self._followed.pop(cluster, None)
        for running in followed.running_caches if followed else ():
            running.stop()

    async def run(self) -> None:
        """Run until cancelled, then stop following all clusters."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped = [caches for followed in self._followed.values() for caches in followed.running_caches]
            for cluster in list(self._followed):
                self.leave(cluster)
            tasks = [running.task for running in stopped if running.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow_providers(self, cluster: str, followed: _Followed) -> bool:
        """Follow the infrastructure objects of the providers that the cluster uses; True once all are read."""
        for provider in followed.capi_objects.providers() - followed.providers.keys():
            caches = self._caches(self._client)
            followed.capi_objects.add(caches, [provider])
            followed.providers[provider] = self._start(cluster, caches)
        return all(running.filled for running in followed.providers.values())

    def _follow_workload(self, cluster: str, followed: _Followed) -> None:
        """Follow the workload cluster with its current kubeconfig; start over if that changed."""
        content = followed.capi_objects.kubeconfig
        try:
            client = self._remotes.get(followed.capi_objects.identity, content) if content is not None else None
        except ValueError:  # an invalid kubeconfig: the same as none
            client = None
        if followed.workload is not None and followed.workload.client is client:
            return
        if followed.workload_caches is not None:
            followed.workload_caches.stop()
        followed.workload = followed.workload_caches = None
        if client is not None:
            caches = self._caches(client)
            followed.workload = Workload(client, caches)
            followed.workload_caches = self._start(cluster, caches)

    def _caches(self, client: Client) -> Caches:
        return Caches(client, rng=random.Random(self._rng.getrandbits(64)))  # noqa: S311 - spreads watches

    def _start(self, cluster: str, caches: Caches) -> _RunningCaches:
        loop = asyncio.get_running_loop()
        running = _RunningCaches(caches, loop.time())
        running.task = loop.create_task(self._run(cluster, running), name=f"follow {cluster}")
        return running

    async def _run(self, cluster: str, running: _RunningCaches) -> None:
        watching = asyncio.ensure_future(running.caches.run())
        try:
            await running.caches.wait_synced()
            running.filled = True
            for cache in running.caches.all:
                cache.subscribe(lambda _old, _new, _first: self._notify(cluster))
            self._notify(cluster)
            await watching
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    def _notify(self, cluster: str) -> None:
        for changed in self._subscribers:
            changed(cluster)
