"""Clusters that are changed past admission and finalizers, and what their status says of it."""

from __future__ import annotations

from typing import Any

from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusters import rbac
from espalier.clusters.design import names
from espalier.kube.client import PatchType
from espalier.kube.errors import NotFound
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment

LOCAL_CLUSTER = Key("default", "laptop")


async def without_webhooks(env: ManagedEnvironment) -> None:
    await env.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)
    await env.client.delete(MUTATING_WEBHOOK_CONFIGURATION, rbac.MUTATING_WEBHOOKS)


async def the_cluster(env: ManagedEnvironment, key: Key = GARDEN) -> Cluster:
    return (await env.client.get(Cluster.resource, key.name, key.namespace)).decode(Cluster)


def condition_of(cluster: Cluster, type_: str) -> Condition:
    return next(condition for condition in cluster.status.conditions if condition.type == type_)


def invalid(cluster: Cluster) -> str:
    """Why its spec is not valid; empty when it is."""
    results = [condition for condition in cluster.status.conditions if condition.type == names.SPEC_VALID]
    assert cluster.status.spec_valid in (None, not results)
    return f"{results[0].reason}: {results[0].message}" if results else ""


async def lose(env: ManagedEnvironment, key: Key = LOCAL_CLUSTER) -> None:
    """Somebody takes a Cluster away, finalizers or not."""
    await env.client.delete(Cluster.resource, key.name, key.namespace)
    try:
        await set_metadata(env, key, finalizers=None)
    except NotFound:
        return


async def set_metadata(env: ManagedEnvironment, key: Key, **metadata: Any) -> None:
    patch = {"metadata": metadata}
    await env.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
