"""The Cluster that is the record of the management cluster, and the Clusters that it manages.

A ConfigMap in the system's namespace names it, where users of other namespaces can't write. Without the ConfigMap the
oldest record counts, so no later Cluster can take the place of the management cluster.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from espalier.api.core import CONFIG_MAP, ConfigMap
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.events import Event
from espalier.api.eksa.vocabulary.group import MANAGEMENT_STATE_ANNOTATION, MANAGEMENT_UPGRADING
from espalier.api.resource import Key
from espalier.clusters.design import names
from espalier.clusters.observe.scope import age, is_self_managed, read
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.controllers.predicates import generation_changed

BY_MANAGER = "manager"
SELF = ""
"""The index key of self-managed Clusters."""

GRACE = 60.0
"""Seconds after the ConfigMap's creation in which the record that it names may still come: the record needs webhooks,
so it is created once the manager is ready."""
REMEDY = "create it with `espalier manifests --management-cluster NAMESPACE/NAME` (see docs/management-cluster.md)"


class ManagementCluster:
    """Reads the ConfigMap, and the Clusters of all namespaces that are watched."""

    def __init__(self, caches: Caches, clusters: Cache) -> None:
        fields = f"metadata.name={names.MANAGEMENT_CLUSTER.name}"
        self.named = caches.of(CONFIG_MAP, names.MANAGEMENT_CLUSTER.namespace, fields=fields)
        self.clusters = clusters
        clusters.add_indexes({BY_MANAGER: _by_manager})

    def watched_by(self, controller: Controller, all_keys: Callable[[], Iterable[Key]]) -> None:
        """Enqueue all Clusters when the ConfigMap changes."""
        controller.watch(self.named, lambda _changed: all_keys())

    def configured_by(self, cluster: Object) -> Iterable[Key]:
        """The ConfigMap that names this Cluster."""
        return [names.MANAGEMENT_CLUSTER] if self.is_named and self.is_it(cluster.key) else []

    @property
    def is_named(self) -> bool:
        """True if the ConfigMap exists, whatever its content."""
        return self.named.get(names.MANAGEMENT_CLUSTER) is not None

    @property
    def key(self) -> Key | None:
        """The key of the record, whether or not it exists; None without a ConfigMap, or when it is invalid."""
        config_map = self.named.get(names.MANAGEMENT_CLUSTER)
        if config_map is None:
            oldest = min(self.clusters.by_index(BY_MANAGER, SELF), key=age, default=None)
            return oldest.key if oldest is not None else None
        return named_by(config_map)

    @property
    def is_upgrading(self) -> bool:
        """True while a command upgrades the management cluster, so that its manager acts on the record."""
        config_map = self.named.get(names.MANAGEMENT_CLUSTER)
        return (
            config_map is not None
            and config_map.metadata.annotations.get(MANAGEMENT_STATE_ANNOTATION) == MANAGEMENT_UPGRADING
        )

    @property
    def lacks_record(self) -> bool:
        """True if the ConfigMap names a Cluster that does not exist."""
        key = self.key
        return self.is_named and key is not None and self.clusters.get(key) is None

    @property
    def record(self) -> eksa.Cluster | None:
        """The record of the management cluster; None when it does not exist."""
        key = self.key
        record = self.clusters.get(key) if key is not None else None
        return _decoded(record) if record is not None else None

    def of(self, cluster: eksa.Cluster) -> eksa.Cluster | None:
        """The Cluster that `spec.managementCluster` names, if it exists and is the management cluster."""
        name = cluster.spec.management_cluster.name
        key = self.key
        if key is not None and key.name == name:
            return self.record
        return None

    def is_it(self, cluster: Key) -> bool:
        """True if this is the record of the management cluster."""
        return self.key == cluster

    def managed(self) -> list[Object]:
        """The Clusters that name the management cluster, including those being deleted."""
        key = self.key
        return self.clusters.by_index(BY_MANAGER, key.name) if key is not None else []

    @property
    def trouble(self) -> str:
        """A problem with the ConfigMap that an administrator should fix; empty if there is none."""
        where = f"ConfigMap {names.MANAGEMENT_CLUSTER}"
        key = self.key
        if not self.is_named:
            fallback = f"Cluster {key}, the oldest record, is used" if key else "there is no record either"
            return f"{where}, which names the management cluster, does not exist: {fallback}; {REMEDY}"
        if key is None:
            return f"{where} must have namespace and name of the management cluster's Cluster in its data; {REMEDY}"
        record = self.clusters.get(key)
        decoded = _decoded(record) if record is not None else None
        if decoded is None or not is_self_managed(decoded):
            what = "does not exist" if record is None else "is not self-managed"
            return f"{where} names Cluster {key} as the management cluster, which {what}"
        return ""


def controller(
    known: ManagementCluster,
    recorder: Recorder,
    clock: Clock,
    *,
    resync: float = RESYNC,
    rng: random.Random | None = None,
) -> Controller:
    """Records an event on the ConfigMap when it does not name a valid management cluster."""

    async def reconcile(key: Key) -> Outcome:
        config_map = known.named.get(key)
        if config_map is None or not known.trouble:
            return Done()
        if known.lacks_record and (left := grace(config_map, clock.now())):
            return Done(after=left)
        recorder.event(config_map, "Warning", Event.MANAGEMENT_CLUSTER_INVALID, known.trouble)
        return Done()

    result = Controller("management-cluster", reconcile, workers=1, resync=resync, rng=rng)
    result.watch(known.named)
    result.watch(known.clusters, known.configured_by, predicate=generation_changed)
    return result


def grace(config_map: Object, now: datetime) -> float:
    """The seconds that are left until it is reported that the record of this ConfigMap is missing."""
    created = datetime.fromisoformat(config_map.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
    return max(0.0, (created + timedelta(seconds=GRACE) - now).total_seconds())


def named_by(config_map: Object) -> Key | None:
    """The Cluster that the ConfigMap names; None when it names none."""
    try:
        data = config_map.decode(ConfigMap).data
    except msgspec.ValidationError:
        return None
    namespace, name = data.get("namespace", ""), data.get("name", "")
    return Key(namespace, name) if namespace and name else None


def _by_manager(object_: Object) -> Iterable[str]:
    cluster = _decoded(object_)
    if cluster is None:
        return ()
    return (SELF if is_self_managed(cluster) else cluster.spec.management_cluster.name,)


def _decoded(object_: Object) -> eksa.Cluster | None:
    try:
        return read(object_)
    except msgspec.ValidationError:  # reported by its own reconcile
        return None
