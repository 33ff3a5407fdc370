"""The servers that Clusters have credentials sent to, by Secret: what permissions of Secrets are needed for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

import msgspec

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key, Resource
from espalier.clusters.design.provider import Providers
from espalier.clusters.observe import references
from espalier.clusters.observe.scope import read
from espalier.kube.objects import Object
from espalier.runtime.caches.snapshot import Snapshot


class Use(NamedTuple):
    """A Cluster that has the credentials of a Secret sent to a server."""

    cluster: Key
    secret: str
    server: str
    """As annotations of Secrets name it, in lower case."""


class Uses(NamedTuple):
    """The uses of Secrets by Clusters."""

    known: Sequence[Use]
    unknown: Sequence[Key]
    """Clusters whose linked objects are missing or invalid, so that they may use any server."""


def kinds(providers: Providers, clusters: Iterable[Object]) -> Collection[Resource]:
    """The kinds of the objects that these Clusters link."""
    users = {provider for cluster in clusters if (provider := _provider_kind(cluster)) in providers}
    return dict.fromkeys(kind for name in sorted(users) for kind in providers[name].links.kinds)


def of(providers: Providers, objects: Sequence[Object]) -> Uses:
    """The uses by Clusters among these objects, which include those that they link."""
    snapshot = Snapshot()
    linked = references.LinkedObjects(snapshot, providers)
    snapshot.fill(objects)
    known: list[Use] = []
    unknown = []
    for object_ in objects:
        if object_.kind != Cluster.resource.kind or (kind := _provider_kind(object_)) not in providers:
            continue
        try:
            cluster, links = read(object_), providers[kind].links
            children = linked.children(object_.namespace, cluster.spec)
            if not _are_there(cluster, children, {link.kind for link in (links.datacenter, *links.machine_configs)}):
                raise LookupError
            known += [
                Use(object_.key, dependency.name, dependency.server.lower())
                for dependency in links.depend(cluster, children)
                if dependency.resource == SECRET and dependency.server
            ]
        except (msgspec.ValidationError, LookupError, ValueError):
            unknown.append(object_.key)
    return Uses(known, unknown)


def _are_there(cluster: Cluster, children: Sequence[Object], needed: Collection[str]) -> bool:
    present = {(child.kind, child.name) for child in children}
    return all(
        (reference.kind, reference.name) in present
        for _, reference in references.references(cluster.spec)
        if reference.kind in needed
    )


def _provider_kind(cluster: Object) -> str:
    if cluster.kind != Cluster.resource.kind:
        return ""
    reference = (cluster.tree.get("spec") or {}).get("datacenterRef")
    return str(reference.get("kind") or "") if isinstance(reference, dict) else ""
