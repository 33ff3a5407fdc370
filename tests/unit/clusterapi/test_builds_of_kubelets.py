"""Cluster API 1.14 wants kubelets to be named as their Machines: a distribution names the builds of its own."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.clusterapi import contract

WANTED = "v1.36.3-eks-1-36-1"
OTHER_NAME = f"* Node.status.nodeInfo.kubeletVersion v1.36.3-eks-d91a302, {WANTED} required"
NO_NAME = f"* Node.status.nodeInfo.kubeletVersion v1.36.3, {WANTED} required"
OLDER = f"* Node.status.nodeInfo.kubeletVersion v1.35.4-eks-52af9d7, {WANTED} required"
REFERENCE = {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DockerMachineTemplate", "name": "garden"}
MACHINE = {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": REFERENCE, "version": WANTED}
REASONS: list[tuple[list[str], bool]] = [
    ([OTHER_NAME], True),
    ([NO_NAME], True),
    ([NO_NAME, OTHER_NAME], True),
    ([OLDER], False),
    ([f"* Version v1.35.4-eks-1-35-1, {WANTED} required", OLDER], False),
    (["* KubeadmConfig is not up-to-date", OTHER_NAME], False),
    (["* In-place update in progress"], False),
    ([f"{OTHER_NAME}, and the moon is full"], False),
    ([], False),
]


def control_plane(reasons: list[str], **status: object) -> KubeadmControlPlane:
    return msgspec.convert(
        {
            "metadata": {"name": "garden", "generation": 2},
            "spec": {"version": WANTED, "replicas": 3, "machineTemplate": {"spec": {"infrastructureRef": REFERENCE}}},
            "status": _status(reasons) | status,
        },
        KubeadmControlPlane,
    )


def machine(*conditions: dict[str, str]) -> Machine:
    tree = {"metadata": {"name": "garden-a"}, "spec": MACHINE, "status": {"conditions": conditions}}
    return msgspec.convert(tree, Machine)


def _status(reasons: list[str]) -> dict[str, object]:
    message = "\n".join(["Rolling out 3 not up-to-date replicas", *reasons])
    rolling = {"type": "RollingOut", "status": "True", "reason": "RollingOut", "message": message}
    available = {"type": "Available", "status": "True", "reason": "Available"}
    counts = {"replicas": 3, "readyReplicas": 3, "upToDateReplicas": 0}
    return {"conditions": [rolling, available], "observedGeneration": 2, "version": "v1.36.3-eks-d91a302", **counts}


@pytest.mark.parametrize(("reasons", "current"), REASONS)
def test_control_plane_is_current_but_for_names(reasons: list[str], current: bool) -> None:
    result = control_plane(reasons)
    assert contract.up_to_date_replicas(result) == (3 if current else 0)
    assert contract.is_up_to_date(result) is current
    assert contract.is_control_plane_available(result) is current
    assert contract.MachineCounts.of(result).outdated == (0 if current else 3)


@pytest.mark.parametrize(("reasons", "current"), REASONS)
def test_workers_are_current_but_for_names(reasons: list[str], current: bool) -> None:
    spec = {"clusterName": "garden", "template": {"spec": MACHINE}, "selector": {}}
    tree = {"metadata": {"name": "garden-md-0", "generation": 2}, "spec": spec, "status": _status(reasons)}
    machine_deployment = msgspec.convert(tree, MachineDeployment)
    assert contract.up_to_date_replicas(machine_deployment) == (3 if current else 0)


@pytest.mark.parametrize(("reasons", "current"), REASONS)
def test_machine_is_current_but_for_names(reasons: list[str], current: bool) -> None:
    condition = {"type": "UpToDate", "status": "False", "reason": "Updating", "message": "\n".join(reasons)}
    assert contract.is_outdated(machine(condition)) is not current


@pytest.mark.parametrize("status", ["True", "Unknown"])
def test_machine_is_outdated_only_if_that_is_known(status: str) -> None:
    assert not contract.is_outdated(machine({"type": "UpToDate", "status": status, "reason": "UpToDate"}))
    assert not contract.is_outdated(machine())


def test_counters_hold_while_nothing_is_rolled_out() -> None:
    still = {"type": "RollingOut", "status": "False", "reason": "NotRollingOut", "message": f"\n{OTHER_NAME}"}
    result = control_plane([], conditions=[still], upToDateReplicas=2)
    assert contract.up_to_date_replicas(result) == 2


def test_status_of_an_earlier_spec_says_nothing() -> None:
    assert not contract.is_control_plane_available(control_plane([OTHER_NAME], observedGeneration=1))
