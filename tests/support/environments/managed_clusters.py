"""Clusters as users ask for them: applied, changed and awaited through the API of a management cluster."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from espalier.api.capi.machine import Machine
from espalier.api.core import NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import names
from espalier.clusters.design.provider import Provider
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import read
from espalier.clusters.preview import reading
from espalier.clusters.preview.previews import Preview, Previews
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.clock import SystemClock
from espalier.runtime.manager import Manager
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.shared_caches import shared

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMESPACE = "default"
GARDEN = Key(NAMESPACE, "garden")

Write = tuple[str, str, str]
"""Verb, plural, subresource."""


def manifests(count: int) -> list[Tree]:
    """The example so many times, each with a name of its own; the Clusters come last."""
    trees = []
    for document in read_manifests((EXAMPLES / "docker.yaml").read_bytes(), source="docker.yaml"):
        for number in range(count):
            tree = document.tree
            metadata = {"name": f"garden-{number:03}", "namespace": NAMESPACE}
            spec = tree["spec"]
            if tree["kind"] == Cluster.resource.kind:
                spec = spec | {"datacenterRef": spec["datacenterRef"] | {"name": metadata["name"]}}
            trees.append({**tree, "metadata": metadata, "spec": spec})
    return sorted(trees, key=lambda tree: bool(tree["kind"] == Cluster.resource.kind))


class BrokenImages(set[tuple[str, str]]):
    """Clusters, each with a Kubernetes version with whose image no machine of it comes up."""

    def boots(self, machine: Machine) -> bool:
        """True if a machine has an image that is whole."""
        return (machine.spec.cluster_name, machine.spec.version) not in self


@dataclass(kw_only=True)
class ManagedClusters:
    """A running management cluster. What it is asked to do goes through the API, as a user would ask it.

    `capi_objects` are the caches of those who make machines, `providers` those of the manager.
    """

    client: Client
    manager: Manager
    capi_objects: Caches
    workloads: Workloads
    clusters: Cache
    providers: Mapping[str, Provider]

    async def apply(
        self, example: str = "docker.yaml", *, namespace: str = NAMESPACE, name: str = "", **spec: object
    ) -> None:
        """Apply an example, under another name if one is given, with these fields of the Cluster's spec."""
        for document in read_manifests((EXAMPLES / example).read_bytes(), source=example):
            tree = document.tree
            called = name or tree["metadata"]["name"]
            tree["metadata"] |= {"namespace": namespace, "name": called}
            if tree["kind"] == "Cluster":
                tree["spec"]["datacenterRef"]["name"] = name or tree["spec"]["datacenterRef"]["name"]
                tree["spec"] |= spec
            await self.client.apply(
                CATALOG.resource_of(document.api_version, document.kind), tree, field_manager="kubectl"
            )

    async def change(self, key: Key = GARDEN, **spec: object) -> None:
        """Merge fields into a Cluster's spec."""
        patch: Tree = {"spec": spec}
        await self.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)

    async def until(self, is_so: Callable[[Cluster], bool], key: Key = GARDEN, *, seconds: float = 900) -> Cluster:
        """Wait until a Cluster is as described. Raises `TimeoutError` that shows it."""
        await self._until(key, lambda value: value is not None and is_so(read(value)), seconds)
        value = self.clusters.get(key)
        assert value is not None
        return read(value)

    async def until_ready(self, key: Key = GARDEN, *, seconds: float = 900) -> Cluster:
        """Wait until a Cluster is as it was asked for last."""
        present = await self.client.get(Cluster.resource, key.name, key.namespace)
        generation = present.metadata.generation
        return await self.until(
            lambda cluster: bool(cluster.status.ready) and cluster.status.observed_generation >= generation,
            key,
            seconds=seconds,
        )

    async def until_gone(self, key: Key = GARDEN) -> None:
        """Wait until there is no such Cluster."""
        await self._until(key, lambda value: value is None, 900)

    async def workload(self, key: Key = GARDEN) -> Client:
        """A client of a workload cluster, with the kubeconfig that lies beside its Cluster."""
        secret = await self.client.get(SECRET, f"{key.name}-kubeconfig", key.namespace)
        return self.workloads.connect(secret.decode(Secret).data["value"])

    async def nodes(self, key: Key = GARDEN) -> list[Tree]:
        """The nodes of a workload cluster."""
        workload = await self.workload(key)
        return [node.tree for node in (await workload.list(NODE)).items]

    def kubelet(self, version: str) -> str:
        """The version that kubelets of a Machine's version report."""
        return version

    async def versions(self, key: Key = GARDEN) -> list[str]:
        """The kubelet versions of all nodes."""
        return sorted(node["status"]["nodeInfo"]["kubeletVersion"] for node in await self.nodes(key))

    async def machine_names(self, cluster: str) -> dict[str, set[str]]:
        """Names of a cluster's Machines that stay, by the MachineDeployment, or empty for the control plane."""
        results: dict[str, set[str]] = {}
        listed = await self.client.list(Machine.resource, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}={cluster}")
        for machine in listed.items:
            if machine.metadata.deletion_timestamp is None:
                results.setdefault(machine.metadata.labels.get(names.DEPLOYMENT, ""), set()).add(machine.name)
        return results

    async def until_machines_rest(self, cluster: str) -> None:
        """Wait until no Machine of the cluster is being deleted any more."""
        await self.until_all(Machine.resource, cluster, lambda tree: tree["metadata"].get("deletionTimestamp"))

    async def until_all(self, resource: Resource, cluster: str, lacks: Callable[[Tree], object]) -> None:
        """Wait until no object of a kind that Cluster API has for a cluster lacks anything, else say what."""
        cache = shared(self.capi_objects, resource)

        def lacking() -> dict[str, object]:
            labelled = cache.list(SYSTEM_NAMESPACE, f"{names.CLUSTER}={cluster}")
            return {f"{item.kind} {item.name}": lack for item in labelled if (lack := lacks(item.tree))}

        await _until_nothing(cache, lacking)

    async def until_any(self, cache: Cache, cluster: str, is_so: Callable[[Tree], object]) -> None:
        """Wait until a cache shows an object of a cluster that is as described, else say what it shows."""

        def others() -> list[Tree]:
            trees = [item.tree for item in cache.list(SYSTEM_NAMESPACE, f"{names.CLUSTER}={cluster}")]
            return [] if any(map(is_so, trees)) else [*trees, {}]

        await _until_nothing(cache, others)

    async def preview(self, key: Key, manifest: Sequence[Tree], **manager: Any) -> Preview:
        """The preview of `espalier plan` for a manifest. `manager` says how the manager in question is run."""
        env = await reading.read(self.client, {key}, providers=self.providers)
        snapshot = Snapshot()
        observer = ClusterObserver(snapshot, providers=self.providers, **manager)
        snapshot.fill(env.objects)
        previews = Previews(snapshot, observer, env.fleets, now=SystemClock().now(), secrets=env.secrets)
        return previews.of_change(key, manifest)

    async def _until(self, key: Key, is_so: Callable[[Object | None], bool], seconds: float) -> None:
        changed = asyncio.Event()
        stop = self.clusters.subscribe(lambda _old, _new, _first: changed.set())
        try:
            async with asyncio.timeout(seconds):
                while not is_so(self.clusters.get(key)):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            value = self.clusters.get(key)
            raise TimeoutError(f"{key} is not as awaited: {value.tree if value else None}") from None
        finally:
            stop()


async def _until_nothing(cache: Cache, lacking: Callable[[], object]) -> None:
    """Wait until nothing is lacking any more that a cache shows."""
    changed = asyncio.Event()
    stop = cache.subscribe(lambda _old, _new, _first: changed.set())
    try:
        async with asyncio.timeout(300):
            while lacking():
                changed.clear()
                await changed.wait()
    except TimeoutError:
        raise TimeoutError(f"not as awaited: {lacking()}") from None
    finally:
        stop()


@dataclass(kw_only=True)
class AccountedClusters(ManagedClusters):
    """A management cluster that knows what its manager wrote, but for Leases and events.

    `calm` is how many seconds it is left alone when nothing should happen.
    """

    written: Callable[[], Counter[Write]]
    calm: float

    async def until_it_rests(self) -> None:
        """Wait until its manager has written nothing for `calm` seconds. Raises `TimeoutError` if it never does."""
        async with asyncio.timeout(100 * self.calm):
            before = None
            while (now := self.written()) != before:
                before = now
                await asyncio.sleep(self.calm)
