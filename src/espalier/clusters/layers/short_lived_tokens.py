"""v0.26.0, and by consent any older release: tokens of pods end when they say.

kube-apiserver prolongs the tokens of pods from an hour to a year unless it is told otherwise, for clients from before
tokens ended. One that leaks is good for a year.
"""

from __future__ import annotations

import semver

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec
from espalier.clusters.layers.layer import Layer
from espalier.clusters.layers.pieces import changed, cluster_configuration, component_flag, each_machine
from espalier.clusters.rendered import Rendered

FLAG = ("service-account-extend-token-expiration", "false")


def _components(found: ClusterConfiguration) -> ClusterConfiguration:
    return changed(found, api_server=component_flag(found.api_server, *FLAG))


def _machine(config: KubeadmConfigSpec, _version: str) -> KubeadmConfigSpec:
    return cluster_configuration(config, _components)


def end_when_they_say(rendered: Rendered) -> Rendered:
    """kube-apiserver is told not to prolong tokens."""
    return each_machine(rendered, _machine)


LAYER = Layer(
    name="short-lived-tokens",
    since=semver.Version(0, 26, 0),
    why="Tokens of pods end after an hour, not after a year; machines of the control plane are made of it.",
    functions=(end_when_they_say,),
    is_patch=True,
)
