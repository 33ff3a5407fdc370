"""When a simulated control plane replaces a machine that is not healthy: by Cluster API's rules and limits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from espalier.api.capi.cluster import Cluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.meta import Tree
from espalier.clusterapi.machines.remediation import REMEDIATION_FOR
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.controllers.outcome import Wait
from espalier.simulator.capi.states.control_plane import (
    Observed,
    OwnedMachine,
    Scaling,
    next_scaling,
    pending_remediation,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
SICK = [
    {"type": "HealthCheckSucceeded", "status": "False", "reason": "UnhealthyNode"},
    {"type": "OwnerRemediated", "status": "False", "reason": "WaitingForRemediation"},
]


def machine(name: str, annotations: Tree | None = None, conditions: list[Tree] | None = None) -> OwnedMachine:
    tree: Tree = {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {"name": name, "namespace": "eksa-system", "uid": name, "annotations": annotations or {}},
        "spec": {
            "clusterName": "garden",
            "version": "v1.36.3",
            "bootstrap": {},
            "infrastructureRef": {"apiGroup": "a", "kind": "DockerMachine", "name": name},
        },
        "status": {"nodeRef": {"name": name}, "conditions": conditions or []},
    }
    return OwnedMachine(Object(to_bytes(tree)), None, None)


def observed(*machines: OwnedMachine, status: Tree | None = None, **remediation: int) -> Observed:
    spec: dict[str, Any] = {
        "version": "v1.36.3",
        "replicas": 3,
        "machineTemplate": {
            "spec": {"infrastructureRef": {"apiGroup": "a", "kind": "DockerMachineTemplate", "name": "t"}}
        },
        "remediation": remediation,
    }
    tree = {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "garden", "namespace": "eksa-system", "uid": "kcp"},
        "spec": spec,
        "status": {"lastRemediation": status} if status else {},
    }
    object_ = Object(to_bytes(tree))
    made = Observed(
        object=object_,
        control_plane=object_.decode(KubeadmControlPlane),
        cluster_object=object_,
        cluster=msgspec.convert({"metadata": {"name": "garden"}, "spec": {}}, Cluster),
        machines=machines,
        secrets={},
        infrastructure_template=None,
        other_machines=0,
    )
    made.__dict__["outdated"] = {}
    return made


def in_place_of(other: str, ago: timedelta, retries: int) -> Tree:
    at = (NOW - ago).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {REMEDIATION_FOR: f'{{"machine":"{other}","timestamp":"{at}","retryCount":{retries}}}'}


MINUTES = timedelta(minutes=20)


@pytest.mark.parametrize(
    ("annotations", "limits", "expected"),
    [
        ({}, {}, 0),
        (in_place_of("x", MINUTES, 0), {}, 1),
        (in_place_of("x", MINUTES, 1), {"maxRetry": 2}, 2),
        (in_place_of("x", MINUTES, 2), {"maxRetry": 2}, "RemediationFailed"),
        (in_place_of("x", MINUTES, 0), {"retryPeriodSeconds": 3000}, "RemediationDeferred"),
        (in_place_of("x", MINUTES, 5), {"minHealthyPeriodSeconds": 600}, 0),
        (in_place_of("x", timedelta(hours=2), 5), {"maxRetry": 2}, 0),
    ],
)
def test_retries_are_counted_and_limited(annotations: Tree, limits: dict[str, Any], expected: object) -> None:
    sick = machine("b", annotations, SICK)
    scaling = next_scaling(observed(machine("a"), sick, machine("c"), **limits), NOW)
    if isinstance(scaling, Wait):
        assert scaling.reason == expected
    else:
        assert isinstance(scaling, Scaling)
        assert scaling.remove is sick
        assert scaling.remediates is not None
        assert scaling.remediates.retry_count == expected


def test_next_machine_replaces_the_one_that_went() -> None:
    status = {"machine": "b", "time": "2026-01-01T11:59:00Z", "retryCount": 1}
    assert pending_remediation(observed(machine("a"), machine("b"), status=status)) is None, "it is still there"
    pending = pending_remediation(observed(machine("a"), machine("c"), status=status))
    assert pending is not None
    assert (pending.machine, pending.retry_count) == ("b", 1)
    claimed = machine("d", in_place_of("b", MINUTES, 1))
    assert pending_remediation(observed(machine("a"), claimed, status=status)) is None
