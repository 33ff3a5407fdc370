"""A Cluster that no manager has seen is not taken for one that is as its spec asks."""

from __future__ import annotations

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from tests.support.objects.kstatus import IN_PROGRESS, verdict
from tests.support.objects.observed_clusters import example
from tests.support.servers.widgets import served

UNSEEN = {"observedGeneration": -1}


@pytest.fixture
async def fresh(client: Client, namespace: str) -> Tree:
    """A Cluster of a server that has our definition, and nobody behind it."""
    await client.apply(CUSTOM_RESOURCE_DEFINITION, crd_of(Cluster), force=True)
    await served(client, Cluster.resource)
    tree = example()[0]
    return {**tree, "metadata": {"name": "garden", "namespace": namespace}}


async def test_a_cluster_that_nobody_has_seen_is_in_progress(client: Client, fresh: Tree, namespace: str) -> None:
    created = await client.create(Cluster.resource, fresh)
    read = await client.get(Cluster.resource, "garden", namespace)
    (listed,) = (await client.list(Cluster.resource, namespace)).items
    assert [item.tree["status"] for item in (created, read, listed)] == [UNSEEN] * 3
    assert verdict(read.tree) == IN_PROGRESS


async def test_an_unwritten_field_of_a_status_stays_default(client: Client, fresh: Tree, namespace: str) -> None:
    await client.create(Cluster.resource, fresh)
    patch = {"status": {"phase": "Pending"}}
    written = await client.patch(
        Cluster.resource, "garden", namespace, patch=patch, type=PatchType.MERGE, subresource="status"
    )
    assert written.tree["status"] == UNSEEN | {"phase": "Pending"}


async def test_a_default_of_a_status_changes_no_generation(client: Client, fresh: Tree, namespace: str) -> None:
    before = await client.create(Cluster.resource, fresh)
    after = await client.apply(Cluster.resource, {"metadata": fresh["metadata"], "spec": fresh["spec"]}, force=True)
    assert after.metadata.generation == before.metadata.generation == 1
