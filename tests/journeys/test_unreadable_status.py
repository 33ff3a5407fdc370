"""A Cluster whose status this manager can't read, as one of a later release writes it."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import CORE_EVENT, CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.clusters.observe.scope import read
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment

pytestmark = pytest.mark.embedded

LATER: Tree = {"phase": "Hibernating", "failureMessage": {"text": "none"}, "ofLater": "stays"}


async def open_schema(env: ManagedEnvironment) -> None:
    """Let the API server take any status, as with the definitions of a later release."""
    path = "/spec/versions/0/schema/openAPIV3Schema/properties/status"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    patch = [{"op": "replace", "path": path, "value": schema}]
    name = Cluster.resource.group_resource
    await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=patch, type=PatchType.JSON)


def test_an_unreadable_status_is_written_anew() -> None:
    """Once, with what could be read of it: times of transitions, and how far the cluster was reconciled."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        await open_schema(env)
        before = read(await env.client.get(Cluster.resource, *reversed(GARDEN)))
        changes: list[Object] = []

        def count(_old: Object | None, new: Object | None, first: bool) -> None:
            if new is not None and not first:
                changes.append(new)

        env.clusters.subscribe(count)
        written = {"status": LATER}
        patched = await env.client.patch(
            Cluster.resource, *reversed(GARDEN), patch=written, type=PatchType.MERGE, subresource="status"
        )
        assert read(patched).status.conditions == before.status.conditions
        await asyncio.sleep(CALM)
        after = await env.client.get(Cluster.resource, *reversed(GARDEN))
        assert after.decode(Cluster).status == before.status
        assert after.tree["status"]["ofLater"] == "stays"
        assert [change.key for change in changes] == [GARDEN, GARDEN]
        about = f"involvedObject.kind=Cluster,involvedObject.name={GARDEN.name}"
        events = (await env.client.list(CORE_EVENT, GARDEN.namespace, fields=about)).items
        (message,) = (event.tree["message"] for event in events if event.tree["reason"] == "StatusUnreadable")
        assert message.endswith("written anew: phase, failureMessage")

    journey(story)
