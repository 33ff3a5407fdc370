"""v0.25.0: the minimum TLS version is set explicitly instead of left to each component's default.

Defaults changed before, and with them which clients could connect. Hardening benchmarks look for the flag itself.
"""

from __future__ import annotations

import semver

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import (
    changed,
    cluster_configuration,
    component_flag,
    each_machine,
    kubelet_flag,
)
from espalier.clusters.design.rendered import Rendered

FLAG = ("tls-min-version", "VersionTLS12")


def _components(configuration: ClusterConfiguration) -> ClusterConfiguration:
    return changed(
        configuration,
        api_server=component_flag(configuration.api_server, *FLAG),
        controller_manager=component_flag(configuration.controller_manager, *FLAG),
        scheduler=component_flag(configuration.scheduler, *FLAG),
    )


def _machine(config: KubeadmConfigSpec, _version: str) -> KubeadmConfigSpec:
    return kubelet_flag(cluster_configuration(config, _components), *FLAG)


def set_tls_min_version(rendered: Rendered) -> Rendered:
    """Set the minimum TLS version of the control plane's components and of every kubelet."""
    return each_machine(rendered, _machine)


LAYER = Layer(
    name="tls-min-version",
    since=semver.Version(0, 25, 0),
    why="The minimum TLS version (1.2) is set on the control plane and on kubelets; this replaces machines.",
    functions=(set_tls_min_version,),
)
