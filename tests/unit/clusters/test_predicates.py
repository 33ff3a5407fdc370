"""What was written to a Cluster by this manager is no news to it; what others wrote is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.predicates import Reports, relevant
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster


def cluster(annotations: Mapping[str, Any] = {}, status: Mapping[str, Any] = {}, version: str = "1") -> Object:
    metadata = {"name": "garden", "namespace": "team-a", "resourceVersion": version, "annotations": annotations}
    body = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster", "metadata": metadata}
    return Object(msgspec.json.encode(body | {"spec": {}, "status": status}))


@pytest.fixture
def reports() -> Reports:
    reports = Reports()
    reports.says(cluster().key, {"phase": "Running"})
    reports.marks(cluster().key, "mark", "open")
    return reports


OLD = cluster({"mark": "closed", "theirs": "1"}, {"phase": "Creating"})


@pytest.mark.parametrize(
    ("annotations", "status", "is_news"),
    [
        ({"mark": "closed", "theirs": "1"}, {"phase": "Running"}, False),
        ({"mark": "open", "theirs": "1"}, {"phase": "Creating"}, False),
        ({"mark": "open", "theirs": "1"}, {"phase": "Running"}, False),
        ({"mark": "closed", "theirs": "1"}, {"phase": "Failed"}, True),
        ({"mark": "closed", "theirs": "1"}, {}, True),
        ({"mark": "another", "theirs": "1"}, {"phase": "Running"}, True),
        ({"theirs": "1"}, {"phase": "Running"}, True),
        ({"mark": "open", "theirs": "2"}, {"phase": "Running"}, True),
        ({"mark": "open"}, {"phase": "Running"}, True),
    ],
)
def test_only_what_others_wrote_is_news_also_where_it_comes_with_what_we_wrote(
    reports: Reports, annotations: Tree, status: Tree, is_news: bool
) -> None:
    assert reports.by_others(OLD, cluster(annotations, status, "2")) is is_news


def test_who_brings_back_what_we_said_before_is_heard(reports: Reports) -> None:
    reports.says(OLD.key, {"phase": "Upgrading"})
    assert reports.by_others(cluster(status={"phase": "Upgrading"}), cluster(status={"phase": "Running"}))


def test_nothing_is_remembered_of_a_cluster_that_is_gone(reports: Reports) -> None:
    assert reports.by_others(OLD, None)
    assert reports.by_others(OLD, cluster({"mark": "open", "theirs": "1"}, {"phase": "Running"}))


@pytest.mark.parametrize(
    ("resource", "initialization"),
    [
        (DockerCluster.resource, {"provisioned": True}),
        (KubeadmControlPlane.resource, {"controlPlaneInitialized": True}),
    ],
    ids=lambda value: value.kind if isinstance(value, Resource) else "",
)
def test_what_is_made_again_is_looked_at_once_it_is_there(resource: Resource, initialization: Tree) -> None:
    def reported(status: Tree) -> Object:
        metadata = {"name": "garden", "namespace": "eksa-system", "uid": "1", "generation": 1}
        reference = {"apiGroup": "a", "kind": "DockerMachineTemplate", "name": "garden"}
        spec = {"version": "v1.36.3", "machineTemplate": {"spec": {"infrastructureRef": reference}}}
        body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
        return Object(msgspec.json.encode(body | {"spec": spec, "status": status}))

    changed = relevant(resource)
    assert changed(reported({}), reported({"initialization": initialization}))
    assert not changed(reported({}), reported({"phase": "Running"}))
