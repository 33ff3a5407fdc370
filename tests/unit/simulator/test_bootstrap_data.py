"""The data that machines read at their first boot."""

from __future__ import annotations

import msgspec
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
from espalier.simulator import bootstrap_data
from espalier.simulator.bootstrap_data import CONTROL_PLANE_TAINT, Kubeadm
from espalier.simulator.hosts import static_pods

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


def test_first_machine_of_control_plane_begins_cluster() -> None:
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


def test_data_of_another_form_are_refused_unshown() -> None:
    with pytest.raises(ValueError, match="can't be read"):
        bootstrap_data.read(b"#!/bin/sh\nsecret=1")


JOIN = b"""## template: jinja
#cloud-config
write_files:
- path: /run/kubeadm/kubeadm-join-config.yaml
  permissions: "0640"
  content: |
    ---
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: JoinConfiguration
    discovery: {bootstrapToken: {token: abcdef.0123456789abcdef}}
    nodeRegistration:
      name: '{{ ds.meta_data.local_hostname }}'
      kubeletExtraArgs:
      - {name: node-labels, value: disk=fast}
      taints:
      - {key: node.cluster.x-k8s.io/uninitialized, effect: NoSchedule}
- path: /run/cluster-api/placeholder
  content: "This placeholder file is used to create the /run/cluster-api sub directory"
runcmd:
- kubeadm join --config /run/kubeadm/kubeadm-join-config.yaml
"""
INIT = b"""#cloud-config
write_files:
- path: /etc/kubernetes/pki/ca.key
  content: not for us
- path: /run/kubeadm/kubeadm.yaml
  content: |
    ---
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: ClusterConfiguration
    imageRepository: registry.example/kubernetes
    kubernetesVersion: v1.35.4
    ---
    apiVersion: kubeadm.k8s.io/v1beta4
    kind: InitConfiguration
    nodeRegistration: {}
"""


def test_data_of_real_provider_say_how_worker_joins() -> None:
    kubeadm = bootstrap_data.read(JOIN, version="v1.35.4", node_name="garden-md-0-abcde")
    assert kubeadm == Kubeadm(
        version="v1.35.4",
        node_name="garden-md-0-abcde",
        labels={"disk": "fast"},
        taints=[Taint(key="node.cluster.x-k8s.io/uninitialized", effect="NoSchedule")],
    )


def test_data_of_real_provider_say_how_cluster_begins() -> None:
    kubeadm = bootstrap_data.read(INIT, version="v1.35.4-eks-1-35-1", node_name="garden-abcde")
    assert (kubeadm.init, kubeadm.control_plane, kubeadm.taints) == (True, True, [CONTROL_PLANE_TAINT])
    assert kubeadm.version == "v1.35.4-eks-1-35-1"
    assert kubeadm.cluster == SPEC.cluster_configuration


def test_joining_machine_gets_the_cluster_settings() -> None:
    joins = JOIN.replace(b"    nodeRegistration:", b"    controlPlane: {}\n    nodeRegistration:")
    kubeadm = bootstrap_data.read(joins, version="v1.35.4", node_name="garden-abcde")
    assert (kubeadm.init, kubeadm.control_plane, kubeadm.cluster) == (False, True, None)


@pytest.mark.parametrize(
    "data", [b"#cloud-config\nwrite_files: []\n", b"#cloud-config\nruncmd: [kubeadm]\n", b"#cloud-config\n{secret: ["]
)
def test_cloud_configs_without_kubeadm_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="can't be read") as refused:
        bootstrap_data.read(data)
    assert "secret" not in str(refused.value)


def test_images_of_control_plane_come_from_release() -> None:
    pods = static_pods.rendered(msgspec.to_builtins(SPEC.cluster_configuration), "v1.35.4-eks-1-35-1")
    assert pods["kube-apiserver"].image == "registry.example/kubernetes/kube-apiserver:v1.35.4-eks-1-35-1"
    assert list(pods) == ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"]
