"""v0.26.0: settings and audit policy of EKS Anywhere's clusters, and kubelets that apply all of their configuration.

Providers determine the settings (`Rendered.settings`). A kubelet flag overrides the kubelet's configuration: a field of
`kubeletConfiguration` had no effect where a flag set the same thing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import semver
from msgspec.structs import replace

from espalier.api.capi.kubeadm import Arg, ClusterConfiguration, File, KubeadmConfigSpec, NodeRegistration
from espalier.api.capi.machine import TemplateMeta
from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.parts import kubelet
from espalier.clusters.design import audit_policy
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import (
    changed,
    cluster_configuration,
    component_flag,
    each_machine,
    each_node,
    flag,
)
from espalier.clusters.design.rendered import Rendered, RenderedGroup

NODE_ROLE = {"node-role.kubernetes.io/control-plane": ""}

_FIELDS = {
    "cgroup-driver": "cgroupDriver",
    "eviction-hard": "evictionHard",
    "fail-cgroupv1": "failCgroupV1",
    "resolv-conf": "resolvConf",
    "tls-cipher-suites": "tlsCipherSuites",
    "tls-min-version": "tlsMinVersion",
}
"""The fields of a KubeletConfiguration that correspond to flags."""


def with_audit_policy(spec: ClusterSpec) -> ClusterSpec:
    """Set EKS Anywhere's audit policy if the Cluster has none."""
    control_plane = spec.control_plane_configuration
    if control_plane is None or control_plane.audit_policy_content:
        return spec
    control_plane = changed(control_plane, audit_policy_content=audit_policy.policy())
    return changed(spec, control_plane_configuration=control_plane)


def with_settings(rendered: Rendered) -> Rendered:
    """Set the provider's settings of cluster and kubelets, and the role of control plane machines."""
    settings = rendered.settings

    def of_cluster(configuration: ClusterConfiguration) -> ClusterConfiguration:
        manager = configuration.controller_manager
        for name, value in settings.controller_manager.items():
            manager = component_flag(manager, name, value)
        server = configuration.api_server
        for name, value in settings.api_server.items():
            server = component_flag(server, name, value)
        gates = {**settings.feature_gates, **configuration.feature_gates}
        return changed(configuration, api_server=server, controller_manager=manager, feature_gates=gates)

    def of_node(node: NodeRegistration, version: str) -> NodeRegistration:
        given = node.kubelet_extra_args
        for name, value in settings.kubelet.get(version, {}).items():
            given = flag(given, name, value)
        return changed(node, kubelet_extra_args=given)

    def of_machine(config: KubeadmConfigSpec, version: str) -> KubeadmConfigSpec:
        own = cluster_configuration(config, of_cluster)
        return _with_moved_flags(each_node(own, lambda node: of_node(node, version)))

    changed_machines = each_machine(rendered, of_machine)
    spec = changed_machines.control_plane.spec
    template = spec.machine_template
    labels = (template.metadata.labels if template.metadata else {}) | NODE_ROLE
    template = changed(template, metadata=changed(template.metadata or TemplateMeta(), labels=labels))
    cluster = changed_machines.cluster
    network = cluster.spec.cluster_network
    if settings.service_domain and network is not None:
        network = changed(network, service_domain=settings.service_domain)
        cluster = changed(cluster, spec=changed(cluster.spec, cluster_network=network))
    if settings.empty_worker_taints:
        changed_machines = replace(changed_machines, groups=tuple(map(_without_taints, changed_machines.groups)))
    return replace(
        changed_machines,
        cluster=cluster,
        control_plane=changed(changed_machines.control_plane, spec=changed(spec, machine_template=template)),
    )


def _without_taints(group: RenderedGroup) -> RenderedGroup:
    """The same group, with an explicit empty list if its machines have no taints."""

    def of_node(node: NodeRegistration) -> NodeRegistration:
        return changed(node, taints=[]) if node.taints is None else node

    template = group.config_template
    inner = template.spec.template
    inner = changed(inner, spec=each_node(inner.spec, of_node))
    return replace(group, config_template=changed(template, spec=changed(template.spec, template=inner)))


def _with_moved_flags(config: KubeadmConfigSpec) -> KubeadmConfigSpec:
    """Move kubelet flags into a given KubeletConfiguration, whose own values override them."""
    file = next((candidate for candidate in config.files if candidate.path == kubelet.PATCH), None)
    if file is None:
        return config
    given: dict[str, Any] = json.loads(file.content)
    settings: dict[str, Any] = {}

    def of_node(node: NodeRegistration) -> NodeRegistration:
        flags = {arg.name: arg.value for arg in node.kubelet_extra_args}
        settings.update({_FIELDS[name]: _value(name, value) for name, value in flags.items() if name in _FIELDS})
        # The driver is the machine's, and a flag in EKS Anywhere as well.
        moved = _FIELDS.keys() - ({"cgroup-driver"} if "cgroupDriver" not in given else set())
        remaining = [Arg(name=name, value=value) for name, value in flags.items() if name not in moved]
        return changed(node, kubelet_extra_args=remaining)

    changed_config = each_node(config, of_node)
    if "cgroupDriver" not in given:
        settings.pop("cgroupDriver", None)
    content = json.dumps(settings | given, indent=2, sort_keys=True) + "\n"
    files: list[File] = [changed(other, content=content) if other is file else other for other in config.files]
    return changed(changed_config, files=files)


def _value(name: str, value: str) -> Any:
    if name == "eviction-hard":
        pairs: Mapping[str, str] = dict(pair.split("<", 1) for pair in value.split(","))
        return pairs
    if name == "tls-cipher-suites":
        return value.split(",")
    return value == "true" if name == "fail-cgroupv1" else value


LAYER = Layer(
    name="provider-settings",
    since=semver.Version(0, 26, 0),
    why="Clusters get the settings and the audit policy of EKS Anywhere, and kubelets apply all fields of "
    "kubeletConfiguration; this replaces machines.",
    functions=(with_settings,),
    defaults=(with_audit_policy,),
)
