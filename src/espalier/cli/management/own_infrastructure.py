"""Management clusters on the operator's infrastructure: their bootstrap is another one, files have the components."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, SELF_SUBJECT_ACCESS_REVIEW
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.image_sources import mirrored
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters import chosen_release, installed_cluster_api
from espalier.cli.install import manifests
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure
from espalier.cli.management.bootstraps import Bootstrap, ExistingBootstrap, GivenBootstrap
from espalier.cli.management.components import component_versions, git_ops
from espalier.cli.management.components.components import Components
from espalier.clusters.design.provider import Provider, Providers
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import NotFound
from espalier.management import record as records
from espalier.management.providers import folder as folders
from espalier.management.providers.components import Unusable, read
from espalier.management.providers.fitness import Needed, problems
from espalier.releases import Releases


@dataclass(frozen=True)
class Given:
    """The files and the image for the components of a management cluster."""

    folder: Path
    image: str = ""
    """Espalier's; empty for the one that runs."""


def bootstrap_of(kubeconfig: Path, home: Home) -> Bootstrap:
    """The bootstrap with this kubeconfig: the local environment, or another management cluster."""
    server = Kubeconfig.load([kubeconfig]).context().server
    local = Kubeconfig.load([home.kubeconfig]).context().server if home.kubeconfig.exists() else ""
    return GivenBootstrap(kubeconfig, home) if server == local else ManagementCluster(kubeconfig)


def check_flags(bootstrap: Bootstrap, given: Given | None) -> list[str]:
    """Reasons against a creation by this bootstrap with, or without, components in files."""
    if isinstance(bootstrap, ManagementCluster) and given is None:
        return [
            f"--bootstrap-kubeconfig: found the API server {bootstrap.server}, allowed is the API server of the local "
            "environment (`espalier up` starts one), or with --components DIR any management cluster: give the folder "
            "with the components of Cluster API and its providers"
        ]
    if not isinstance(bootstrap, ManagementCluster) and given is not None:
        return [
            "--components: allowed with --bootstrap-kubeconfig of a management cluster outside of the local "
            "environment, which has components of its own: omit the flag, or give that kubeconfig"
        ]
    return []


class ManagementCluster(ExistingBootstrap):
    """A management cluster on any infrastructure, on which it creates others."""

    components: Components | None = None

    @property
    def server(self) -> str:
        """The address of its API server."""
        return self._access.server

    @property
    def data(self) -> str:
        """The record, with the kubeconfig beside it."""
        return f"{self.title}: the record of the creation, and the kubeconfig"

    @property
    def digest(self) -> str:
        """That of the components."""
        return records.digest_of(self.components.cluster_api) if self.components is not None else ""

    async def start(self) -> None:
        """Nothing: it runs."""

    async def reach_machines(self, key: Key, kubeconfig: bytes) -> None:
        """Nothing: the infrastructure is reached from everywhere."""

    async def delete(self, key: Key) -> list[str]:
        """Remove it: no more belongs to a cluster."""
        return await self.remove(key)

    def left(self) -> list[str]:
        """Nothing."""
        return []

    async def prepare(self, key: Key, cluster: Tree, providers: Providers, given: Given) -> list[str]:
        """Read the components, and return the reasons against a creation here, all that can be known."""
        provider = providers[cluster["spec"]["datacenterRef"]["kind"]]
        client = await self.connect()
        try:
            if lacking := await _lacking_rights(client, key):
                advice = "use the kubeconfig of an administrator"
                return [f"{self.title}: its user has no right to {right}: {advice}" for right in lacking]
            wrong = [f"{self.title}: {problem}" for problem in await _unfit(client, provider, providers)]
            running = component_versions.running(await component_versions.read(client))
            image = given.image or await image_of(client)
        finally:
            await client.close()
        if not image:
            wrong.append(
                f"{self.title}: found no Deployment {SYSTEM_NAMESPACE}/{manifests.NAME}, by which Espalier runs in a "
                "management cluster: install it there (docs/install.md)"
            )
        try:
            trees = of_folder(given.folder, cluster, provider, running)
        except Unusable as error:
            return [*wrong, *str(error).splitlines()]
        self.components = Components(trees, image, chosen_release.own_version())
        return wrong


async def of_upgrade(
    client: Client, cluster: Tree, providers: Providers, given: Given, present: str | None
) -> Components:
    """The components for the upgrade of a management cluster to a manifest. Raises `Failure`.

    `present` is the release that it has; None if nobody knows.
    """
    provider = providers[cluster["spec"]["datacenterRef"]["kind"]]
    running = component_versions.running(await component_versions.read(client))
    try:
        trees = of_folder(given.folder, cluster, provider, running)
    except Unusable as error:
        raise Failure("\nerror: ".join(str(error).splitlines())) from None
    own = chosen_release.own_version()
    if not given.image and present != own:
        raise Failure(
            f"--image: the cluster has release {present or 'unknown'}, and gets {own}: give the image of Espalier "
            f"{own} (docs/install.md)"
        )
    return Components(trees, given.image or await image_of(client), own)


def of_folder(folder: Path, cluster: Tree, provider: Provider, running: Mapping[str, str]) -> list[Tree]:
    """The manifests in a folder for a management cluster, where these versions run. Raises `Unusable`.

    Environment variables give the values of theirs.
    """
    parts = read(folders.files(folder), os.environ)
    release = Releases.load().release(chosen_release.own_version())
    needed = Needed(
        provider.infrastructure.cluster,
        component_versions.wanted(release.bundles.spec.versions_bundles[-1]),
        running,
        has_external_etcd=bool(cluster["spec"].get("externalEtcdConfiguration")),
    )
    if reasons := list(problems(parts, needed)):
        raise Unusable("\n".join(f"--components {folder}: {reason}" for reason in reasons))
    trees = [tree for part in parts for tree in part.trees]
    return mirrored(trees, git_ops.mirror_of(cluster))


async def image_of(client: Client) -> str:
    """Espalier's image in a management cluster; empty if it does not run as a Deployment."""
    try:
        deployment = await client.get(DEPLOYMENT, manifests.NAME, SYSTEM_NAMESPACE)
    except NotFound:
        return ""
    return str(deployment.tree["spec"]["template"]["spec"]["containers"][0]["image"])


async def _unfit(client: Client, provider: Provider, providers: Providers) -> list[str]:
    """Reasons why a management cluster can't be the bootstrap of one on this infrastructure."""
    managed = await records.managed(client)
    if managed is None:
        return ["it is no management cluster: it has no ConfigMap eksa-system/management-cluster (docs/install.md)"]
    reasons, own = [], chosen_release.own_version()
    try:
        record = await client.get(Cluster.resource, managed[0].name, managed[0].namespace)
    except NotFound:
        return [f"its record, Cluster {managed[0]}, does not exist: make it anew (docs/management-cluster.md)"]
    if (release := record.tree["spec"].get("eksaVersion")) != own:
        reasons.append(
            f"Cluster {managed[0]}: spec.eksaVersion: found {release}, allowed is {own}, the release of this espalier: "
            "use the espalier of that release, or upgrade the bootstrap first"
        )
    kind = provider.infrastructure.cluster
    if kind.version not in await _served(client, kind.group_resource):
        reasons.append(
            f"it does not serve {kind.kind} of {kind.api_version}: install the infrastructure provider there"
        )
    try:
        await installed_cluster_api.check(client, providers)
    except Failure as failure:
        reasons.append(str(failure))
    return reasons


async def _served(client: Client, name: str) -> list[str]:
    try:
        definition = await client.get(CUSTOM_RESOURCE_DEFINITION, name)
    except NotFound:
        return []
    return [version["name"] for version in definition.tree["spec"]["versions"] if version.get("served")]


_RIGHTS: Sequence[tuple[str, str, str, str]] = (
    ("patch", "", "configmaps", SYSTEM_NAMESPACE),
    ("get", "", "secrets", SYSTEM_NAMESPACE),
    ("patch", "", "secrets", SYSTEM_NAMESPACE),
    ("delete", "", "secrets", SYSTEM_NAMESPACE),
    ("patch", "", "namespaces", ""),
    ("list", "apps", "deployments", ""),
    ("list", "apiextensions.k8s.io", "customresourcedefinitions", ""),
    ("patch", "anywhere.eks.amazonaws.com", "clusters", "NAMESPACE"),
    ("delete", "anywhere.eks.amazonaws.com", "clusters", "NAMESPACE"),
    ("patch", "cluster.x-k8s.io", "*", SYSTEM_NAMESPACE),
    ("delete", "cluster.x-k8s.io", "*", SYSTEM_NAMESPACE),
    ("delete", "infrastructure.cluster.x-k8s.io", "*", SYSTEM_NAMESPACE),
    ("delete", "bootstrap.cluster.x-k8s.io", "*", SYSTEM_NAMESPACE),
    ("delete", "controlplane.cluster.x-k8s.io", "*", SYSTEM_NAMESPACE),
)
"""Verb, group, resource and namespace of what a creation does in its bootstrap; NAMESPACE is the cluster's."""


class _Status(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


async def _lacking_rights(client: Client, key: Key) -> list[str]:
    async def lacks(verb: str, group: str, resource: str, place: str) -> str:
        namespace = key.namespace if place == "NAMESPACE" else place
        attributes: dict[str, Any] = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
        review = {"spec": {"resourceAttributes": attributes}}
        answer = await client.create(SELF_SUBJECT_ACCESS_REVIEW, review)
        if answer.decode(_Review).status.allowed:
            return ""
        return f"{verb} {resource}{f'.{group}' if group else ''}{f' in namespace {namespace}' if namespace else ''}"

    return [right for right in await asyncio.gather(*(lacks(*right) for right in _RIGHTS)) if right]
