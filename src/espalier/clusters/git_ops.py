"""The configuration of GitOps that a Cluster names: it is the management cluster's, and nothing is rendered from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import gitops
from espalier.api.resource import Key, Resource
from espalier.clusters.linked import Missing
from espalier.kube.objects import Object
from espalier.runtime.cache import Caches

if TYPE_CHECKING:
    from espalier.runtime.controller import Controller

FIELD = "spec.gitOpsRef"
KINDS: tuple[Resource, ...] = tuple(kind.resource for kind in gitops.KINDS)


class GitOpsObjects:
    """Their caches."""

    def __init__(self, caches: Caches) -> None:
        self._caches = {resource.kind: caches.of(resource) for resource in KINDS}

    def watched_by(self, controller: Controller, users: Callable[[Object], Iterable[Key]]) -> None:
        """Have every change bring the Clusters that it concerns."""
        for cache in self._caches.values():
            controller.watch(cache, users)

    def of(
        self, cluster: eksa.Cluster, management: eksa.Cluster | None
    ) -> tuple[tuple[Object, ...], tuple[Missing, ...]]:
        """The object that a Cluster names, or what is missing.

        It lies beside the record of the management cluster, or beside the Cluster as long as that one is not known.
        """
        reference = cluster.spec.git_ops_ref
        cache = self._caches.get(reference.kind) if reference is not None else None
        if reference is None or cache is None:
            return (), ()
        key = Key((management or cluster).metadata.namespace, reference.name)
        found = cache.get(key)
        if found is not None:
            return (found,), ()
        return (), (Missing(FIELD, f"{reference.kind} {key.name} in namespace {key.namespace}"),)
