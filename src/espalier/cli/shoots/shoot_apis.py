"""A gardenlet's requests to the API servers of its seed's shoots (`ShootAPIs`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any

from espalier.api import conditions as condition_list
from espalier.api.core import DAEMON_SET, DEPLOYMENT, KUBE_SYSTEM, LEASE, NODE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.shoots.gardenlet.context import ShootHealth
from espalier.shoots.gardenlet.names import FIELD_MANAGER

NODE_LEASES = "kube-node-lease"
PATIENCE = 15.0
"""Seconds for all requests about the health of a shoot."""


class ConnectedShootAPIs:
    """Sends requests through clients that `connect` creates for a shoot's namespace."""

    def __init__(self, connect: Callable[[str], Awaitable[Client]]) -> None:
        self._connect = connect

    async def silent_nodes(self, namespace: str, since: datetime) -> list[str]:
        """See `ShootAPIs`."""
        try:
            async with self._client(namespace) as client:
                nodes = await client.list(NODE)
                renewed = {lease.name: lease for lease in (await client.list(LEASE, NODE_LEASES)).items}
        except KubeError as error:
            return [f"all, as the API server does not answer ({error})"]
        return [
            node.name
            for node in nodes.items
            if (lease := renewed.get(node.name)) is None
            or (renewed_at := condition_list.parse_timestamp(str(_part(lease, "spec").get("renewTime", "")))) is None
            or renewed_at < since
        ]

    async def release_leases(self, namespace: str, controllers: Sequence[str]) -> None:
        """See `ShootAPIs`. Releases a Lease as client-go does: without a holder, and valid for a second."""
        async with self._client(namespace) as client:
            for name in controllers:
                try:
                    lease = await client.get(LEASE, name, KUBE_SYSTEM)
                    if not _part(lease, "spec").get("holderIdentity"):
                        continue
                    released = {
                        "metadata": {"resourceVersion": lease.metadata.resource_version},
                        "spec": {"holderIdentity": "", "leaseDurationSeconds": 1},
                    }
                    await client.patch(LEASE, name, KUBE_SYSTEM, patch=released, type=PatchType.MERGE)
                except NotFound:
                    continue

    async def apply(self, namespace: str, objects: Sequence[tuple[Resource, Tree]]) -> None:
        """See `ShootAPIs`."""
        async with self._client(namespace) as client:
            for resource, body in objects:
                await client.apply(resource, body, field_manager=FIELD_MANAGER)

    async def health(self, namespace: str) -> ShootHealth:
        """See `ShootAPIs`."""
        try:
            async with asyncio.timeout(PATIENCE), self._client(namespace) as client:
                nodes = (await client.list(NODE)).items
                components = [
                    f"{resource.kind} {workload.name}"
                    for resource in (DEPLOYMENT, DAEMON_SET)
                    for workload in (await client.list(resource, KUBE_SYSTEM)).items
                    if not _is_available(resource, workload)
                ]
        except (KubeError, TimeoutError) as error:
            return ShootHealth(unreachable=str(error) or f"no answer within {PATIENCE:g} s")
        return ShootHealth(
            nodes=len(nodes),
            unready_nodes=tuple(sorted(node.name for node in nodes if not _is_ready(node))),
            unready_components=tuple(sorted(components)),
        )

    @asynccontextmanager
    async def _client(self, namespace: str) -> AsyncIterator[Client]:
        client = await self._connect(namespace)
        try:
            yield client
        finally:
            await client.close()


def _is_ready(node: Object) -> bool:
    return condition_list.is_true_in(node.tree.get("status"), "Ready")


def _is_available(resource: Resource, workload: Object) -> bool:
    status, spec = _part(workload, "status"), _part(workload, "spec")
    if resource == DAEMON_SET:
        return bool(status.get("numberUnavailable", 0) == 0)
    available, wanted = status.get("availableReplicas", 0), spec.get("replicas", 1)
    return isinstance(available, int) and isinstance(wanted, int) and available >= wanted


def _part(object_: Object, name: str) -> Mapping[str, Any]:
    """`spec` or `status` in the response of a shoot; empty if it is not an object."""
    part = object_.tree.get(name)
    return part if isinstance(part, dict) else {}
