from __future__ import annotations

from typing import Any

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests.schema import LOST_DIGITS, MOST_TOLD, violations
from espalier.providers.docker.kinds import DockerDatacenterConfig

GROUP = {"name": "md-0", "count": 2}


def cluster(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "anywhere.eks.amazonaws.com/v1alpha1",
        "kind": "Cluster",
        "metadata": {"name": "garden"},
        "spec": {"kubernetesVersion": "1.35", **spec},
    }


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"workerNodeGroupConfigurations": [{"cout": 2}]},
            'spec.workerNodeGroupConfigurations[0].cout: unknown field; did you mean "count"?; found 2; allowed: '
            "autoscalingConfiguration, count,",
        ),
        (
            {"workerNodeGroupConfiguration": []},
            'spec.workerNodeGroupConfiguration: unknown field; did you mean "workerNodeGroupConfigurations"?',
        ),
        (
            {"clusterNetwork": {"cniConfig": {"kindnetd": {"mtu": 1}}}},
            "spec.clusterNetwork.cniConfig.kindnetd.mtu: unknown field; nothing may be set here; found 1",
        ),
        (
            {"controlPlaneConfiguration": {"count": "1"}},
            'spec.controlPlaneConfiguration.count: wrong type; write the value without quotes; found "1" (a string); '
            "allowed: an integer",
        ),
        (
            {"controlPlaneConfiguration": {"count": "1e400"}},
            'spec.controlPlaneConfiguration.count: wrong type; found "1e400" (a string); allowed: an integer',
        ),
        (
            {"kubernetesVersion": 1.35},
            f"spec.kubernetesVersion: wrong type; put the value in quotes ({LOST_DIGITS}); found 1.35 (a number); "
            "allowed: a string",
        ),
        (
            {"kubernetesVersion": "v1.35.4"},
            'spec.kubernetesVersion: wrong form; found "v1.35.4"; allowed: a minor version such as 1.35',
        ),
        (
            {"controlPlaneConfiguration": {}},
            "spec.controlPlaneConfiguration.count: required field is missing; set it; found nothing",
        ),
        (
            {"controlPlaneConfiguration": {"count": None}},
            "spec.controlPlaneConfiguration.count: required field is missing; set it; found nothing",
        ),
        ({"controlPlaneConfiguration": {"count": 0}}, "spec.controlPlaneConfiguration.count: too small; found 0; "),
        (
            {"workerNodeGroupConfigurations": {"name": "md-0"}},
            "spec.workerNodeGroupConfigurations: wrong type; write each item on a line of its own that begins with",
        ),
        (
            {"controlPlaneConfiguration": {"count": 1, "upgradeRolloutStrategy": {"type": "Inplace"}}},
            "spec.controlPlaneConfiguration.upgradeRolloutStrategy.type: unsupported value; "
            'did you mean "InPlace"?; found "Inplace"; allowed: InPlace, RollingUpdate',
        ),
        (
            {"machineHealthCheck": {"maxUnhealthy": 0.4}},
            "spec.machineHealthCheck.maxUnhealthy: wrong type; found 0.4; allowed: an integer or a string",
        ),
        ({"datacenterRef": {"kind": "", "name": "x"}}, 'spec.datacenterRef.kind: too short; found ""; allowed: 1'),
    ],
)
def test_violation_tells_field_value_allowed_advice(spec: dict[str, Any], sentence: str) -> None:
    (violation,) = violations(Cluster, cluster(**spec))
    assert str(violation).startswith(sentence)


def test_violations_are_complete_in_order_of_fields() -> None:
    tree = cluster(
        controlPlaneConfiguration={"count": -1, "labels": {"a.b/c": 1}},
        workerNodeGroupConfigurations=[GROUP, {"count": -1, "surprise": True}],
    )
    tree["metadata"]["lables"] = {}
    assert [violation.field for violation in violations(Cluster, tree)] == [
        "metadata.lables",
        "spec.controlPlaneConfiguration.count",
        "spec.controlPlaneConfiguration.labels[a.b/c]",
        "spec.workerNodeGroupConfigurations[1].count",
        "spec.workerNodeGroupConfigurations[1].surprise",
    ]


def test_null_means_absent_as_it_does_to_kubernetes() -> None:
    tree = cluster(workerNodeGroupConfigurations=[{**GROUP, "taints": None}], gitOpsRef=None)
    tree["metadata"]["creationTimestamp"] = None
    assert violations(Cluster, tree) == []


def test_parts_that_others_define_may_hold_anything() -> None:
    tree = cluster(controlPlaneConfiguration={"count": 1, "kubeletConfiguration": {"maxPods": 50, "x": [{}]}})
    assert violations(Cluster, tree) == []


def test_a_number_or_a_percentage_may_be_either() -> None:
    for value in (2, "40%"):
        assert violations(Cluster, cluster(machineHealthCheck={"maxUnhealthy": value})) == []


def test_long_values_are_cut() -> None:
    (violation,) = violations(DockerDatacenterConfig, {"metadata": {"name": "x"}, "spec": {"x": "y" * 1000}})
    assert len(violation.found) == 60


def test_unknown_fields_are_reported_up_to_a_limit() -> None:
    """Each takes a millisecond, and whoever may write one object would stall the webhooks for a minute."""
    spec = {f"a{at}": 1 for at in range(9999)}
    cluster = {"apiVersion": Cluster.resource.api_version, "kind": "Cluster", "spec": spec}
    assert len(violations(Cluster, cluster)) <= MOST_TOLD + 10


@pytest.mark.parametrize(
    ("network", "field"),
    [
        ({"dns": {"resolvConf": {"path": "/a b"}}}, "dns.resolvConf.path"),
        (
            {"cniConfig": {"cilium": {"egressMasqueradeInterfaces": "a\nb"}}},
            "cniConfig.cilium.egressMasqueradeInterfaces",
        ),
        ({"cniConfig": {"cilium": {"egressMasqueradeInterfaces": "eth0 ens+"}}}, ""),
    ],
)
def test_values_of_flags_and_settings_have_one_line(network: dict[str, Any], field: str) -> None:
    fields = [violation.field for violation in violations(Cluster, cluster(clusterNetwork=network))]
    assert fields == ([f"spec.clusterNetwork.{field}"] if field else [])
