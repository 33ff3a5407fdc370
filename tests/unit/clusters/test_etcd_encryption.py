"""Data in etcd is encrypted where the provider has a place for the configuration, and else refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.api.capi.kubeadm import ApiServer, KubeadmConfigSpec
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.report.validity import problem
from tests.support.etcd.etcd_encryption import PLUGIN, asked
from tests.support.providers import nutanix, vsphere

MOUNTED = "/etc/kubernetes/enc/encryption-config.yaml"


def of_control_plane(made: Rendered) -> tuple[KubeadmConfigSpec, ApiServer]:
    """How its machines are configured, and what runs there."""
    config = made.control_plane.spec.kubeadm_config_spec
    assert config is not None
    assert config.cluster_configuration is not None
    assert config.cluster_configuration.api_server is not None
    return config, config.cluster_configuration.api_server


@pytest.mark.parametrize("provider", ["nutanix", "vsphere"])
def test_api_server_reads_encryption_from_its_machine(provider: str) -> None:
    more: dict[str, Any] = {"etcdEncryption": asked(PLUGIN | {"cachesize": 5, "timeout": "1s"})}
    if provider == "nutanix":
        made, path = nutanix.made(nutanix.manifest(**more)), MOUNTED
    else:
        made, path = vsphere.made(vsphere.manifest(**more)), "/var/lib/kubeadm/encryption-config.yaml"
    config, server = of_control_plane(made)
    flags = {arg.name: arg.value for arg in server.extra_args}
    assert (flags["encryption-provider-config"], flags["feature-gates"]) == (MOUNTED, "KMSv1=true")
    mounts = {volume.host_path: (volume.mount_path, volume.read_only) for volume in server.extra_volumes}
    assert mounts[path] == (MOUNTED, True)
    assert mounts["/var/run/kmsplugin/"] == ("/var/run/kmsplugin/", False)
    (file,) = [file for file in config.files if file.path == path]
    assert file.permissions == "0600"
    (rule,) = json.loads(file.content)["resources"]
    kms = {"apiVersion": "v1", "name": "vault", "endpoint": PLUGIN["socketListenAddress"]}
    assert rule["providers"] == [{"kms": kms | {"cachesize": 5, "timeout": "1s"}}, {"identity": {}}]
    assert rule["resources"] == ["secrets"]
    assert not [
        file for group in made.groups for file in group.config_template.spec.template.spec.files if "enc" in file.path
    ]


def test_missing_fields_have_defaults_of_eks_anywhere() -> None:
    trees = nutanix.manifest(etcdEncryption=asked(PLUGIN))
    trees[0]["spec"]["controlPlaneConfiguration"]["apiServerExtraArgs"] = {"feature-gates": "A=true"}
    config, server = of_control_plane(nutanix.made(trees))
    gates = [arg.value for arg in server.extra_args if arg.name == "feature-gates"]
    assert gates == ["A=true,KMSv1=true"]
    content = next(file.content for file in config.files if file.path == MOUNTED)
    assert '"cachesize": 1000' in content
    assert '"timeout": "3s"' in content


REFUSED: dict[str, tuple[Any, str]] = {
    "two": (asked(PLUGIN) * 2, "spec.etcdEncryption: only one encryption configuration is supported; merge them"),
    "no plugin": (asked(), "spec.etcdEncryption[0].providers: only one provider is supported; keep one"),
    "two plugins": (asked(PLUGIN, PLUGIN), "found 2 providers; allowed: one"),
    "nothing": (asked(PLUGIN, resources=()), "spec.etcdEncryption[0].resources: say which resources to encrypt"),
    "no resource": (
        asked(PLUGIN, resources=("Secrets",)),
        "not the name of a resource, with its group if it has one; found Secrets",
    ),
    "no name": (asked(PLUGIN | {"name": ""}), "providers[0].kms.name: name the KMS plugin; found nothing"),
    "no socket": (asked(PLUGIN | {"socketListenAddress": "tcp://a:1"}), "kms.socketListenAddress: not a socket that"),
    "a socket elsewhere": (
        asked(PLUGIN | {"socketListenAddress": "unix:///tmp/a"}),
        "not a socket that the API server",
    ),
    "no cache": (asked(PLUGIN | {"cachesize": 0}), "kms.cachesize: not a cache size; found 0"),
    "no time": (asked(PLUGIN | {"timeout": "0s"}), "kms.timeout: not a timeout; found 0s"),
    "no unit of time": (asked(PLUGIN | {"timeout": "5 apples"}), "kms.timeout: not a timeout; found 5 apples"),
    "a name with a colon": (asked(PLUGIN | {"name": "a:b"}), "kms.name: name the KMS plugin; found a:b"),
    "another time": (asked(PLUGIN | {"timeout": "soon"}), "kms.timeout: not a timeout; found soon"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unstartable_encryption_is_refused(name: str) -> None:
    value, sentence = REFUSED[name]
    result = problem(nutanix.seen(nutanix.manifest(etcdEncryption=value)))
    assert result is not None
    assert sentence in result.message


@pytest.mark.parametrize("socket", ["unix:///@vault", "unix:///var/run/kmsplugin/a.sock"])
def test_sockets_that_api_server_finds_are_accepted(socket: str) -> None:
    trees = nutanix.manifest(etcdEncryption=asked(PLUGIN | {"socketListenAddress": socket, "cachesize": -1}))
    assert problem(nutanix.seen(trees)) is None
