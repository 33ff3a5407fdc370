"""The objects of one cluster, watched for as long as somebody looks at its page."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.dashboard.observation import Watched
from espalier.kube.client import Client
from espalier.kube.discovery import ServedResource
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock

CATEGORY = "cluster-api"
UPGRADES = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)


def kinds_of(served: Sequence[ServedResource]) -> tuple[Resource, ...]:
    """The kinds that a cluster may consist of, whatever its provider: one version of each, and no templates."""
    chosen: dict[tuple[str, str], Resource] = {}
    for entry in served:
        resource = entry.resource
        is_part = CATEGORY in entry.categories and not resource.kind.endswith("Template")
        if (is_part or resource in UPGRADES) and resource.namespaced and "list" in entry.verbs:
            chosen.setdefault((resource.group, resource.plural), resource)
    return tuple(chosen.values())


class ClusterWatch(Watched):
    """Caches of one cluster alone."""

    def __init__(self, client: Client, clock: Clock, key: Key, kinds: Sequence[Resource], *, limited: bool) -> None:
        """`limited`: the dashboard shows a single namespace."""
        super().__init__(client, clock, (key.namespace,) if limited else ())
        self.key = key
        of, labels = self.caches.of, f"{CLUSTER_NAME_LABEL}={key.name}"
        self.cluster = of(Cluster.resource, key.namespace, fields=f"metadata.name={key.name}")
        self.parts = [of(kind, SYSTEM_NAMESPACE, labels, optional=True) for kind in kinds]
        about = f"involvedObject.name={key.name},involvedObject.kind=Cluster"
        self.events = of(CORE_EVENT, key.namespace, fields=about)

    @property
    def object(self) -> Object | None:
        """The Cluster; None if it does not exist, or is not read yet."""
        return self.cluster.get(self.key)

    @property
    def objects(self) -> list[Object]:
        """Its objects."""
        return [object_ for cache in self.parts for object_ in cache.list()]
