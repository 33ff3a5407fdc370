"""Labels that controllers follow, and what they are compared with."""

from __future__ import annotations

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi import names
from espalier.clusterapi.labels import cluster_of, mislabelled
from espalier.kube.objects import Object, encode_json

IN_CLUSTER = {names.CLUSTER: "garden"}


def made(resource: Resource, labels: Tree, *owners: Resource, cluster: str = "garden") -> Object:
    references = [
        {"apiVersion": owner.api_version, "kind": owner.kind, "name": "garden-md-0", "uid": "1", "controller": True}
        for owner in owners
    ]
    metadata = {"name": "one", "namespace": "eksa-system", "labels": labels, "ownerReferences": references}
    tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return Object(encode_json({**tree, "spec": {"clusterName": cluster} if cluster else {}}))


@pytest.mark.parametrize(
    ("object_", "problem"),
    [
        (made(Machine.resource, IN_CLUSTER), ""),
        (
            made(Machine.resource, {names.CLUSTER: "other"}),
            f'label {names.CLUSTER} of Machine eksa-system/one is "other", but spec.clusterName is garden: set it to '
            '"garden"',
        ),
        (
            made(Machine.resource, {}),
            f"label {names.CLUSTER} of Machine eksa-system/one is missing, but spec.clusterName is garden: set it to "
            '"garden"',
        ),
        (made(MachineSet.resource, IN_CLUSTER | {names.DEPLOYMENT: "garden-md-0"}, MachineDeployment.resource), ""),
        (
            made(MachineSet.resource, IN_CLUSTER | {names.DEPLOYMENT: "other"}, MachineDeployment.resource),
            f'label {names.DEPLOYMENT} of MachineSet eksa-system/one is "other", but its controller is '
            'MachineDeployment garden-md-0: set it to "garden-md-0"',
        ),
        (made(Machine.resource, IN_CLUSTER | {names.CONTROL_PLANE: ""}, KubeadmControlPlane.resource), ""),
        (made(Machine.resource, IN_CLUSTER | {names.CONTROL_PLANE: "true"}, KubeadmControlPlane.resource), ""),
        (
            made(Machine.resource, IN_CLUSTER, KubeadmControlPlane.resource),
            f"label {names.CONTROL_PLANE} of Machine eksa-system/one is missing, but its controller is "
            'KubeadmControlPlane garden-md-0: set it to ""',
        ),
        (made(Machine.resource, IN_CLUSTER, MachineSet.resource), ""),
        (made(Machine.resource, {names.CLUSTER: "other"}, cluster=""), ""),
    ],
)
def test_a_label_that_differs_is_named_with_the_remedy(object_: Object, problem: str) -> None:
    assert "; ".join(mislabelled(object_)) == problem


@pytest.mark.parametrize("label", ["garden", "other", None])
def test_an_edited_label_leads_to_no_other_cluster(label: str | None) -> None:
    labels = {names.CLUSTER: label} if label is not None else {}
    assert cluster_of(made(Machine.resource, labels)) == "garden"
    assert cluster_of(made(Machine.resource, labels, cluster="")) == (label or "")
