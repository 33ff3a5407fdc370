"""The objects of one cluster, watched for as long as somebody looks at its page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE, VERSION
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.dashboard.observation import Watched
from espalier.kube.discovery import ServedResource
from espalier.kube.objects import Object
from espalier.providers import links
from espalier.providers.kinds import CATALOG
from espalier.runtime.caches.cache import Cache

CATEGORY = "cluster-api"
MOST_LINKS = 64
"""Objects that a Cluster names, and that are watched for its page."""
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

    def __init__(self, all_: Watched, key: Key, kinds: Sequence[Resource]) -> None:
        """`all_`: what the dashboard watches for all pages."""
        super().__init__(all_.client, all_.clock, (key.namespace,) if all_.namespaces else (), all_.probe, all_.advice)
        self.key = key
        of, labels = self.caches.of, f"{CLUSTER_NAME_LABEL}={key.name}"
        self.cluster = of(Cluster.resource, key.namespace, fields=f"metadata.name={key.name}", optional=True)
        self.parts = [of(kind, SYSTEM_NAMESPACE, labels, optional=True) for kind in kinds]
        self._linked: dict[tuple[str, str], Cache] = {}
        about = f"involvedObject.name={key.name},involvedObject.kind=Cluster"
        self.events = of(CORE_EVENT, key.namespace, fields=about)

    @property
    def object(self) -> Object | None:
        """The Cluster; None if it does not exist, or is not read yet."""
        return self.cluster.get(self.key)

    @property
    def objects(self) -> list[Object]:
        """Its objects, and those that it names."""
        return [object_ for cache in (*self.parts, *self._linked.values()) for object_ in cache.list()]

    def follow_links(self, changed: Callable[[], None]) -> None:
        """Watch what the Cluster names, and what that names, as far as it is not watched yet."""
        object_ = self.object
        spec = object_.tree.get("spec") if object_ is not None else None
        if not isinstance(spec, dict):
            return
        named = [*links.references(spec)]
        for cache in self._linked.values():
            named += [each for linked in cache.list() for each in links.further(linked.tree.get("spec"))]
        for reference in named:
            kind, name = str(reference.get("kind", "")), str(reference.get("name", ""))
            if (kind, name) in self._linked or not name or len(self._linked) >= MOST_LINKS:
                continue
            try:
                resource = CATALOG.resource_of(f"{GROUP}/{VERSION}", kind)
            except KeyError:
                continue
            cache = self.caches.of(resource, self.key.namespace, fields=f"metadata.name={name}", optional=True)
            cache.subscribe(lambda _old, _new, _first: changed())
            self._linked[kind, name] = cache
