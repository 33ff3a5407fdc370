"""What machines read at their first boot."""

from __future__ import annotations

import pytest

from espalier.api.capi.kubeadm import (
    Arg,
    ClusterConfiguration,
    File,
    InitConfiguration,
    JoinConfiguration,
    KubeadmConfigSpec,
    NodeRegistration,
)
from espalier.api.core import Taint
from espalier.local import bootstrap_data
from espalier.local.bootstrap_data import CONTROL_PLANE_TAINT, Kubeadm
from espalier.local.nodes import control_plane_images

SPEC = KubeadmConfigSpec(
    cluster_configuration=ClusterConfiguration(image_repository="registry.example/kubernetes"),
    init_configuration=InitConfiguration(),
    join_configuration=JoinConfiguration(
        node_registration=NodeRegistration(
            name="{{ ds.meta_data.hostname }}",
            taints=[Taint(key="dedicated", value="db", effect="NoExecute")],
            kubelet_extra_args=[Arg(name="node-labels", value="disk=fast,zone=a"), Arg(name="v", value="4")],
        )
    ),
    files=[File(path="/etc/kubernetes/audit-policy.yaml", content="not in the summary")],
    pre_kubeadm_commands=["echo before"],
)


def test_the_first_machine_of_a_control_plane_begins_the_cluster() -> None:
    data = bootstrap_data.render(SPEC, version="v1.35.4", init=True, control_plane=True, node_name="garden-abcde")
    assert data.startswith(b"#cloud-config\n")
    assert b"kubeadm init" in data
    assert bootstrap_data.read(data) == Kubeadm(
        version="v1.35.4",
        init=True,
        control_plane=True,
        node_name="garden-abcde",
        taints=[CONTROL_PLANE_TAINT],
        cluster=SPEC.cluster_configuration,
    )


def test_a_worker_joins_with_its_labels_and_taints() -> None:
    data = bootstrap_data.render(SPEC, version="v1.35.4", init=False, control_plane=False, node_name="worker")
    kubeadm = bootstrap_data.read(data)
    assert not kubeadm.init
    assert kubeadm.node_name == "worker", "a template of a cloud's metadata means the machine's own name"
    assert kubeadm.labels == {"disk": "fast", "zone": "a"}
    assert kubeadm.taints == [Taint(key="dedicated", value="db", effect="NoExecute")]
    assert b"echo before" in data
    assert b"not in the summary" not in data


def test_an_empty_list_of_taints_means_none() -> None:
    spec = KubeadmConfigSpec(init_configuration=InitConfiguration(node_registration=NodeRegistration(taints=[])))
    data = bootstrap_data.render(spec, version="v1.35.4", init=True, control_plane=True, node_name="only")
    assert bootstrap_data.read(data).taints == []


def test_data_of_another_form_are_refused_without_showing_them() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        bootstrap_data.read(b"#!/bin/sh\nsecret=1")


def test_images_of_the_control_plane_come_from_the_release() -> None:
    images = control_plane_images(Kubeadm(version="v1.35.4-eks-1-35-1", cluster=SPEC.cluster_configuration))
    assert images["kube-apiserver"] == "registry.example/kubernetes/kube-apiserver:v1.35.4-eks-1-35-1"
    assert list(images) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
