"""A management cluster of EKS Anywhere on a real API server, with the CRDs of Cluster API and of its providers as they
are released: settled clusters, the controller, its webhooks, and namespaced EKSAReleases.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import EKSARelease
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.storage.store import MemoryStore
from espalier.clusters.design import names
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists
from espalier.kube.objects import Object
from espalier.management.adoption.site import NAMESPACED_RELEASE
from espalier.providers.kinds import KINDS
from espalier.runtime.definitions import until_established
from tests.support.environments.control_plane import ControlPlane
from tests.support.objects import eks_anywhere
from tests.support.providers.provider_crds import FILES, with_crds
from tests.support.servers.fork_crds import widened

_AT_ONCE = 8
_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
LOADED: tuple[Resource, ...] = (
    NAMESPACE,
    SECRET,
    CONFIG_MAP,
    *(NAMESPACED_RELEASE if kind is EKSARelease else kind.resource for kind in KINDS),
)


_THEIRS: Mapping[type[KubeObject], Callable[[Tree], Tree]] = {
    Cluster: eks_anywhere.definition_of_clusters,
    EKSARelease: eks_anywhere.definition,
}


async def load(control_plane: ControlPlane, client: Client, store: MemoryStore) -> None:
    """Put a store as `eks_anywhere.make_site` leaves it onto the API server, and the programs of EKS Anywhere."""
    async with with_crds(control_plane, *FILES, change=widened):
        await _open_statuses(client)
        await _define(client)
        await _put(client, store)
        await eks_anywhere.install(client)


async def _open_statuses(client: Client) -> None:
    """Let statuses of simulated machines, which lack what only people read, pass the schemas."""
    for definition in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items:
        tree = definition.tree
        for version in tree["spec"]["versions"]:
            properties = version["schema"]["openAPIV3Schema"]["properties"]
            if "status" in properties:
                properties["status"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        patch = {"spec": {"versions": tree["spec"]["versions"]}}
        await client.patch(CUSTOM_RESOURCE_DEFINITION, definition.name, patch=patch, type=PatchType.MERGE)


async def _define(client: Client) -> None:
    """Define the kinds of EKS Anywhere itself, and whatever else no provider brings."""
    served = {object_.name for object_ in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items}
    for kind in KINDS:
        if kind.resource.group_resource not in served:
            tree = msgspec.to_builtins(crd_of(kind))
            await client.create(CUSTOM_RESOURCE_DEFINITION, _THEIRS[kind](tree) if kind in _THEIRS else tree)
    await until_established(client, {kind.resource.group_resource for kind in KINDS})


async def _put(client: Client, store: MemoryStore) -> None:
    """Create the objects anew, owners first: uids and generations are the server's, and what names them follows."""
    waiting = [(resource, object_) for resource in LOADED for object_ in _objects(store, resource)]
    waiting = [item for item in waiting if item[1].key != names.MANAGEMENT_CLUSTER]  # ours
    uids: dict[str, Object] = {}
    few = asyncio.Semaphore(_AT_ONCE)

    async def make(resource: Resource, object_: Object) -> None:
        async with few:
            uids[object_.metadata.uid] = await _made(client, resource, object_, uids)

    while waiting:
        ready = [all(owner.uid in uids for owner in item.metadata.owner_references) for _, item in waiting]
        assert any(ready), [str(item.key) for _, item in waiting]
        await asyncio.gather(*(make(*item) for item, is_ready in zip(waiting, ready, strict=True) if is_ready))
        waiting = [item for item, is_ready in zip(waiting, ready, strict=True) if not is_ready]
    for object_ in _objects(store, Cluster.resource):
        await _observe(client, uids[object_.metadata.uid], list(uids.values()))


def _objects(store: MemoryStore, resource: Resource) -> Iterator[Object]:
    yield from store.table(resource.group_resource).objects.values()


async def _made(client: Client, resource: Resource, object_: Object, uids: dict[str, Object]) -> Object:
    tree = object_.tree
    metadata = {name: value for name, value in tree["metadata"].items() if name in _METADATA}
    if owners := metadata.get("ownerReferences"):
        metadata["ownerReferences"] = [{**owner, "uid": uids[owner["uid"]].metadata.uid} for owner in owners]
    try:
        made = await client.create(resource, {**tree, "metadata": metadata})
    except AlreadyExists:  # the server's own, as a namespace
        return await client.get(resource, object_.name, object_.namespace)
    status: Tree = tree.get("status") or {}
    if status.keys() - (made.tree.get("status") or {}).keys():  # EKS Distro's Release has it as content
        patch = {"status": _observed(status, made.metadata.generation)}
        made = await client.patch(
            resource, made.name, made.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
        )
    if managed := tree["metadata"].get("managedFields"):
        patch = {"metadata": {"managedFields": managed}}
        made = await client.patch(resource, made.name, made.namespace, patch=patch, type=PatchType.MERGE)
    return made


def _observed(status: Any, generation: int) -> Any:
    """A status that is about this generation."""
    if isinstance(status, dict):
        return {
            name: generation if name == "observedGeneration" else _observed(value, generation)
            for name, value in status.items()
        }
    return [_observed(value, generation) for value in status] if isinstance(status, list) else status


async def _observe(client: Client, cluster: Object, objects: list[Object]) -> None:
    """Let the status of a Cluster say that it is reconciled as it is."""
    children = [
        object_.metadata.generation
        for object_ in objects
        if object_.head.api_version.startswith(GROUP)
        and any(owner.uid == cluster.metadata.uid for owner in object_.metadata.owner_references)
    ]
    generation = cluster.metadata.generation
    status: Tree = {"reconciledGeneration": generation, "childrenReconciledGeneration": sum(children)}
    await client.patch(
        Cluster.resource,
        cluster.name,
        cluster.namespace,
        patch={"status": status},
        type=PatchType.MERGE,
        subresource="status",
    )
