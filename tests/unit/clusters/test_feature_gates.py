"""Feature gates that a Kubernetes version has lost are refused, where that version is asked for."""

from __future__ import annotations

import pytest

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.parts.control_plane import ControlPlaneConfiguration
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.version_matrix import lost_gates
from espalier.clusters.observe.rules.machines.feature_gates import violations

LOST = "StructuredAuthenticationConfiguration"
MESSAGE = "this version has lost the feature gate, and does not start with it; remove it, also before an upgrade"


def spec(version: str, gates: str = "", *, kubelet: object = None, group: str | None = None) -> ClusterSpec:
    configuration = {"featureGates": kubelet}
    return ClusterSpec(
        kubernetes_version=version,
        control_plane_configuration=ControlPlaneConfiguration(
            count=1, api_server_extra_args={"feature-gates": gates}, kubelet_configuration=configuration
        ),
        worker_node_group_configurations=[
            WorkerNodeGroupConfiguration(kubelet_configuration=configuration, kubernetes_version=group)
        ],
    )


def test_a_lost_gate_of_the_api_server_is_refused() -> None:
    (violation,) = violations(spec("1.37", f"WatchList=true, {LOST} = true"))
    assert str(violation) == (
        f"spec.controlPlaneConfiguration.apiServerExtraArgs.feature-gates: {MESSAGE}; found {LOST}; allowed: a feature "
        "gate of Kubernetes 1.37"
    )


def test_a_lost_gate_of_kubelets_is_refused() -> None:
    fields = [violation.field for violation in violations(spec("1.37", kubelet={LOST: True}))]
    assert fields == [
        "spec.controlPlaneConfiguration.kubeletConfiguration.featureGates",
        "spec.workerNodeGroupConfigurations[0].kubeletConfiguration.featureGates",
    ]
    (violation,) = violations(spec("1.37", kubelet={LOST: True}, group="1.36"))
    assert violation.field.startswith("spec.controlPlaneConfiguration")


@pytest.mark.parametrize("version", ["1.36", "", "1.36.3"])
def test_an_earlier_version_has_the_gate(version: str) -> None:
    assert list(violations(spec(version, f"{LOST}=true", kubelet={LOST: True}))) == []


def test_other_gates_are_taken() -> None:
    assert list(violations(spec("1.37", "", kubelet="none"))) == []
    assert list(violations(spec("1.37", "KMSv1=true,AllAlpha=false", kubelet={"Foo": True}))) == []
    assert list(violations(ClusterSpec(kubernetes_version="1.37"))) == []


def test_later_versions_do_not_have_it_either() -> None:
    assert lost_gates("1.37") == lost_gates("1.38")
    assert lost_gates("") == lost_gates("1.36") == frozenset()
