"""Installation of manifests in a cluster: applied in order, and waited for until they run."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.discovery import Discovery
from espalier.kube.errors import KubeError, NotFound, ServerFailure
from espalier.management.record import FIELD_MANAGER
from espalier.management.steps import Progress, Refused
from espalier.runtime.definitions import until_established

_PAUSE = 0.5
_AT_ONCE = 8
_PATIENCE = 600.0


OPTIONAL = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
"""Kinds that limit the rights of a manager further, where the API server serves them (Kubernetes 1.30)."""


async def apply(client: Client, trees: Sequence[Tree], progress: Progress | None = None) -> None:
    """Apply manifests: namespaces and definitions first, and each kind once it is served.

    With `progress`, what can't be applied yet is tried again for ten minutes: the webhook of cert-manager, for one,
    answers some time after its manifests are applied, which may be among these. Raises `ServerFailure` after that.
    """
    first = [body for body in trees if body["kind"] in ("Namespace", "CustomResourceDefinition")]
    served = await _served(client)
    limit = asyncio.Semaphore(_AT_ONCE)

    end = asyncio.get_running_loop().time() + (_PATIENCE if progress is not None else 0)

    async def send(tree: Tree) -> None:
        async with limit:
            while True:
                try:
                    await client.apply(_resource(served, tree), tree, field_manager=FIELD_MANAGER)
                except ServerFailure as error:
                    if progress is None or asyncio.get_running_loop().time() > end:
                        raise
                    progress.wait(f"{tree['kind']} {tree['metadata']['name']}: {error}")
                    await asyncio.sleep(_PAUSE)
                else:
                    return

    await asyncio.gather(*(send(body) for body in first))
    names = {body["metadata"]["name"] for body in first if body["kind"] == CUSTOM_RESOURCE_DEFINITION.kind}
    await until_established(client, names)
    if names:
        served = await _served(client)
    for tree in trees:  # in their order: a binding after its role
        is_left_out = tree["kind"] in OPTIONAL and (tree["apiVersion"], tree["kind"]) not in served
        if tree not in first and not is_left_out:
            await send(tree)


async def _served(client: Client) -> dict[tuple[str, str], Resource]:
    return {
        (resource.resource.api_version, resource.resource.kind): resource.resource
        for resource in await Discovery(client).resources()
    }


def _resource(served: dict[tuple[str, str], Resource], tree: Tree) -> Resource:
    resource = served.get((tree["apiVersion"], tree["kind"]))
    if resource is None:
        raise Refused(f"{tree['kind']} {tree['metadata']['name']}: {tree['apiVersion']} is not served by the cluster")
    return resource


async def install(client: Client, trees: Sequence[Tree], progress: Progress) -> None:
    """Apply manifests, and wait until their Deployments run."""
    await apply(client, trees, progress)
    await until_running(client, deployments(trees), progress)


def deployments(trees: Sequence[Tree]) -> list[Key]:
    """The Deployments among manifests."""
    return [
        Key(body["metadata"]["namespace"], body["metadata"]["name"])
        for body in trees
        if body["kind"] == DEPLOYMENT.kind
    ]


class _Spec(msgspec.Struct, rename="camel"):
    replicas: int = 1


class _Status(msgspec.Struct, rename="camel"):
    observed_generation: int = 0
    updated_replicas: int = 0
    available_replicas: int = 0


class _Deployment(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


async def until_running(client: Client, keys: Sequence[Key], progress: Progress) -> None:
    """Wait until all replicas of Deployments run, as they are written now."""
    for key in keys:
        while True:
            try:
                deployment = await client.get(DEPLOYMENT, key.name, key.namespace)
                typed = deployment.decode(_Deployment)
                spec, status = typed.spec, typed.status
                if status.observed_generation >= deployment.metadata.generation and (
                    min(status.updated_replicas, status.available_replicas) >= spec.replicas
                ):
                    break
                progress.wait(
                    f"Deployment {key}: {status.available_replicas} of {spec.replicas} replicas are available"
                )
            except NotFound:
                progress.wait(f"Deployment {key} does not exist")
            except KubeError as error:
                progress.wait(f"Deployment {key}: {error}")
            await asyncio.sleep(_PAUSE)
