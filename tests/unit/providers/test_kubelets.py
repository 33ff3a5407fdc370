"""The configuration of kubelets where a Cluster has a KubeletConfiguration, which flags would overrule."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa.parts.kubelet import PATCH
from espalier.clusters.design.render.kubeadm import CIPHER_SUITES
from espalier.clusters.design.render.layered import rendered
from tests.support.providers.scopes_of_every_provider import CLUSTERS

IN_FILE = {"read-only-port", "anonymous-auth", "tls-cipher-suites", "tls-min-version", "eviction-hard", "resolv-conf"}
NETWORK = {
    "pods": {"cidrBlocks": ["192.168.0.0/16"]},
    "services": {"cidrBlocks": ["10.96.0.0/12"]},
    "cniConfig": {"cilium": {}},
    "dns": {"resolvConf": {"path": "/run/resolv.conf"}},
}


def configurations(provider: str, kubelet: dict[str, Any]) -> list[KubeadmConfigSpec]:
    """Of the control plane and of all groups of the example, with a KubeletConfiguration each."""
    render_input = CLUSTERS[provider](clusterNetwork=NETWORK).render_input
    assert render_input is not None
    plane = replace(render_input.control_plane, kubelet_configuration=kubelet)
    groups = [replace(group, kubelet_configuration=kubelet) for group in render_input.groups]
    spec = replace(render_input.spec, control_plane_configuration=plane, worker_node_group_configurations=groups)
    cluster = rendered(replace(render_input, spec=spec))
    workers = [group.config_template.spec.template.spec for group in cluster.groups]
    return [cluster.control_plane.spec.kubeadm_config_spec, *workers]


@pytest.mark.parametrize("provider", CLUSTERS)
def test_file_fills_in_and_no_flag_overrules_it(provider: str) -> None:
    for config in configurations(provider, {"maxPods": 50}):
        (file,) = [file for file in config.files if file.path == PATCH]
        settings = json.loads(file.content)
        assert (settings["maxPods"], settings["tlsCipherSuites"]) == (50, [CIPHER_SUITES])
        assert settings["resolvConf"] == "/run/resolv.conf"
        for configuration in (config.init_configuration, config.join_configuration):
            node = configuration.node_registration if configuration is not None else None
            assert node is None or not IN_FILE & {flag.name for flag in node.kubelet_extra_args}


@pytest.mark.parametrize("provider", CLUSTERS)
def test_requested_settings_stay(provider: str) -> None:
    asked = {"tlsCipherSuites": ["TLS_AES_128_GCM_SHA256"], "resolvConf": "/own"}
    for config in configurations(provider, asked):
        (file,) = [file for file in config.files if file.path == PATCH]
        assert asked.items() <= json.loads(file.content).items()
