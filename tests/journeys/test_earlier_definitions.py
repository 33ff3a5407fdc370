"""A manager on an API server with definitions of an earlier release, which lack fields that it writes."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment

pytestmark = pytest.mark.embedded

STATUS = "/spec/versions/0/schema/openAPIV3Schema/properties/status/properties"


async def defined_without(env: ManagedEnvironment, *fields: str) -> None:
    """The definition of Clusters lacks these fields of the status."""
    patch: list[Tree] = [{"op": "remove", "path": f"{STATUS}/{field}"} for field in fields]
    name = Cluster.resource.group_resource
    await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=patch, type=PatchType.JSON)
    await asyncio.sleep(1)


async def status_of(env: ManagedEnvironment) -> Tree:
    status: Tree = (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).tree["status"]
    return status


async def until_ready_is(env: ManagedEnvironment, standing: str) -> None:
    async with asyncio.timeout(900):
        while not any(  # noqa: ASYNC110
            (condition["type"], condition["status"]) == ("Ready", standing)
            for condition in (await status_of(env)).get("conditions", ())
        ):
            await asyncio.sleep(1)


def test_status_is_told_without_the_unknown_fields() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await defined_without(env, "specValid", "conditions/items/properties/observedGeneration")
        await env.apply()
        await until_ready_is(env, "True")
        await asyncio.sleep(CALM)
        assert "specValid" not in await status_of(env)
        written = env.written()
        version = (await env.client.get(Cluster.resource, *reversed(GARDEN))).resource_version
        await asyncio.sleep(CALM)
        assert (await env.client.get(Cluster.resource, *reversed(GARDEN))).resource_version == version
        assert env.written() == written
        await env.change(kubernetesVersion="1.36")
        for standing in ("False", "True"):
            await until_ready_is(env, standing)

    journey(tell)
