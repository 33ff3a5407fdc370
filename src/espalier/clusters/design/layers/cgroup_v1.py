"""v0.26.0: machines with cgroup v1 become nodes of Kubernetes 1.35 and later, if their KubeletConfiguration says so.

With `failCgroupV1: false` the kubelet starts there; but kubeadm checks the machine first, and refuses cgroup v1 since
1.35 unless the check is ignored.
"""

from __future__ import annotations

import json

import semver

from espalier.api.capi.kubeadm import KubeadmConfigSpec, NodeRegistration
from espalier.api.eksa.parts import kubelet
from espalier.clusterapi.kubernetes_versions import minor
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import changed, each_machine, each_node
from espalier.clusters.design.rendered import Rendered

CHECK = "SystemVerification"
"""kubeadm's check of the machine."""

SINCE = minor("1.35")


def with_cgroup_v1(rendered: Rendered) -> Rendered:
    """Ignore the check on machines whose kubelets are told to start on cgroup v1."""
    return each_machine(rendered, _machine)


def _machine(config: KubeadmConfigSpec, version: str) -> KubeadmConfigSpec:
    file = next((candidate for candidate in config.files if candidate.path == kubelet.PATCH), None)
    if file is None or minor(version) < SINCE:
        return config
    return each_node(config, _without_check) if json.loads(file.content).get("failCgroupV1") is False else config


def _without_check(node: NodeRegistration) -> NodeRegistration:
    ignored = node.ignore_preflight_errors
    return node if CHECK in ignored else changed(node, ignore_preflight_errors=[*ignored, CHECK])


LAYER = Layer(
    name="cgroup-v1",
    since=semver.Version(0, 26, 0),
    why="Machines with cgroup v1 become nodes of Kubernetes 1.35, where kubeletConfiguration.failCgroupV1 is false; "
    "this replaces these machines.",
    functions=(with_cgroup_v1,),
)
