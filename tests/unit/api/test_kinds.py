from __future__ import annotations

import msgspec
import pytest

from espalier.api import capi
from espalier.api.capi.kubeadm import BootstrapTokenDiscovery, Discovery
from espalier.api.capi.machine import MachineStatus
from espalier.api.core import NODE, ConfigMap, Secret
from espalier.api.eksa.cluster import Cluster, ClusterStatus
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.api.meta import ObjectMeta
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CATALOG, CLUSTER_API_KINDS, EKSA_KINDS

KINDS = (*EKSA_KINDS, *CLUSTER_API_KINDS)


def test_object_tells_its_kind_and_omits_unset_fields() -> None:
    config = DockerDatacenterConfig(metadata=ObjectMeta(name="garden", namespace="default"))
    assert msgspec.to_builtins(config) == {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "DockerDatacenterConfig",
        "metadata": {"name": "garden", "namespace": "default"},
        "spec": {},
    }


def test_fields_have_the_names_of_the_wire() -> None:
    tree = {
        "clusterNetwork": {"cniConfig": {"cilium": {"ipv4NativeRoutingCIDR": "10.0.0.0/8"}}},
        "controlPlaneConfiguration": {"count": 3, "certSans": ["garden.example.com"]},
        "gitOpsRef": {"kind": "FluxConfig", "name": "flux"},
        "podIamConfig": {"serviceAccountIssuer": "https://issuer.example.com"},
        "managementCluster": {"name": "laptop"},
    }
    spec = msgspec.convert({"spec": tree}, Cluster).spec
    assert msgspec.to_builtins(spec) == tree


def test_a_count_of_zero_is_written() -> None:
    assert msgspec.to_builtins(WorkerNodeGroupConfiguration(name="md-0", count=0)) == {"name": "md-0", "count": 0}


def test_a_status_is_immutable_in_memory() -> None:
    status = ClusterStatus(phase="Creating")
    with pytest.raises(AttributeError):
        status.phase = "Running"  # type: ignore[misc]


def test_an_absent_status_reads_as_an_empty_one() -> None:
    machine = msgspec.convert(
        {
            "spec": {
                "clusterName": "garden",
                "bootstrap": {},
                "infrastructureRef": {"apiGroup": "x", "kind": "y", "name": "z"},
            }
        },
        capi.machine.Machine,
    )
    assert machine.status == MachineStatus()
    assert not machine.status.initialization.infrastructure_provisioned


def test_unknown_fields_do_not_hinder_reading() -> None:
    cluster = msgspec.convert({"spec": {"topology": {"classRef": {"name": "x"}}, "paused": True}}, capi.cluster.Cluster)
    assert cluster.spec.paused


def test_secrets_are_base64_on_wire_and_silent_in_logs() -> None:
    secret = Secret(metadata=ObjectMeta(name="garden-kubeconfig"), data={"value": b"hunter2"})
    assert msgspec.to_builtins(secret)["data"] == {"value": "aHVudGVyMg=="}
    assert "hunter2" not in repr(secret)
    assert "abc.def" not in repr(Discovery(bootstrap_token=BootstrapTokenDiscovery(token="abc.def")))


@pytest.mark.parametrize("cls", KINDS)
def test_a_kind_is_found_by_its_name(cls: type[KubeObject]) -> None:
    assert CATALOG.kind_of(cls.resource.api_version, cls.resource.kind) is cls
    assert CATALOG.resource_of(cls.resource.api_version, cls.resource.kind) == cls.resource


def test_built_in_kinds_resolve_and_unknown_do_not() -> None:
    assert CATALOG.kind_of("v1", "ConfigMap") is ConfigMap
    assert CATALOG.kind_of("v1", "Cluster") is None
    assert NODE.path(name="garden-md-0") == "/api/v1/nodes/garden-md-0"
