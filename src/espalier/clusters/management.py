"""Which Cluster is the record of the management cluster, and which Clusters it manages.

A ConfigMap in the system's namespace names it, where users of other namespaces can't write. Until there is one, the
oldest record counts: nobody who comes later takes the place of the management cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import msgspec

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa import cluster as eksa
from espalier.api.resource import Key
from espalier.clusters import names
from espalier.clusters.scope import is_self_managed, read
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache, Caches
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.events import Recorder
from espalier.runtime.outcome import Done, Outcome
from espalier.runtime.predicates import generation_changed

BY_MANAGER = "manager"
SELF = ""
"""In the index by manager: Clusters that manage themselves."""

HOW = "`espalier manifests --management-cluster NAMESPACE/NAME` prints it, docs/management-cluster.md says when"


class ManagementCluster:
    """Reads the ConfigMap, and the Clusters of all namespaces that are watched."""

    def __init__(self, caches: Caches, clusters: Cache) -> None:
        fields = f"metadata.name={names.MANAGEMENT_CLUSTER.name}"
        self.named = caches.of(CONFIG_MAP, names.MANAGEMENT_CLUSTER.namespace, fields=fields)
        self.clusters = clusters
        clusters.add_indexes({BY_MANAGER: _by_manager})

    def watched_by(self, controller: Controller, everybody: Callable[[], Iterable[Key]]) -> None:
        """Have a change of the ConfigMap bring all Clusters."""
        controller.watch(self.named, lambda _changed: everybody())

    def configured_by(self, cluster: Object) -> Iterable[Key]:
        """The ConfigMap, for the Cluster that it names."""
        return [names.MANAGEMENT_CLUSTER] if self.is_named and self.is_it(cluster.key) else []

    @property
    def is_named(self) -> bool:
        """Whether the ConfigMap is there, whatever it says."""
        return self.named.get(names.MANAGEMENT_CLUSTER) is not None

    @property
    def key(self) -> Key | None:
        """Where the record is, or is to be; None while nothing says so, or what does can't be understood."""
        found = self.named.get(names.MANAGEMENT_CLUSTER)
        if found is None:
            oldest = min(self.clusters.by_index(BY_MANAGER, SELF), key=_age, default=None)
            return oldest.key if oldest is not None else None
        return named_by(found)

    @property
    def record(self) -> eksa.Cluster | None:
        """The record of the management cluster; None when it is not there."""
        key = self.key
        found = self.clusters.get(key) if key is not None else None
        return _decoded(found) if found is not None else None

    def of(self, cluster: eksa.Cluster) -> eksa.Cluster | None:
        """The Cluster that `spec.managementCluster` names, if that is the management cluster and is there."""
        name = cluster.spec.management_cluster.name
        key = self.key
        if key is not None and key.name == name:
            return self.record
        return None

    def is_it(self, cluster: Key) -> bool:
        """Whether this is the record of the management cluster."""
        return self.key == cluster

    def managed(self) -> list[Object]:
        """The Clusters that name the management cluster as theirs, those that are being deleted as well."""
        key = self.key
        return self.clusters.by_index(BY_MANAGER, key.name) if key is not None else []

    @property
    def trouble(self) -> str:
        """What somebody should see to; empty when all is well."""
        where = f"ConfigMap {names.MANAGEMENT_CLUSTER}"
        key = self.key
        if not self.is_named:
            so = f"the oldest record, Cluster {key}, counts" if key else "there is no record either"
            return f"there is no {where}, which says which Cluster is the management cluster: {so}; {HOW}"
        if key is None:
            return f"{where} is to have namespace and name of the management cluster's Cluster in its data; {HOW}"
        found = self.clusters.get(key)
        decoded = _decoded(found) if found is not None else None
        if decoded is None or not is_self_managed(decoded):
            what = "does not exist" if found is None else "is not self-managed"
            return f"Cluster {key}, which {where} names as the management cluster, {what}"
        return ""


def controller(
    known: ManagementCluster, recorder: Recorder, *, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """Tells who looks at the ConfigMap when it names no Cluster that can be the management cluster."""

    async def reconcile(key: Key) -> Outcome:
        found = known.named.get(key)
        if found is not None and known.trouble:
            recorder.event(found, "Warning", "ManagementClusterInvalid", known.trouble)
        return Done()

    made = Controller("management-cluster", reconcile, workers=1, resync=resync, rng=rng)
    made.watch(known.named)
    made.watch(known.clusters, known.configured_by, predicate=generation_changed)
    return made


def named_by(found: Object) -> Key | None:
    """The Cluster that the ConfigMap names; None when it names none."""
    try:
        data = found.decode(ConfigMap).data
    except msgspec.ValidationError:
        return None
    namespace, name = data.get("namespace", ""), data.get("name", "")
    return Key(namespace, name) if namespace and name else None


def _age(record: Object) -> tuple[str, str, str]:
    return (record.metadata.creation_timestamp or "", record.namespace, record.name)


def _by_manager(found: Object) -> Iterable[str]:
    cluster = _decoded(found)
    if cluster is None:
        return ()
    return (SELF if is_self_managed(cluster) else cluster.spec.management_cluster.name,)


def _decoded(found: Object) -> eksa.Cluster | None:
    try:
        return read(found)
    except msgspec.ValidationError:  # said by its own reconcile
        return None
