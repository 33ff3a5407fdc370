"""The messages of conditions while parts of a cluster become ready."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.clusterapi import external_etcd
from espalier.clusters.report import readiness


@pytest.mark.parametrize(
    ("endpoints", "annotations", "expected"),
    [
        ("", {}, "0 of 3 members are ready"),
        ("https://a,https://b", {}, "2 of 3 members are ready"),
        ("https://a,https://b,https://c,https://d", {external_etcd.UPGRADING: "true"}, "being replaced (4 ready)"),
        ("https://a,https://b,https://c", {external_etcd.UPGRADING: "true"}, "being replaced (3 ready)"),
    ],
)
def test_a_rollout_of_etcd_is_no_count_of_all(endpoints: str, annotations: dict[str, str], expected: str) -> None:
    template = {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "VSphereMachineTemplate", "name": "a"}
    tree = {
        "metadata": {"name": "garden-etcd", "annotations": annotations},
        "spec": {"replicas": 3, "etcdadmConfigSpec": {}, "infrastructureTemplate": template},
        "status": {"endpoints": endpoints},
    }
    assert expected in readiness.etcd_progress(msgspec.convert(tree, EtcdadmCluster))
