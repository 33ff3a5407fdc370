"""The requests of `clusterctl move` to the API server that it moves objects away from."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from espalier.api.capi import cluster as capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object

DISCOVERY, MOVE, HIERARCHY = (f"clusterctl.cluster.x-k8s.io{name}" for name in ("", "/move", "/move-hierarchy"))
DELETE_FOR_MOVE = "clusterctl.cluster.x-k8s.io/delete-for-move"


async def mark(client: Client, resource: Resource, name: str, namespace: str) -> None:
    """Replace all annotations by the one that says why the object is deleted."""
    operation = {"op": "add", "path": "/metadata/annotations", "value": {DELETE_FOR_MOVE: ""}}
    await client.patch(resource, name, namespace, patch=[operation], type=PatchType.JSON)


async def take_finalizers(client: Client, resource: Resource, name: str, namespace: str) -> None:
    patch: Tree = {"metadata": {"finalizers": []}}
    await client.patch(resource, name, namespace, patch=patch, type=PatchType.MERGE)


async def take_away(
    client: Client, resource: Resource, name: str, namespace: str, *, pause: Callable[[], Awaitable[object]]
) -> None:
    """Mark an object, delete it, and remove its finalizers. `pause` comes before the deletion and after it."""
    try:
        has_finalizers = (await client.get(resource, name, namespace)).metadata.finalizers
        await mark(client, resource, name, namespace)
        await pause()
        await client.delete(resource, name, namespace)
        await pause()
        if has_finalizers:
            await take_finalizers(client, resource, name, namespace)
    except NotFound:
        return


async def move_away(client: Client, *, pause: Callable[[], Awaitable[object]]) -> None:
    """Delete all that clusterctl moves, in its order: what others own first. `pause` comes between its requests."""
    for cluster in (await client.list(capi.Cluster.resource)).items:
        await client.patch(
            capi.Cluster.resource,
            cluster.name,
            cluster.namespace,
            patch={"spec": {"paused": True}},
            type=PatchType.MERGE,
        )
    for resource, item in reversed(await in_order(client)):
        await pause()
        await take_away(client, resource, item.name, item.namespace, pause=pause)


async def in_order(client: Client) -> list[tuple[Resource, Object]]:
    """The objects that clusterctl moves, owners before what they own; not those of the management cluster's record."""
    results: dict[str, tuple[Resource, Object, bool, bool]] = {}
    for definition in (await client.list(CUSTOM_RESOURCE_DEFINITION)).items:
        labels, spec = definition.metadata.labels, definition.tree["spec"]
        of_capi = spec["group"].endswith("cluster.x-k8s.io")
        if spec["scope"] != "Namespaced" or not (DISCOVERY in labels or of_capi):
            continue
        stored = next(version["name"] for version in spec["versions"] if version["storage"])
        resource = Resource(spec["group"], stored, spec["names"]["plural"], spec["names"]["kind"])
        hierarchy = HIERARCHY in labels or (resource.group, resource.kind) == (capi.GROUP, "Cluster")
        for secret in (await client.list(resource)).items:
            results[secret.metadata.uid] = resource, secret, hierarchy, hierarchy or MOVE in labels
    for secret in (await client.list(SECRET)).items:
        results[secret.metadata.uid] = SECRET, secret, False, MOVE in secret.metadata.labels
    moved = {uid for uid, (_, _, hierarchy, _) in results.items() if hierarchy}
    while more := {
        uid
        for uid, (_, secret, _, _) in results.items()
        if uid not in moved and any(owner.uid in moved for owner in secret.metadata.owner_references)
    }:
        moved |= more
    moved |= {uid for uid, (_, _, _, forced) in results.items() if forced}
    moved -= {record.metadata.uid for record in await records(client)}
    ordered: list[str] = []
    while len(ordered) < len(moved):
        ordered += [
            uid
            for uid in moved
            if uid not in ordered
            and all(
                reference.uid in ordered or reference.uid not in moved
                for reference in results[uid][1].metadata.owner_references
            )
        ]
    return [results[uid][:2] for uid in ordered]


async def records(client: Client) -> list[Object]:
    """The Clusters that manage themselves."""
    clusters = (await client.list(Cluster.resource)).items
    return [
        item for item in clusters if (item.tree["spec"].get("managementCluster") or {}).get("name") in (None, item.name)
    ]


async def node_versions(workload: Client) -> dict[str, str]:
    """The nodes of a workload cluster, and that they were not made anew."""
    return {item.name: item.metadata.uid for item in (await workload.list(NODE)).items}
