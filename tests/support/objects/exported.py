"""The objects of a Cluster as a user keeps them in a file: without what the API server adds."""

from __future__ import annotations

import copy

from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.providers.docker.kinds import DockerDatacenterConfig
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment

KINDS = (DockerDatacenterConfig.resource, Cluster.resource)
OF_THE_SERVER = ("resourceVersion", "uid", "creationTimestamp", "managedFields")
"""Fields that a server takes from nobody; people leave the rest in the files that they export."""
OF_THE_DEAD = "ownerReferences"
"""Kubernetes' garbage collector removes whatever has an owner that is no more: a page says so."""


async def exported(env: ManagedEnvironment) -> list[Tree]:
    """The objects of the garden that a user makes, as `kubectl get -o yaml` shows them."""
    results = []
    for resource in KINDS:
        tree = copy.deepcopy((await env.client.get(resource, GARDEN.name, GARDEN.namespace)).tree)
        for field in (*OF_THE_SERVER, OF_THE_DEAD):
            tree["metadata"].pop(field, None)
        results.append(tree)
    return results


async def delete(env: ManagedEnvironment) -> None:
    for resource in reversed(KINDS):
        await env.client.delete(resource, GARDEN.name, GARDEN.namespace)
    await env.until_gone()
    assert not (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items
