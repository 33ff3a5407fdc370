"""Metrics of clusters, computed from caches when they are scraped.

What an object contributes is kept by its resource version, so a scrape of settled clusters decodes nothing. The number
of series is bounded: of each of the first `MOST` clusters, fifteen at most; totals count all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Generic, TypeVar

from msgspec import ValidationError
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.clusterapi import contract
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, MachineCounts
from espalier.clusters.design import names
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import read
from espalier.clusters.report.certificates import expiries, is_of_etcd
from espalier.kube.measures import Measure
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache

T = TypeVar("T")

MOST = 2000
"""Clusters with series of their own: Prometheus takes 3 KiB for a series."""
_BY_CLUSTER = ("cluster_namespace", "cluster")
"""Not `namespace`: Prometheus sets that to where the manager runs."""

CLUSTERS = Measure("espalier_clusters", "gauge", "Clusters by phase, all of them.", ("phase",))
UNMEASURED = Measure(
    "espalier_clusters_without_series",
    "gauge",
    "Clusters beyond the first 2000, which have no series of their own.",
    to_do="split the manager by `--namespace` or `--watch-filter`",
)
INFO = Measure(
    "espalier_cluster_info",
    "gauge",
    "1, with the versions in the spec of a cluster.",
    (*_BY_CLUSTER, "kubernetes_version", "eksa_version"),
)
READY = Measure(
    "espalier_cluster_ready",
    "gauge",
    "1 if the cluster is Ready.",
    _BY_CLUSTER,
    to_do="`espalier top`, `describe cluster`",
)
PHASE = Measure("espalier_cluster_phase", "gauge", "1, with the phase of a cluster.", (*_BY_CLUSTER, "phase"))
CONDITION = Measure(
    "espalier_cluster_condition",
    "gauge",
    "1, with status and reason of conditions Ready, Synced, Stalled, CertificatesValid and SpecValid.",
    (*_BY_CLUSTER, "type", "status", "reason"),
    to_do="`docs/reference/conditions.md` has the reasons",
)
SINCE = Measure(
    "espalier_cluster_ready_last_transition_timestamp_seconds",
    "gauge",
    "When condition Ready last changed: the time in the present state is `time()` minus it.",
    _BY_CLUSTER,
)
MACHINES = Measure(
    "espalier_cluster_machines",
    "gauge",
    "Machines of a cluster: wanted, ready, and outdated ones that a rollout replaces.",
    (*_BY_CLUSTER, "state"),
)
DRIFTED = Measure(
    "espalier_cluster_drifted",
    "gauge",
    "1 if objects of the cluster differ from what is rendered.",
    _BY_CLUSTER,
    to_do="condition `Synced` names the objects and fields",
)
CERTIFICATES = Measure(
    "espalier_cluster_certificates_expiry_timestamp_seconds",
    "gauge",
    "When the first certificate of a control plane machine ends.",
    _BY_CLUSTER,
    to_do="`espalier renew certificates NAME`",
)
MEASURES = (CLUSTERS, UNMEASURED, INFO, READY, PHASE, CONDITION, SINCE, MACHINES, DRIFTED, CERTIFICATES)

_SHOWN = (names.READY, names.SYNCED, names.STALLED, names.CERTIFICATES_VALID, names.SPEC_VALID)


@dataclass(frozen=True)
class _ClusterState:
    phase: str
    versions: tuple[str, str]
    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class _Owned:
    """The part of a cluster in an object of Cluster API: machines wanted, ready and outdated, or an expiry."""

    cluster: Key | None
    """The Cluster in its labels; machines have none, nor have objects that were taken over."""
    name: str
    """The Cluster of Cluster API, whose name is that of one Cluster alone."""
    machines: MachineCounts = field(default_factory=MachineCounts)
    expiry: datetime | None = None


class _Memory(Generic[T]):
    """The contribution of each object of a cache, computed when it is asked for after a change of the object.

    It reads what has changed alone: to list a cache costs unpacking all that it holds.
    """

    def __init__(self, cache: Cache, compute: Callable[[Object], T]) -> None:
        self._cache, self._compute = cache, compute
        self._known: dict[Key, T] = {}
        self._changed = set[Key]()
        cache.subscribe(self._note)

    def all(self) -> Mapping[Key, T]:
        """The contributions of all objects; of those that can't be decoded, none."""
        changed, self._changed = self._changed, set()
        for key in changed:
            self._known.pop(key, None)
            item = self._cache.get(key)
            if item is not None:
                with suppress(ValidationError):
                    self._known[key] = self._compute(item)
        return self._known

    def _note(self, old: Object | None, new: Object | None, _first: bool) -> None:
        item = new or old
        if item is not None:
            self._changed.add(item.key)


class ClusterCollector(Collector):
    """Reads the caches of a manager that acts; a replica that waits reports nothing, so that no cluster has two."""

    def __init__(self, observer: ClusterObserver, is_leading: Callable[[], bool]) -> None:
        self._is_leading = is_leading
        written = observer.written
        self._clusters = _Memory(observer.clusters, _cluster)
        self._owners = {
            KubeadmControlPlane.resource: _Memory(written[KubeadmControlPlane.resource], _control_plane),
            MachineDeployment.resource: _Memory(written[MachineDeployment.resource], _deployment),
        }
        self._adoptions = observer.adoptions
        self._machines = _Memory(observer.machines, _machine)

    def collect(self) -> Iterator[Metric]:
        """All families, empty ones too."""
        families = {measure.name: measure.gauge_family() for measure in MEASURES}
        if self._is_leading():
            clusters = self._clusters.all()
            self._add_totals(families, clusters)
            shown = dict(sorted(clusters.items())[:MOST])
            self._add_states(families, shown)
            self._add_machines(families, shown.keys())
        yield from families.values()

    def _add_totals(self, families: dict[str, GaugeMetricFamily], clusters: Mapping[Key, _ClusterState]) -> None:
        for phase, number in sorted(Counter(state.phase for state in clusters.values()).items()):
            families[CLUSTERS.name].add_metric([phase], number)
        families[UNMEASURED.name].add_metric([], max(0, len(clusters) - MOST))

    def _add_states(self, families: dict[str, GaugeMetricFamily], clusters: dict[Key, _ClusterState]) -> None:
        for key, state in clusters.items():
            families[INFO.name].add_metric([*key, *state.versions], 1)
            families[PHASE.name].add_metric([*key, state.phase], 1)
            by_type = {condition.type: condition for condition in state.conditions}
            ready, synced = by_type.get(names.READY), by_type.get(names.SYNCED)
            families[READY.name].add_metric([*key], float(ready is not None and ready.status == "True"))
            families[DRIFTED.name].add_metric([*key], float(synced is not None and synced.status == "False"))
            for condition in state.conditions:
                families[CONDITION.name].add_metric([*key, condition.type, condition.status, condition.reason], 1)
            since = conditions.parse_timestamp(ready.last_transition_time or "") if ready is not None else None
            if since is not None:
                families[SINCE.name].add_metric([*key], since.timestamp())

    def _add_machines(self, families: dict[str, GaugeMetricFamily], shown: Iterable[Key]) -> None:
        counts, first = {key: MachineCounts() for key in shown}, dict[Key, datetime]()
        by_name: dict[str, Key] = {}
        for cluster, part in self._parts():
            if cluster in counts:
                by_name[part.name] = cluster
                counts[cluster] += part.machines
        for part in self._machines.all().values():
            key = by_name.get(part.name)
            if key is not None and part.expiry is not None:
                first[key] = min(part.expiry, first.get(key, part.expiry))
        for key, machines in counts.items():
            for state, number in asdict(machines).items():
                families[MACHINES.name].add_metric([*key, state], number)
        for key, expiry in first.items():
            families[CERTIFICATES.name].add_metric([*key], expiry.timestamp())

    def _parts(self) -> Iterator[tuple[Key, _Owned]]:
        """Owners of machines, with their Clusters: by labels, or by the record of a cluster that was taken over."""
        for resource, memory in self._owners.items():
            for key, part in memory.all().items():
                claiming = [part.cluster] if part.cluster is not None else self._adoptions.claiming(resource, key.name)
                yield from ((cluster, part) for cluster in claiming[:1])


def _cluster(item: Object) -> _ClusterState:
    cluster = read(item)
    shown = tuple(condition for condition in cluster.status.conditions if condition.type in _SHOWN)
    versions = (cluster.spec.kubernetes_version or "", cluster.spec.eksa_version or "")
    return _ClusterState(str(cluster.status.phase or "Pending"), versions, shown)


def _control_plane(item: Object) -> _Owned:
    return _owned(item.decode(KubeadmControlPlane))


def _deployment(item: Object) -> _Owned:
    return _owned(item.decode(MachineDeployment))


def _owned(owner: KubeadmControlPlane | MachineDeployment) -> _Owned:
    labels = owner.metadata.labels
    return _Owned(names.cluster_of(labels), labels.get(CLUSTER_NAME_LABEL, ""), MachineCounts.of(owner))


def _machine(item: Object) -> _Owned:
    """A machine that is being deleted has no expiry: its certificates go with it."""
    labels, is_deleted = item.metadata.labels, item.metadata.deletion_timestamp is not None
    has_certificates = contract.CONTROL_PLANE_LABEL in labels or is_of_etcd(item)
    name = labels.get(CLUSTER_NAME_LABEL, "") if has_certificates and not is_deleted else ""
    return _Owned(None, name, expiry=expiries([item]).get(item.name) if name else None)
