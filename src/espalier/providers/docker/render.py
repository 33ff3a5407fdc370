"""Renders the objects of Cluster API's Docker provider from a render input."""

from __future__ import annotations

from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.clusterapi.kubernetes_versions import minor
from espalier.clusters.design.provider import Components, RenderInput
from espalier.clusters.design.render import etcd, kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.rendered import Settings
from espalier.providers.docker.cluster_api import (
    DockerCluster,
    DockerClusterSpec,
    DockerMachineSpec,
    DockerMachineTemplate,
    LoadBalancer,
    Mount,
)
from espalier.releases import Image, image_at

CERT_SANS = ("localhost", "127.0.0.1")
"""The load balancer's port is published on the host's loopback address."""

_NODE = kubeadm.NodeSettings(
    {
        # A container sees the host's disk, whose usage is no reason to evict pods.
        "eviction-hard": "nodefs.available<0%,nodefs.inodesFree<0%,imagefs.available<0%",
        "tls-cipher-suites": kubeadm.CIPHER_SUITES,
    },
    kubeadm.CRI_SOCKET,
    has_fixed_args=False,
)

FAIL_CGROUP_V1_SINCE = minor("1.31")
"""The first Kubernetes version whose kubelet has the flag. Since 1.35 it is on by default: the kubelet refuses to start
on cgroup v1."""

_DOCKER_SOCKET = "/var/run/docker.sock"


def infrastructure_cluster(render_input: RenderInput) -> DockerCluster:
    """The DockerCluster, with the load balancer."""
    haproxy = image_at(render_input.of_control_plane.bundle, "haproxy.image")
    image = Image.parse(haproxy.uri) if haproxy else None
    load_balancer = LoadBalancer(image_repository=image.repository, image_tag=image.tag) if image else None
    return DockerCluster(
        metadata=meta(render_input, render_input.name), spec=DockerClusterSpec(load_balancer=load_balancer)
    )


def etcd_config(render_input: RenderInput) -> EtcdadmConfigSpec:
    """The configuration by which a machine becomes an etcd member."""
    return etcd.config(render_input)


def etcd_machine_template(render_input: RenderInput, name: str) -> DockerMachineTemplate:
    """The template of etcd machines, the same as that of all other machines."""
    return machine_template(render_input, render_input.of_control_plane, name, None)


def settings(render_input: RenderInput) -> Settings:
    """Settings as in EKS Anywhere: volumes on a machine's disk, and kubelets in the control groups of systemd."""
    versions = {components.version for components in render_input.components.values()}
    lasting = {"fail-cgroupv1": "false"}
    return Settings(
        service_domain="cluster.local",
        controller_manager={"enable-hostpath-provisioner": "true"},
        kubelet={
            version: {"cgroup-driver": "systemd"} | (lasting if minor(version) >= FAIL_CGROUP_V1_SINCE else {})
            for version in versions
        },
    )


def control_plane_config(render_input: RenderInput) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines."""
    return kubeadm.control_plane_config(render_input, _NODE, cert_sans=CERT_SANS)


def worker_config(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers."""
    return kubeadm.worker_config(render_input, group, _NODE)


def machine_template(
    render_input: RenderInput, components: Components, name: str, _group: WorkerNodeGroupConfiguration | None
) -> DockerMachineTemplate:
    """The DockerMachineTemplate of the control plane or of a group: the same for all."""
    node = components.bundle.eks_d.kind_node
    mounts = [Mount(host_path=_DOCKER_SOCKET, container_path=_DOCKER_SOCKET)]
    machine = DockerMachineSpec(custom_image=node.uri if node else "", extra_mounts=mounts)
    return DockerMachineTemplate.of(meta(render_input, name), machine)
