"""The check of the Cluster API that is installed, before anything is written."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli.kit.failures import Failure
from espalier.clusterapi import installed
from espalier.clusters.design.provider import Providers
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound


async def check(
    client: Client, providers: Providers, clusters: Iterable[Tree] = (), *, is_upgraded: bool = False
) -> list[str]:
    """Warnings about what this Cluster API does not support for these clusters, and later ones do not have.

    Raises `Failure` with all that does not work now. `is_upgraded` says that a newer Cluster API is about to be
    installed. Whoever may not read Deployments or definitions learns nothing here.
    """
    labels = f"{installed.PROVIDER_LABEL}={installed.CORE}"
    deployments = await _trees(client, DEPLOYMENT, installed.NAMESPACE, labels)
    definitions = await _trees(client, CUSTOM_RESOURCE_DEFINITION)
    version = installed.version_of(deployments)
    if problems := list(installed.problems(version, definitions, is_upgraded=is_upgraded)):
        raise Failure("\nerror: ".join(f"{problem}. Nothing was changed" for problem in problems))
    specs = [spec for tree in clusters if isinstance(spec := tree.get("spec"), dict)]
    references = [reference for spec in specs if isinstance(reference := spec.get("datacenterRef"), dict)]
    datacenters = {str(reference.get("kind", "")) for reference in references}
    kinds = {providers[kind].infrastructure.cluster.kind for kind in datacenters if kind in providers}
    kubernetes = {str(spec.get("kubernetesVersion") or "") for spec in specs}
    return [
        *installed.unread(deployments),
        *installed.unsupported(version, kubernetes),
        *installed.warnings(version, definitions, kinds),
    ]


async def _trees(client: Client, resource: Resource, namespace: str | None = None, labels: str = "") -> list[Tree]:
    try:
        return [item.tree for item in (await client.list(resource, namespace, labels=labels)).items]
    except (Forbidden, NotFound):
        return []
