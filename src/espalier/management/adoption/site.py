"""A management cluster of EKS Anywhere as it is: what the manager would observe there, and what else runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi import external_etcd
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.eks_anywhere import CONTROLLER, WEBHOOKS, replicas
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe import git_ops, references
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.preview import reading
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.management.adoption import record as records
from espalier.management.steps import Refused
from espalier.runtime.caches.snapshot import Snapshot

PACKAGE = Resource("packages.eks.amazonaws.com", "v1alpha1", "packages", "Package")
RELEASES = f"{EKSARelease.resource.plural}.{EKSARelease.resource.group}"
"""The name of the definition whose scope differs from ours."""

NAMESPACED_RELEASE = EKSARelease.resource._replace(namespaced=True)
"""EKS Anywhere's kind of releases."""
PATIENCE = 120.0
"""Seconds for which pods of EKS Anywhere's controller, and objects of a deleted definition, are waited for."""
PAUSE = 1.0

_ANYWHERE = (Cluster.resource, EKSARelease.resource, Bundles.resource, DistroRelease.resource)


@dataclass(frozen=True)
class Site:
    """The objects of a management cluster at about one moment."""

    objects: Sequence[Object]
    providers: Providers
    controller: Object | None
    """The Deployment of EKS Anywhere's controller."""
    webhooks: Sequence[tuple[Resource, Object]]
    """The configurations of its webhooks."""
    definition: Object | None
    """The definition of EKSARelease."""
    releases: Sequence[Object]
    """The EKSAReleases as they are."""
    packages: Sequence[Object]
    """Curated packages."""

    @cached_property
    def snapshot(self) -> Snapshot:
        """The caches of the observer."""
        snapshot = Snapshot()
        self._observers.append(ClusterObserver(snapshot, providers=self.providers))
        snapshot.fill(self.objects)
        return snapshot

    @property
    def observer(self) -> ClusterObserver:
        """The observer of a manager of ours here."""
        self.snapshot  # noqa: B018  fills it
        return self._observers[0]

    @cached_property
    def _observers(self) -> list[ClusterObserver]:
        return []

    @cached_property
    def related(self) -> Mapping[str, list[tuple[Resource, Object]]]:
        """The objects of Cluster API, by the name of the cluster that they say they belong to."""
        related: dict[str, list[tuple[Resource, Object]]] = {}
        for resource, cache in self.observer.written.items():
            for object_ in cache.list():
                for name in related_to(resource, object_):
                    related.setdefault(name, []).append((resource, object_))
        return related

    @property
    def clusters(self) -> list[Object]:
        """The Clusters, by namespace and name."""
        clusters = (object_ for object_ in self.objects if _is(object_, Cluster.resource))
        return sorted(clusters, key=lambda object_: object_.key)

    @property
    def running(self) -> int:
        """The replicas that EKS Anywhere's controller is to have, or still has."""
        return replicas(self.controller) if self.controller is not None else 0

    @property
    def has_namespaced_releases(self) -> bool:
        """True if EKSAReleases are EKS Anywhere's."""
        return self.definition is not None and not _is_ours(self.definition)

    @property
    def has_our_releases(self) -> bool:
        """True if EKSAReleases are ours."""
        return _is_ours(self.definition)


OWNERS = (KubeadmControlPlane.resource, MachineDeployment.resource, external_etcd.RESOURCE)
"""The kinds that own machines and name templates."""


def related_to(resource: Resource, object_: Object) -> Iterable[str]:
    """The clusters of Cluster API that an object belongs to, by its owners and its spec."""
    owners = object_.metadata.owner_references
    clusters = {owner.name for owner in owners if owner.kind == capi.Cluster.resource.kind}
    if resource in (MachineDeployment.resource, MachineHealthCheck.resource):
        spec = object_.tree.get("spec")
        clusters |= {str(spec.get("clusterName") or "")} if isinstance(spec, dict) else set()
    elif object_names.is_of_cluster(resource):
        clusters.add(object_.name)
    return clusters - {""}


async def read(client: Client, providers: Providers) -> Site:
    """Read all that matters; writes nothing."""
    objects: list[Object] = []
    for resource in dict.fromkeys(reading.kinds(providers)):
        objects += await _list(client, resource, None if _is_everywhere(resource, providers) else SYSTEM_NAMESPACE)
    releases = [object_ for object_ in objects if _is(object_, EKSARelease.resource)]
    record = await records.read(client)
    definition = await _if_there(client.get(CUSTOM_RESOURCE_DEFINITION, RELEASES))
    is_replaced = record is not None and record.replaced_releases and _is_ours(definition)
    if record is not None and not is_replaced:  # an interrupted command has deleted them, and not made ours yet
        absent = [tree for tree in record.releases if not is_present(tree, releases)]
        releases += [Object(msgspec.json.encode(tree)) for tree in absent]
    others = [object_ for object_ in objects if not _is(object_, EKSARelease.resource)]
    ours = [as_ours(release.tree) for release in releases if release.namespace in ("", SYSTEM_NAMESPACE)]
    return Site(
        objects=[*others, *(Object(msgspec.json.encode(tree)) for tree in ours)],
        providers=providers,
        controller=await _if_there(client.get(DEPLOYMENT, CONTROLLER.name, CONTROLLER.namespace)),
        webhooks=[
            (resource, object_)
            for resource in (MUTATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOK_CONFIGURATION)
            for name in WEBHOOKS
            if (object_ := await _if_there(client.get(resource, name))) is not None
        ],
        definition=definition,
        releases=releases,
        packages=await _list(client, PACKAGE, None),
    )


async def until_undefined(client: Client, uid: str) -> None:
    """Wait until this definition of EKSARelease is gone. Raises `Refused` if that takes too long."""
    end = asyncio.get_running_loop().time() + PATIENCE
    while True:
        definition = await _if_there(client.get(CUSTOM_RESOURCE_DEFINITION, RELEASES))
        if definition is None or definition.metadata.uid != uid:
            return
        if asyncio.get_running_loop().time() > end:
            raise Refused(
                f"CustomResourceDefinition {RELEASES} is still being deleted after {PATIENCE:.0f} s: see which "
                "finalizers its objects have, then give the command again"
            )
        await asyncio.sleep(PAUSE)


def is_present(recorded: Tree, releases: Iterable[Object]) -> bool:
    """True if a recorded EKSARelease of EKS Anywhere is there, or ours of its name, which has no namespace."""
    metadata = recorded["metadata"]
    return any(
        release.name == metadata["name"] and release.namespace in ("", metadata["namespace"]) for release in releases
    )


def as_ours(release: Tree) -> Tree:
    """An EKSARelease of EKS Anywhere as one of ours: without a namespace, and `date` for `releaseDate`."""
    metadata, spec = release["metadata"], dict(release.get("spec") or {})
    date = spec.pop("releaseDate", None)
    if "date" not in spec and date is not None:
        spec["date"] = date
    reference = spec.get("bundlesRef")
    if isinstance(reference, dict):
        spec["bundlesRef"] = {
            name: reference[name] for name in ("apiVersion", "name", "namespace") if name in reference
        }
    own = {
        name: metadata[name] for name in ("name", "labels", "annotations", "uid", "resourceVersion") if name in metadata
    }
    return {
        "apiVersion": EKSARelease.resource.api_version,
        "kind": EKSARelease.resource.kind,
        "metadata": own,
        "spec": spec,
    }


def _is_ours(definition: Object | None) -> bool:
    return definition is not None and definition.tree["spec"].get("scope") != "Namespaced"


def _is(object_: Object, resource: Resource) -> bool:
    return (object_.kind, object_.head.api_version) == (resource.kind, resource.api_version)


def _is_everywhere(resource: Resource, providers: Providers) -> bool:
    """True for the kinds of Clusters, and of what they name, which are in all namespaces."""
    linked = (*references.kinds(providers), *git_ops.KINDS)
    return not resource.namespaced or resource in (*_ANYWHERE, *linked)


async def _list(client: Client, resource: Resource, namespace: str | None) -> list[Object]:
    """All objects of a kind; none if it is not defined."""
    try:
        return (await client.list(resource, namespace)).items
    except NotFound:
        return []


async def _if_there(getting: Awaitable[Object]) -> Object | None:
    try:
        return await getting
    except NotFound:
        return None
