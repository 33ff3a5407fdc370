"""v0.25.0: the lowest version of TLS is said, rather than left to what a component was compiled with.

What it was compiled with has changed before, and with it what clients could connect. Benchmarks of hardening look for
the flag itself.
"""

from __future__ import annotations

import semver

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec
from espalier.clusters.layers.layer import Layer
from espalier.clusters.layers.pieces import changed, cluster_configuration, component_flag, each_machine, kubelet_flag
from espalier.clusters.rendered import Rendered

FLAG = ("tls-min-version", "VersionTLS12")


def _components(found: ClusterConfiguration) -> ClusterConfiguration:
    return changed(
        found,
        api_server=component_flag(found.api_server, *FLAG),
        controller_manager=component_flag(found.controller_manager, *FLAG),
        scheduler=component_flag(found.scheduler, *FLAG),
    )


def _machine(config: KubeadmConfigSpec, _version: str) -> KubeadmConfigSpec:
    return kubelet_flag(cluster_configuration(config, _components), *FLAG)


def say_it(rendered: Rendered) -> Rendered:
    """The control plane's components and every kubelet are told the lowest version."""
    return each_machine(rendered, _machine)


LAYER = Layer(
    name="tls-min-version",
    since=semver.Version(0, 25, 0),
    why="The lowest TLS version (1.2) is said to the control plane and to kubelets; machines are made of it.",
    functions=(say_it,),
)
