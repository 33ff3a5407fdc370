"""The GitOps configuration that a Cluster references: that of the management cluster; nothing is rendered from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import gitops
from espalier.api.resource import Key, Resource
from espalier.clusters.references import Missing
from espalier.kube.objects import Object
from espalier.runtime.cache import Caches

if TYPE_CHECKING:
    from espalier.runtime.controller import Controller

FIELD = "spec.gitOpsRef"
KINDS: tuple[Resource, ...] = tuple(kind.resource for kind in gitops.KINDS)


class GitOpsObjects:
    """Caches of the GitOps configurations."""

    def __init__(self, caches: Caches) -> None:
        self._caches = {resource.kind: caches.of(resource) for resource in KINDS}

    def watched_by(self, controller: Controller, users: Callable[[Object], Iterable[Key]]) -> None:
        """Enqueue, for every change, the Clusters that it concerns."""
        for cache in self._caches.values():
            controller.watch(cache, users)

    def of(
        self, cluster: eksa.Cluster, management: eksa.Cluster | None
    ) -> tuple[tuple[Object, ...], tuple[Missing, ...]]:
        """The object that a Cluster references, or what is missing."""
        named = place(cluster, management)
        if named is None:
            return (), ()
        kind, key = named
        found = self._caches[kind].get(key)
        if found is not None:
            return (found,), ()
        return (), (Missing(FIELD, f"{kind} {key.name} in namespace {key.namespace}, which does not exist"),)


def place(cluster: eksa.Cluster, management: eksa.Cluster | None) -> tuple[str, Key] | None:
    """Kind and key of the object that a Cluster references; None without a reference, or for another kind.

    It is in the namespace of the management cluster's record, or in that of the Cluster while the record is unknown.
    """
    reference = cluster.spec.git_ops_ref
    if reference is None or all(reference.kind != resource.kind for resource in KINDS):
        return None
    return reference.kind, Key((management or cluster).metadata.namespace, reference.name)
