"""v0.26.0, and by consent any older release: service account tokens of pods expire at their stated time.

By default kube-apiserver extends the tokens of pods from an hour to a year, for clients that can't renew them. A leaked
token is valid for a year.
"""

from __future__ import annotations

import semver

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import changed, cluster_configuration, component_flag, each_machine
from espalier.clusters.design.rendered import Rendered

FLAG = ("service-account-extend-token-expiration", "false")


def _components(configuration: ClusterConfiguration) -> ClusterConfiguration:
    return changed(configuration, api_server=component_flag(configuration.api_server, *FLAG))


def _machine(config: KubeadmConfigSpec, _version: str) -> KubeadmConfigSpec:
    return cluster_configuration(config, _components)


def bound_token_lifetime(rendered: Rendered) -> Rendered:
    """Tell kube-apiserver not to extend tokens."""
    return each_machine(rendered, _machine)


LAYER = Layer(
    name="short-lived-tokens",
    since=semver.Version(0, 26, 0),
    why="Tokens of pods expire after an hour instead of a year; this replaces control plane machines.",
    functions=(bound_token_lifetime,),
    is_patch=True,
)
