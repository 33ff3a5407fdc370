"""Differences between Kubernetes versions, also those that only a user's own Bundles have."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import ClusterConfiguration, KubeadmConfigSpec
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.rendered import Rendered
from tests.support.etcd.etcd_encryption import PLUGIN, asked
from tests.support.providers.scopes_of_every_provider import CLUSTERS


def of_version(provider: str, minor: str, **spec: Any) -> Rendered:
    """The cluster of the example, as if it were of this Kubernetes version."""
    render_input = CLUSTERS[provider](**spec).render_input
    assert render_input is not None
    components = {
        name: msgspec.structs.replace(
            component, distro=msgspec.structs.replace(component.distro, version=f"v{minor}.4-eks-1")
        )
        for name, component in render_input.components.items()
    }
    return rendered(msgspec.structs.replace(render_input, components=components))


def plane(cluster: Rendered) -> tuple[KubeadmConfigSpec, ClusterConfiguration]:
    config = cluster.control_plane.spec.kubeadm_config_spec
    assert config.cluster_configuration is not None
    return config, config.cluster_configuration


def api_server_flags(cluster: ClusterConfiguration) -> dict[str, str]:
    assert cluster.api_server is not None
    return {flag.name: flag.value for flag in cluster.api_server.extra_args}


@pytest.mark.parametrize("provider", CLUSTERS)
@pytest.mark.parametrize(("minor", "there"), [("1.28", False), ("1.29", True), ("1.32", True), ("1.33", False)])
def test_members_of_etcd_vote_at_once_behind_a_gate(provider: str, minor: str, there: bool) -> None:
    _, cluster = plane(of_version(provider, minor))
    has = there and provider not in ("docker", "nutanix")
    assert cluster.feature_gates == ({"EtcdLearnerMode": False} if has else {})


@pytest.mark.parametrize("provider", CLUSTERS)
@pytest.mark.parametrize(("minor", "there"), [("1.32", True), ("1.33", False)])
def test_api_server_gets_its_cloud_provider_by_flag(provider: str, minor: str, there: bool) -> None:
    _, cluster = plane(of_version(provider, minor))
    has = provider in ("cloudstack", "nutanix", "vsphere")
    manager = cluster.controller_manager
    assert manager is not None
    assert ("cloud-provider" in {flag.name for flag in manager.extra_args}) is has
    assert api_server_flags(cluster).get("cloud-provider") == ("external" if has and there else None)


@pytest.mark.parametrize("provider", CLUSTERS)
@pytest.mark.parametrize(("minor", "there"), [("1.28", False), ("1.29", True)])
def test_kube_vip_has_its_rights_on_the_first_machine(provider: str, minor: str, there: bool) -> None:
    config, _ = plane(of_version(provider, minor))
    commands = [command for command in config.pre_kubeadm_commands if "super-admin.conf" in command]
    assert bool(commands) is (there and provider != "docker")
    for command in commands:
        (manifest,) = [file.content for file in config.files if file.path in command]
        assert manifest.count(command.partition("s#")[2].partition("#")[0]) == 1


@pytest.mark.parametrize("provider", ["cloudstack", "nutanix", "vsphere"])
@pytest.mark.parametrize(("minor", "gates"), [("1.28", None), ("1.29", "KMSv1=true")])
def test_kms_version_1_is_enabled_where_it_is_off(provider: str, minor: str, gates: str | None) -> None:
    _, cluster = plane(of_version(provider, minor, etcdEncryption=asked(PLUGIN)))
    assert api_server_flags(cluster).get("feature-gates") == gates
