"""A Cluster that Flux applies with force: Flux may delete it to make a change, which nobody asked for."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.eksa.cluster import Cluster
from espalier.api.flux import FORCE_ANNOTATION, KUSTOMIZATION, NAME_LABEL, NAMESPACE_LABEL
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import User
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.objects.flux_kinds import DEFINITION
from tests.support.servers.widgets import served

pytestmark = pytest.mark.embedded

FLUX = "system:serviceaccount:flux-system:kustomize-controller"
LABELS = {NAME_LABEL: "garden", NAMESPACE_LABEL: NAMESPACE}


async def install_flux(env: ManagedEnvironment, *, force: bool) -> None:
    """The kind of Flux, and the Kustomization of the cluster."""
    await env.client.apply(CUSTOM_RESOURCE_DEFINITION, DEFINITION)
    await served(env.client, KUSTOMIZATION)
    await kustomize(env, force=force)


async def kustomize(env: ManagedEnvironment, *, force: bool) -> None:
    body = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": {"force": force}}
    await env.client.apply(KUSTOMIZATION, body)
    await asyncio.sleep(60)  # the manager asks again for a kind that was not there


async def applied_by_flux(env: ManagedEnvironment, **annotations: str) -> None:
    await env.apply()
    metadata = {"labels": LABELS, "annotations": annotations}
    await env.client.patch(Cluster.resource, GARDEN.name, NAMESPACE, patch={"metadata": metadata}, type=PatchType.MERGE)
    await env.until_ready()


async def delete(env: ManagedEnvironment, user: str = FLUX) -> None:
    client = Client(InProcessTransport(env.server, User(user, ("system:masters",))), user_agent="flux")
    await client.delete(Cluster.resource, GARDEN.name, NAMESPACE)


def test_deletion_by_force_is_refused_until_it_is_off() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await install_flux(env, force=True)
        await applied_by_flux(env)
        field = rf"spec\.force of Kustomization {NAMESPACE}/garden"
        with pytest.raises(Forbidden, match=rf"{field}.*take that away, and delete it then"):
            await delete(env)
        await kustomize(env, force=False)
        await delete(env)
        await env.until_gone()

    journey(story)


def test_a_forced_object_is_not_deleted_by_flux() -> None:
    """Without Flux's kinds, too: the object says it."""

    async def story(env: ManagedEnvironment) -> None:
        await applied_by_flux(env, **{FORCE_ANNOTATION: "Enabled"})
        with pytest.raises(Forbidden, match=f"annotation {FORCE_ANNOTATION}"):
            await delete(env)

    journey(story)


@pytest.mark.parametrize("user", ["anna", "system:serviceaccount:kube-system:namespace-controller"])
def test_people_and_kubernetes_delete_forced_clusters(user: str) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await applied_by_flux(env, **{FORCE_ANNOTATION: "enabled"})
        await delete(env, user)
        await env.until_gone()

    journey(story)


def test_flux_without_force_deletes_what_left_git() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await install_flux(env, force=False)
        await applied_by_flux(env)
        await delete(env)
        await env.until_gone()

    journey(story)
