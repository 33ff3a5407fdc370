"""Clusters as users ask for them: applied, changed and awaited through the API of a management cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from espalier.api.catalog import resource_of
from espalier.api.core import NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.local.workloads import Workloads
from espalier.runtime.cache import Cache, Caches
from espalier.runtime.manager import Manager

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMESPACE = "default"
GARDEN = Key(NAMESPACE, "garden")


@dataclass(kw_only=True)
class ManagedClusters:
    """A running management cluster. What it is asked to do goes through the API, as a user would ask it.

    `machinery` are the caches of those who make machines.
    """

    client: Client
    manager: Manager
    machinery: Caches
    workloads: Workloads
    clusters: Cache

    async def apply(self, name: str = "docker.yaml", *, namespace: str = NAMESPACE, **spec: object) -> None:
        """Apply an example, with these fields of the Cluster's spec."""
        for document in read_manifests((EXAMPLES / name).read_bytes(), source=name):
            tree = document.tree
            tree["metadata"]["namespace"] = namespace
            if tree["kind"] == "Cluster":
                tree["spec"] |= spec
            await self.client.apply(resource_of(document.api_version, document.kind), tree, field_manager="kubectl")

    async def change(self, key: Key = GARDEN, **spec: object) -> None:
        """Merge fields into a Cluster's spec."""
        patch: Tree = {"spec": spec}
        await self.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)

    async def until(self, is_so: Callable[[Cluster], bool], key: Key = GARDEN, *, seconds: float = 900) -> Cluster:
        """Wait until a Cluster is as described. Raises `TimeoutError` that shows it."""
        await self._until(key, lambda found: found is not None and is_so(found.decode(Cluster)), seconds)
        found = self.clusters.get(key)
        assert found is not None
        return found.decode(Cluster)

    async def until_ready(self, key: Key = GARDEN) -> Cluster:
        """Wait until a Cluster is as it was asked for last."""
        present = await self.client.get(Cluster.resource, key.name, key.namespace)
        generation = present.metadata.generation
        return await self.until(
            lambda cluster: bool(cluster.status.ready) and cluster.status.observed_generation >= generation, key
        )

    async def until_gone(self, key: Key = GARDEN) -> None:
        """Wait until there is no such Cluster."""
        await self._until(key, lambda found: found is None, 900)

    async def nodes(self, key: Key = GARDEN) -> list[Tree]:
        """The nodes of a workload cluster, read with the kubeconfig that lies beside its Cluster."""
        secret = await self.client.get(SECRET, f"{key.name}-kubeconfig", key.namespace)
        workload = self.workloads.connect(secret.decode(Secret).data["value"])
        return [node.tree for node in (await workload.list(NODE)).items]

    async def versions(self) -> list[str]:
        """The kubelet versions of all nodes."""
        return sorted(node["status"]["nodeInfo"]["kubeletVersion"] for node in await self.nodes())

    async def _until(self, key: Key, is_so: Callable[[Object | None], bool], seconds: float) -> None:
        changed = asyncio.Event()
        stop = self.clusters.subscribe(lambda _old, _new, _first: changed.set())
        try:
            async with asyncio.timeout(seconds):
                while not is_so(self.clusters.get(key)):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            found = self.clusters.get(key)
            raise TimeoutError(f"{key} is not as awaited: {found.tree if found else None}") from None
        finally:
            stop()
