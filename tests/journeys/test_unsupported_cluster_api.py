"""A manager begins no cluster on a Cluster API that it does not know, and leaves no cluster that has begun."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import DEPLOYMENT, NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.clusterapi import installed
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment, managed_environment
from tests.support.objects.installed_cluster_api import deployment
from tests.support.servers.faults import Blocked, Refusing

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
REASON = "ClusterAPIVersionNotSupported"
OF_DEPLOYMENTS = f"/namespaces/{installed.NAMESPACE}/deployments"
MADE = (capi.Cluster.resource, KubeadmControlPlane.resource, MachineDeployment.resource)


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]], **settings: Any) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, **settings) as env:
            await story(env)

    run(main, epoch=EPOCH, seed=1)


async def install(client: Client, image: str, namespace: str = installed.NAMESPACE) -> None:
    """The Deployment of Cluster API's manager, as clusterctl makes it."""
    await client.apply(NAMESPACE, {"metadata": {"name": namespace}})
    await client.apply(DEPLOYMENT, deployment(image, namespace), field_manager="clusterctl")


async def versions(env: ManagedEnvironment) -> dict[str, str]:
    """The versions of a cluster's objects in Cluster API."""
    listed = [(await env.client.list(resource, SYSTEM_NAMESPACE)).items for resource in MADE]
    named = (item for items in listed for item in items if item.name.startswith(GARDEN.name))
    return {f"{item.kind} {item.name}": item.resource_version for item in named}


def is_held(cluster: Cluster) -> bool:
    return cluster.status.failure_reason == REASON


@pytest.mark.parametrize(
    ("version", "advice"),
    [
        ("1.12.9", "upgrade it to 1.14.2"),
        ("1.15.0", "install 1.14.2, or a release of Espalier that has it"),
    ],
)
def test_new_cluster_waits_for_another_cluster_api(version: str, advice: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await install(env.client, f":v{version}")
        await env.apply()
        held = await env.until(is_held)
        sentence = f"Cluster API: found {version}, allowed are versions 1.13, 1.14; {advice}"
        assert held.status.failure_message == sentence
        by_type = {condition.type: condition for condition in held.status.conditions}
        assert (by_type["Ready"].reason, by_type["Ready"].message) == (REASON, sentence)
        assert "SpecValid" not in by_type, "its spec is as it should be"
        await env.until_it_rests()
        assert await versions(env) == {}

        await install(env.client, ":v1.14.2")
        ready = await env.until_ready()
        assert ready.status.failure_reason is None

    journey(story)


@pytest.mark.parametrize(
    ("image", "namespace"),
    [
        (":v1.14.2", installed.NAMESPACE),
        (":v1.15.0", "default"),
        ("@sha256:" + 64 * "0", installed.NAMESPACE),
    ],
    ids=["known", "elsewhere", "digest"],
)
def test_what_is_not_known_holds_nothing(image: str, namespace: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await install(env.client, image, namespace)
        await env.apply()
        await env.until(lambda _: bool(env.capi_objects.of(capi.Cluster.resource).list()))

    journey(story)


def test_manager_without_the_right_holds_nothing() -> None:
    """Somebody runs a new image with the roles of an earlier release; once it has the right, it uses it."""
    refusing = Refusing(OF_DEPLOYMENTS, Forbidden.of("deployments.apps is forbidden"))

    async def story(env: ManagedEnvironment) -> None:
        await install(env.client, ":v1.15.0")
        await env.apply()
        await env.until_ready()
        refusing.refusal = None
        await env.until_it_rests()
        await env.apply(name="orchard")
        await env.until(is_held, Key(GARDEN.namespace, "orchard"))

    journey(story, wrap=refusing)


def test_existing_cluster_is_not_held() -> None:
    """A manager that let go of a fleet would be worse than a version that nobody has tested."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await env.until_it_rests()
        before = await versions(env)
        await install(env.client, ":v1.15.0")
        await env.apply(name="orchard")
        await env.until(is_held, Key(GARDEN.namespace, "orchard"))
        await env.until_it_rests()
        assert await versions(env) == before

        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until_ready()
        assert len(await env.nodes()) == 4
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        await env.client.delete(Cluster.resource, "orchard", GARDEN.namespace)
        await env.until_gone(Key(GARDEN.namespace, "orchard"))

    journey(story)


def test_half_made_cluster_is_not_held() -> None:
    """Its Cluster of Cluster API is written after its control plane."""
    shut = asyncio.Event()
    shut.set()

    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_any(
            env.capi_objects.of(KubeadmControlPlane.resource, SYSTEM_NAMESPACE), GARDEN.name, lambda _: True
        )
        await install(env.client, ":v1.15.0")
        await env.until_it_rests()
        assert list(await versions(env)) == [f"KubeadmControlPlane {GARDEN.name}"]
        shut.clear()
        await env.until_ready()

    journey(story, wrap=Blocked(f"/{capi.GROUP}/v1beta2/namespaces/{SYSTEM_NAMESPACE}/clusters", shut))
