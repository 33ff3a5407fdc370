"""Clusters of manifests without a management cluster: one is made up, of the newest release there is."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.core import ConfigMap
from espalier.api.crd import crd_of
from espalier.api.eksa.cluster import Cluster, ClusterSpec, ManagementCluster
from espalier.api.eksa.group import MANAGEMENT_CLUSTER, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.manifests import Document
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Key
from espalier.api.violations import ManifestError, Violation
from espalier.cli import documents
from espalier.cli.failures import Failure
from espalier.clusters import cni, plan, workload_objects
from espalier.clusters.observe import Observer
from espalier.clusters.preview.previews import Previews
from espalier.clusters.scope import ClusterAPIObjects
from espalier.kube.objects import Object, to_bytes
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.runtime.snapshot import Snapshot


class OfflineManager:
    """Makes objects of manifests. Nothing is there but what the manifests and the releases say."""

    def __init__(self, found: Sequence[Document], releases: Path | None, namespace: str) -> None:
        offered = Releases.load(releases)
        self._trees = [tree for _, tree in documents.in_namespace(found, namespace)]
        snapshot = self._snapshot = Snapshot()
        self._observer = Observer(snapshot, providers=PROVIDERS)
        snapshot.fill([*_objects(offered), _EKS_ANYWHERE, *self._management_clusters(offered.newest().version)])
        self._previews = Previews(snapshot, self._observer, {}, now=datetime.now(UTC))

    def objects(self, document: Document, *, workload: bool) -> list[Tree]:
        """The objects made for one Cluster, in the order of writing; or those for its `workload` cluster.

        Raises `ManifestError` naming everything that admission would refuse, and `Failure` for what can't be made.
        """
        tree = document.tree
        key = Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
        # Each cluster is looked at by itself: in the management cluster that it names.
        manager = (tree["spec"].get("managementCluster") or {}).get("name") or key.name
        named = ConfigMap(
            metadata=ObjectMeta(name=MANAGEMENT_CLUSTER, namespace=SYSTEM_NAMESPACE),
            data={"namespace": key.namespace, "name": manager},
        )
        self._snapshot.put(Object(to_bytes(named)))
        linked = [other for other in self._trees if documents.links(tree, other)]
        preview = self._previews.of_change(key, [*linked, tree])
        if preview.refusals:
            raise ManifestError(
                [document.problem(Violation(one.field, "", "", one.message)) for one in preview.refusals]
            )
        scope = self._observer.scope(key)
        if preview.stops or scope is None or scope.design is None:
            raise Failure(f"Cluster {key}: {preview.stops}")
        design, nothing = scope.design, ClusterAPIObjects()
        made: list[Tree]
        if workload:
            made = [one.body for one in (*cni.objects(design), *workload_objects.wanted(design))]
        else:
            wanted = [*plan.control_plane(design, nothing), *plan.worker_groups(design, nothing)]
            made = [msgspec.to_builtins(object_) for object_ in wanted]
        return made

    def _management_clusters(self, version: str) -> list[Object]:
        named = {
            (tree["metadata"]["namespace"], (tree["spec"].get("managementCluster") or {}).get("name"))
            for tree in self._trees
            if tree["kind"] == Cluster.resource.kind
        }
        given = {(tree["metadata"]["namespace"], tree["metadata"]["name"]) for tree in self._trees}
        made_up = [
            Cluster(
                metadata=ObjectMeta(name=name, namespace=namespace, annotations={PAUSED_ANNOTATION: "true"}),
                spec=ClusterSpec(management_cluster=ManagementCluster(name=name), eksa_version=version),
            )
            for namespace, name in sorted((namespace, name) for namespace, name in named if name)
            if (namespace, name) not in given
        ]
        return [Object(to_bytes(cluster)) for cluster in made_up]


_EKS_ANYWHERE = Object(to_bytes(crd_of(capi.Cluster)))
"""A definition of EKS Anywhere's build of Cluster API: everything that can be asked for is rendered."""


def _objects(releases: Releases) -> list[Object]:
    return [Object(to_bytes(object_)) for object_ in releases.objects()]
