"""Functions that change a part of rendered objects: each returns a copy and leaves the original unchanged."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi.bottlerocket import FORMAT
from espalier.api.capi.kubeadm import (
    ApiServer,
    Arg,
    ClusterConfiguration,
    Component,
    KubeadmConfigSpec,
    NodeRegistration,
)
from espalier.clusters.design.rendered import Manifest, Rendered, RenderedGroup

C = TypeVar("C", ApiServer, Component)

changed = msgspec.structs.replace


def each_machine(rendered: Rendered, change: Callable[[KubeadmConfigSpec, str], KubeadmConfigSpec]) -> Rendered:
    """Apply `change` to the kubeadm configuration of all machines: of the control plane and of all groups.

    It gets the Kubernetes version of the machine as well.
    """

    def of_group(group: RenderedGroup) -> RenderedGroup:
        template = group.config_template
        inner = template.spec.template
        spec = changed(
            template.spec, template=changed(inner, spec=change(inner.spec, group.deployment.spec.template.spec.version))
        )
        return replace(group, config_template=changed(template, spec=spec))

    control_plane = rendered.control_plane
    config = change(control_plane.spec.kubeadm_config_spec, control_plane.spec.version)
    return replace(
        rendered,
        control_plane=changed(control_plane, spec=changed(control_plane.spec, kubeadm_config_spec=config)),
        groups=tuple(of_group(group) for group in rendered.groups),
    )


def cluster_configuration(
    config: KubeadmConfigSpec, change: Callable[[ClusterConfiguration], ClusterConfiguration]
) -> KubeadmConfigSpec:
    """Apply `change` to kubeadm's ClusterConfiguration; workers don't get it."""
    configuration = config.cluster_configuration
    return config if configuration is None else changed(config, cluster_configuration=change(configuration))


def flag(args: list[Arg], name: str, value: str) -> list[Arg]:
    """Add a flag unless the user gave it."""
    return args if any(arg.name == name for arg in args) else [*args, Arg(name=name, value=value)]


def component_flag(component: C | None, name: str, value: str) -> C | None:
    """Add a flag of a component unless the user gave it."""
    if component is None:
        return None
    return changed(component, extra_args=flag(component.extra_args, name, value))


def kubelet_flag(config: KubeadmConfigSpec, name: str, value: str) -> KubeadmConfigSpec:
    """Add a kubelet flag unless the user gave it. On Bottlerocket, kubelets have settings and no flags."""
    if config.format == FORMAT:
        return config
    return each_node(config, lambda node: changed(node, kubelet_extra_args=flag(node.kubelet_extra_args, name, value)))


def each_node(config: KubeadmConfigSpec, change: Callable[[NodeRegistration], NodeRegistration]) -> KubeadmConfigSpec:
    """Apply `change` to the node registration of the machine that initializes the cluster and of those that join."""
    spec = config
    init, join = config.init_configuration, config.join_configuration
    if init is not None and init.node_registration is not None:
        spec = changed(spec, init_configuration=changed(init, node_registration=change(init.node_registration)))
    if join is not None and join.node_registration is not None:
        spec = changed(spec, join_configuration=changed(join, node_registration=change(join.node_registration)))
    return spec


def each_manifest(rendered: Rendered, change: Callable[[Manifest], Manifest]) -> Rendered:
    """Apply `change` to every object of the CNI."""
    return replace(rendered, cni=tuple(map(change, rendered.cni)))
