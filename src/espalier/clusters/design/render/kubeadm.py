"""The kubeadm configuration, for any provider: images of the release, flags, audit, kubelet."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from espalier.api.capi.kubeadm import (
    ApiServer,
    Arg,
    ClusterConfiguration,
    Component,
    Dns,
    Etcd,
    ExternalEtcd,
    File,
    HostPathMount,
    InitConfiguration,
    JoinConfiguration,
    KubeadmConfigSpec,
    LocalEtcd,
    NodeRegistration,
    Patches,
)
from espalier.api.core import Taint
from espalier.api.eksa.parts.kubelet import PATCH, PATCHES_FOLDER
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.clusterapi import external_etcd
from espalier.clusterapi.kubernetes_versions import minor
from espalier.clusters.design.audit_policy import AUDIT_POLICY
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.api_server import (
    admission_exclusions,
    authentication,
    authenticator,
    etcd_encryption,
)
from espalier.clusters.design.render.nodes import node_setup
from espalier.clusters.design.rendered import Settings

CIPHER_SUITES = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
"""The only cipher suite of EKS Distro's components below TLS 1.3."""

CRI_SOCKET = "unix:///var/run/containerd/containerd.sock"
"""Where containerd listens on nodes of most providers."""

_CERTIFICATES = "/etc/kubernetes/pki"
AUDIT_POLICY_FILE = "/etc/kubernetes/audit-policy.yaml"
AUDIT_LOG_FOLDER = "/var/log/kubernetes"

_AUDIT_ARGS = {
    "audit-policy-file": AUDIT_POLICY_FILE,
    "audit-log-path": f"{AUDIT_LOG_FOLDER}/api-audit.log",
    "audit-log-maxage": "30",
    "audit-log-maxbackup": "10",
    "audit-log-maxsize": "512",
}
_KUBELET_ARGS = {"anonymous-auth": "false", "read-only-port": "0", "tls-cipher-suites": CIPHER_SUITES}
_COMPONENT_ARGS = {"profiling": "false", "tls-cipher-suites": CIPHER_SUITES}


def args(flags: Mapping[str, str]) -> list[Arg]:
    """Flags in the given order: the list is a map keyed by its items, without an order of its own."""
    return [Arg(name=name, value=value) for name, value in flags.items()]


CONTROL_PLANE_TAINT = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
"""The taint that kubeadm sets by default."""

_NO_CLOUD_PROVIDER_SINCE = minor("1.33")
"""The first Kubernetes version whose kube-apiserver has no flag for a cloud provider."""

_LEARNERS = range(minor("1.29"), minor("1.33"))
"""Kubernetes versions in which new etcd members first join as learners unless kubeadm is configured otherwise."""


class NodeSettings(NamedTuple):
    """How all machines of a provider register as nodes."""

    kubelet_args: Mapping[str, str]
    cri_socket: str = ""
    name: str = ""
    has_fixed_args: bool = True
    """True if they also have the kubelet flags that are the same for all providers."""

    def flags(self, configuration: object, *, by_settings: bool) -> Mapping[str, str]:
        """The kubelet flags of machines, with those that are fixed unless settings of the operating system apply.

        A KubeletConfiguration can set the fixed ones: with one, the cipher suites move into it (layer
        `provider-settings`), and it or kubeadm's equal defaults determine the others.
        """
        if by_settings or not self.has_fixed_args:
            return self.kubelet_args
        return {**self.kubelet_args, **({"tls-cipher-suites": CIPHER_SUITES} if configuration else _KUBELET_ARGS)}


def with_cloud_controller(render_input: RenderInput) -> Settings:
    """Settings of clusters with a cloud controller manager in the workload cluster."""
    flags = {"cloud-provider": "external"}
    knows_flag = minor(render_input.of_control_plane.version) < _NO_CLOUD_PROVIDER_SINCE
    return Settings(controller_manager=flags, api_server=flags if knows_flag else {})


def members_at_once(render_input: RenderInput) -> dict[str, bool]:
    """Feature gates of kubeadm that make etcd members vote as soon as they join, as in EKS Anywhere; none if
    kubeadm has no such gate.
    """
    return {"EtcdLearnerMode": False} if minor(render_input.of_control_plane.version) in _LEARNERS else {}


def cluster_configuration(render_input: RenderInput, *, cert_sans: tuple[str, ...] = ()) -> ClusterConfiguration:
    """Images and flags of the control plane; `cert_sans` are the provider's additional names in the API server's
    certificate.
    """
    distro = render_input.of_control_plane.distro
    control_plane = render_input.control_plane
    network = render_input.spec.cluster_network
    mask = network.nodes.cidr_mask_size if network and network.nodes else None
    exclusions = admission_exclusions.of(control_plane)
    encryption = etcd_encryption.of(render_input)
    flags = _AUDIT_ARGS | _COMPONENT_ARGS | authentication.flags(render_input) | authenticator.flags(render_input)
    manager_args = _COMPONENT_ARGS | ({"node-cidr-mask-size": str(mask)} if mask is not None else {})
    return ClusterConfiguration(
        image_repository=distro.repository,
        etcd=_etcd(render_input),
        dns=Dns(image_repository=distro.coredns.repository, image_tag=distro.coredns.tag),
        api_server=ApiServer(
            cert_sans=[*cert_sans, *control_plane.cert_sans],
            extra_args=[
                *args(flags | control_plane.api_server_extra_args | encryption.flags),
                *args(authentication.issuer(render_input)),
            ],
            extra_envs=exclusions.variables,
            extra_volumes=[
                HostPathMount(
                    name="audit-policy",
                    host_path=AUDIT_POLICY_FILE,
                    mount_path=AUDIT_POLICY_FILE,
                    path_type="File",
                    read_only=True,
                ),
                HostPathMount(
                    name="audit-log-dir",
                    host_path=AUDIT_LOG_FOLDER,
                    mount_path=AUDIT_LOG_FOLDER,
                    path_type="DirectoryOrCreate",
                    read_only=False,
                ),
                *exclusions.volumes,
                *authenticator.volumes(render_input),
                *encryption.volumes,
            ],
        ),
        controller_manager=Component(extra_args=args(manager_args)),
        scheduler=Component(extra_args=args(_COMPONENT_ARGS)),
    )


def _etcd(render_input: RenderInput) -> Etcd:
    image = render_input.of_control_plane.distro.etcd
    if render_input.spec.external_etcd_configuration is not None:
        return Etcd(
            external=ExternalEtcd(
                endpoints=[external_etcd.PLACEHOLDER],
                ca_file=f"{_CERTIFICATES}/etcd/ca.crt",
                cert_file=f"{_CERTIFICATES}/apiserver-etcd-client.crt",
                key_file=f"{_CERTIFICATES}/apiserver-etcd-client.key",
            )
        )
    return Etcd(
        local=LocalEtcd(
            image_repository=image.repository,
            image_tag=image.tag,
            extra_args=args({"cipher-suites": CIPHER_SUITES}),
        )
    )


def control_plane_config(
    render_input: RenderInput,
    node: NodeSettings,
    *,
    cert_sans: tuple[str, ...] = (),
    by_settings: bool = False,
    usual_taints: list[Taint] | None = None,
) -> KubeadmConfigSpec:
    """The kubeadm configuration of control plane machines.

    `by_settings`: settings of the operating system configure the machine and its kubelet, without files or commands.
    `usual_taints` are the default taints; None leaves them to kubeadm.
    """
    control_plane = render_input.control_plane
    # None keeps kubeadm's own taint; a list replaces it, so that pods run there if there are no workers.
    taints = control_plane.taints or (usual_taints if render_input.groups else [])
    configuration = None if by_settings else control_plane.kubelet_configuration
    patches = Patches(directory=PATCHES_FOLDER) if configuration else None

    def registration() -> NodeRegistration:
        flags = node.flags(control_plane.kubelet_configuration, by_settings=by_settings)
        return _registration(render_input, control_plane.labels, taints, flags, node)

    exclusions = admission_exclusions.of(control_plane)
    setup = node_setup.NOTHING if by_settings else node_setup.setup(render_input)
    audit_policy = control_plane.audit_policy_content or AUDIT_POLICY
    return KubeadmConfigSpec(
        cluster_configuration=cluster_configuration(render_input, cert_sans=cert_sans),
        init_configuration=InitConfiguration(node_registration=registration(), patches=patches),
        join_configuration=JoinConfiguration(node_registration=registration(), patches=patches),
        files=[
            File(path=AUDIT_POLICY_FILE, owner="root:root", permissions="0600", content=audit_policy),
            *_kubelet_files(configuration),
            *exclusions.files,
            *authenticator.files(render_input),
            *etcd_encryption.of(render_input).files,
            *setup.files,
        ],
        pre_kubeadm_commands=setup.commands,
    )


def worker_config(
    render_input: RenderInput,
    group: WorkerNodeGroupConfiguration,
    node: NodeSettings,
    *,
    by_settings: bool = False,
) -> KubeadmConfigSpec:
    """The kubeadm configuration of workers; `by_settings` as for the control plane."""
    flags = node.flags(group.kubelet_configuration, by_settings=by_settings)
    configuration = None if by_settings else group.kubelet_configuration
    setup = node_setup.NOTHING if by_settings else node_setup.setup(render_input)
    return KubeadmConfigSpec(
        join_configuration=JoinConfiguration(
            node_registration=_registration(render_input, group.labels, group.taints or None, flags, node),
            patches=Patches(directory=PATCHES_FOLDER) if configuration else None,
        ),
        files=[*_kubelet_files(configuration), *setup.files],
        pre_kubeadm_commands=setup.commands,
    )


def _registration(
    render_input: RenderInput,
    labels: Mapping[str, str],
    taints: list[Taint] | None,
    kubelet_args: Mapping[str, str],
    node: NodeSettings,
) -> NodeRegistration:
    network = render_input.spec.cluster_network
    flags = dict(kubelet_args)
    if network and network.dns and network.dns.resolv_conf and network.dns.resolv_conf.path:
        flags["resolv-conf"] = network.dns.resolv_conf.path
    if labels:
        flags["node-labels"] = ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
    return NodeRegistration(name=node.name, cri_socket=node.cri_socket, taints=taints, kubelet_extra_args=args(flags))


def _kubelet_files(configuration: dict[str, Any] | None) -> list[File]:
    """The kubeadm patch file with a KubeletConfiguration (JSON is valid YAML)."""
    if not configuration:
        return []
    kinds = {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration"}
    content = json.dumps(kinds | configuration, indent=2, sort_keys=True)
    return [File(path=PATCH, owner="root:root", permissions="0644", content=content + "\n")]
