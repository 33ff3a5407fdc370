"""Metrics of clusters, from caches that are filled by hand."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.identity import ClusterIdentity
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.clusters.report import measures
from espalier.clusters.report.measures import ClusterCollector
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.caches.cache import Cache
from tests.support.objects.adoption_records import adopted_cluster, adoption_record
from tests.support.objects.observed_clusters import GARDEN, example, observer

REFERENCE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachine", "name": "x"}
LABELS = ClusterIdentity.of(GARDEN).labels
OF_GARDEN = f'cluster="garden",cluster_namespace="{GARDEN.namespace}"'


class Fleet:
    """Caches of a manager."""

    def __init__(self) -> None:
        self.observer, self.leads = observer(), True
        for record in self.observer.clusters.list():
            self.observer.clusters.happened("DELETED", record)
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(ClusterCollector(self.observer, lambda: self.leads))

    def put(self, kind: type[KubeObject], tree: Tree, version: str = "1") -> None:
        caches: dict[Any, Cache] = {
            **self.observer.written,
            Cluster.resource: self.observer.clusters,
            Machine.resource: self.observer.machines,
        }
        tree["metadata"]["resourceVersion"] = version
        head = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind}
        caches[kind.resource].happened("MODIFIED", Object(to_bytes(head | tree)))

    def series(self) -> dict[str, float]:
        lines = generate_latest(self.registry).decode().splitlines()
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def cluster(name: str = "garden", **status: Any) -> Tree:
    tree = next(tree for tree in example() if tree["kind"] == "Cluster")
    tree["metadata"] |= {"name": name, "uid": name}
    return tree | {"status": status}


def condition(type_: str, status: str, reason: str) -> Tree:
    times = {"lastTransitionTime": "1970-01-01T00:01:40Z"}
    return {"type": type_, "status": status, "reason": reason, "message": "secret text", **times}


def owner(name: str, spec: Tree, **status: int) -> Tree:
    metadata = {"name": name, "namespace": "eksa-system", "uid": name, "labels": LABELS}
    return {"metadata": metadata, "spec": spec, "status": status}


def machine(name: str, expiry: str) -> Tree:
    labels = {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/control-plane": ""}
    metadata = {"name": name, "namespace": "eksa-system", "uid": name, "labels": labels}
    spec = {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": REFERENCE}
    return {"metadata": metadata, "spec": spec, "status": {"certificatesExpiryDate": expiry}}


def test_each_cluster_has_its_series() -> None:
    fleet = Fleet()
    conditions = [condition("Ready", "False", "NodesNotReady"), condition("Synced", "False", "Drifted")]
    fleet.put(Cluster, cluster(phase="Running", conditions=conditions))
    control_plane = {"version": "v1", "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}, "replicas": 3}
    fleet.put(KubeadmControlPlane, owner("garden", control_plane, replicas=4, readyReplicas=3, upToDateReplicas=2))
    template = {"spec": {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": REFERENCE}}
    deployment = {"clusterName": "garden", "template": template, "replicas": 2}
    fleet.put(MachineDeployment, owner("garden-md-0", deployment, replicas=1, readyReplicas=1, upToDateReplicas=1))
    fleet.put(Machine, machine("a", "1970-01-01T00:03:20Z"))
    fleet.put(Machine, machine("b", "1970-01-01T00:05:00Z"))
    assert fleet.series() == {
        'espalier_clusters{phase="Running"}': 1,
        "espalier_clusters_without_series": 0,
        f'espalier_cluster_info{{{OF_GARDEN},eksa_version="v0.26.0",kubernetes_version="1.35"}}': 1,
        f"espalier_cluster_ready{{{OF_GARDEN}}}": 0,
        f'espalier_cluster_phase{{{OF_GARDEN},phase="Running"}}': 1,
        f'espalier_cluster_condition{{{OF_GARDEN},reason="NodesNotReady",status="False",type="Ready"}}': 1,
        f'espalier_cluster_condition{{{OF_GARDEN},reason="Drifted",status="False",type="Synced"}}': 1,
        f"espalier_cluster_ready_last_transition_timestamp_seconds{{{OF_GARDEN}}}": 100,
        f'espalier_cluster_machines{{{OF_GARDEN},state="wanted"}}': 5,
        f'espalier_cluster_machines{{{OF_GARDEN},state="ready"}}': 4,
        f'espalier_cluster_machines{{{OF_GARDEN},state="outdated"}}': 2,
        f"espalier_cluster_drifted{{{OF_GARDEN}}}": 1,
        f"espalier_cluster_certificates_expiry_timestamp_seconds{{{OF_GARDEN}}}": 200,
    }


def test_a_deleted_machine_has_no_expiry() -> None:
    """As in condition CertificatesValid: its certificates end with it."""
    fleet = Fleet()
    fleet.put(Cluster, cluster())
    control_plane = {"version": "v1", "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}}
    fleet.put(KubeadmControlPlane, owner("garden", control_plane))
    fleet.put(Machine, machine("new", "1970-01-01T00:05:00Z"))
    leaving = machine("old", "1970-01-01T00:03:20Z")
    leaving["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:01Z"
    fleet.put(Machine, leaving)
    assert fleet.series()[f"espalier_cluster_certificates_expiry_timestamp_seconds{{{OF_GARDEN}}}"] == 300


def test_machines_of_an_adopted_cluster_are_counted() -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster())
    control_plane = {"version": "v1", "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}, "replicas": 3}
    theirs = owner("garden", control_plane, readyReplicas=3)
    theirs["metadata"]["labels"] = {"cluster.x-k8s.io/cluster-name": "garden"}
    fleet.put(KubeadmControlPlane, theirs)
    fleet.put(Machine, machine("a", "1970-01-01T00:03:20Z"))
    wanted = f'espalier_cluster_machines{{{OF_GARDEN},state="wanted"}}'
    assert fleet.series()[wanted] == 0
    record = adoption_record(GARDEN, (KubeadmControlPlane.resource, "garden"))
    made = Object(to_bytes(adopted_cluster("garden")))
    fleet.observer.written[capi.Cluster.resource].happened("ADDED", made)
    fleet.observer.adoptions.cache.happened("ADDED", Object(to_bytes(record)))
    assert fleet.series()[wanted] == 3
    assert fleet.series()[f"espalier_cluster_certificates_expiry_timestamp_seconds{{{OF_GARDEN}}}"] == 200


def test_a_changed_cluster_changes_its_series() -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster(conditions=[condition("Ready", "False", "ScalingUp")]))
    assert fleet.series()[f"espalier_cluster_ready{{{OF_GARDEN}}}"] == 0
    fleet.put(Cluster, cluster(conditions=[condition("Ready", "True", "ClusterReady")]), version="2")
    series = fleet.series()
    assert series[f"espalier_cluster_ready{{{OF_GARDEN}}}"] == 1
    assert not any("ScalingUp" in name for name in series)


def test_settled_clusters_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster())
    first = fleet.series()
    monkeypatch.setattr(Object, "decode", lambda *_: pytest.fail("decoded again"))
    assert fleet.series() == first


def test_a_replica_that_waits_reports_none() -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster())
    fleet.leads = False
    assert fleet.series() == {}


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measures, "MOST", 3)
    fleet = Fleet()
    for number in range(5):
        fleet.put(Cluster, cluster(f"c{number}", phase="Running"))
    series = fleet.series()
    assert series['espalier_clusters{phase="Running"}'] == 5
    assert series["espalier_clusters_without_series"] == 2
    assert sum(name.startswith("espalier_cluster_ready{") for name in series) == 3


def test_messages_are_no_labels() -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster(conditions=[condition("Ready", "False", "ScalingUp")]))
    assert not any("secret text" in name for name in fleet.series())


def test_a_cluster_that_cannot_be_read_is_left_out() -> None:
    fleet = Fleet()
    fleet.put(Cluster, cluster() | {"spec": "x"})
    assert fleet.series() == {"espalier_clusters_without_series": 0}
